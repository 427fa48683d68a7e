"""One learner: network, method, adaptor, memory, and the step that joins them. Needs torch and numpy only."""
