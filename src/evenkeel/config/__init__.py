"""From TOML to checked settings to a learner."""
