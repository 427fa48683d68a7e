"""Runs: from a config to records."""

from evenkeel.experiment.config import Config
from evenkeel.experiment.loading import load_config, presets
from evenkeel.experiment.run import run

__all__ = ["Config", "load_config", "presets", "run"]
