"""The service over HTTP: routes, requests, responses, keys, limits, and the dashboard."""
