"""Configs: read TOML, validate the settings, and build a learner from them."""
