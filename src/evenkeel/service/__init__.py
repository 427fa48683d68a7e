"""One learner in production: taught and queried over HTTP; what it acknowledged survives a crash."""
