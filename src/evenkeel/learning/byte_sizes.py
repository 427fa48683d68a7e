"""Amounts of bytes written as text, such as "8MB"."""

import re

from evenkeel.errors import SettingsError

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(text: str) -> int:
    """Return the number of bytes that `text` stands for; raise SettingsError if it is not an amount of bytes.

    >>> parse_bytes("8MB"), parse_bytes("1.5 KiB")
    (8000000, 1536)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    size = 0 if match is None else int(float(match[1]) * _UNITS.get(match[2].upper(), 0))
    if not size:
        raise SettingsError(
            f"memory={text!r} is neither a number of samples nor an amount of bytes such as '8MB' or '512KiB'."
        )
    return size
