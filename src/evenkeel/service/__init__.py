"""A learner in production: taught and asked over HTTP, killed at any moment, and back without a loss."""
