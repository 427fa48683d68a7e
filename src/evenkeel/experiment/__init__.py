"""One run: a config, its data, a learner, and the records of what happened."""
