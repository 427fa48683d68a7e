"""Runs as one self-contained HTML page: a full report, or one figure of the CBA paper."""
