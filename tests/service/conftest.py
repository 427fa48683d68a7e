"""Fixtures of these tests."""

from tests.helpers.services import opened

__all__ = ["opened"]
