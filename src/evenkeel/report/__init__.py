"""Runs as one self-contained HTML page: a report of everything, or one figure of the CBA paper."""
