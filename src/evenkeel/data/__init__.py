"""Data: sets and their readers, scenarios, streams."""
