"""Checksums of the journal's rows: a flipped byte is found before it is learned."""

import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

BATCH = 1_000_003  # a row's checksum is that of its content plus this times its batch, so that SQL can change the batch


def row_checksum(content: Sequence[Any], batch: int | None) -> int:
    """Return the checksum of a row of examples; its content is seq, id, own, digest, label and x."""
    seq, id, own, digest, label, x = content
    head = repr((seq, id, bool(own), digest, label, x is None)).encode()
    return zlib.crc32(x or b"", zlib.crc32(head)) + BATCH * (batch or 0)


def is_whole(content: Sequence[Any], batch: int | None, checksum: int | None) -> bool:
    """Check whether the content of a row is what was written."""
    with suppress(TypeError):  # a damaged row may hold other types
        return row_checksum(content, batch) == checksum
    return False
