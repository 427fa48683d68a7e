"""Samples: data sets and their readers, scenarios, streams."""
