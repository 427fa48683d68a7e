"""Runs as one self-contained HTML file: tables, figures, and what it takes to repeat each run."""

from evenkeel.report.page import write_report

__all__ = ["write_report"]
