"""What several tests share: streams, learners, runs, files, servers, slow reference versions."""
