"""A fixture that opens services in this process."""

from tests.helpers.services import opened

__all__ = ["opened"]
