"""Runs as one self-contained HTML file: a report of all there is, or one figure of the CBA paper."""

from evenkeel.report.page import write_report
from evenkeel.report.paper import FIGURES, write_figure

__all__ = ["FIGURES", "write_figure", "write_report"]
