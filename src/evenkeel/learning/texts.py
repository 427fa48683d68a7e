"""Texts as samples: rows of UTF-8 bytes, filled up with zeros, so that all that handles arrays handles texts.

The shape of such a sample is (), whatever the number of its bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

TEXT_BYTES = 2_000  # what a learner reads of a text; most models read less (512 tokens)
NEEDS_ENCODER = (
    'Texts need an encoder that turns them into vectors: net.encoder = { name = "text", model = "..." } in a config, '
    'ek.Net(backbone, head, encoder=ek.TextEncoder("...")) in Python.'
)


class TextModule(nn.Module):
    """An encoder of texts. `forward` takes a list of texts and returns a tensor with a row for each.

    >>> class Length(TextModule):
    ...     def forward(self, texts: list[str]) -> Tensor:
    ...         return Tensor([[len(text)] for text in texts])
    """


def takes_texts(module: nn.Module) -> bool:
    """Return whether an encoder, or the first of several, takes texts."""
    return isinstance(module[0] if isinstance(module, nn.Sequential) and len(module) else module, TextModule)


def are_texts(x: object) -> bool:
    """Return whether these samples are texts: a list or an array of them."""
    if isinstance(x, np.ndarray):
        return x.ndim == 1 and bool(x.size) and (x.dtype.kind == "U" or all(isinstance(each, str) for each in x))
    return isinstance(x, list | tuple) and bool(x) and all(isinstance(each, str) for each in x)


def packed(texts: Sequence[str] | NDArray[Any]) -> NDArray[np.uint8]:
    """Return (texts, bytes of the longest). What is beyond TEXT_BYTES is cut off.

    >>> packed(["no", "yes"])
    array([[110, 111,   0],
           [121, 101, 115]], dtype=uint8)
    """
    return from_bytes([to_bytes(text) for text in texts])


def to_bytes(text: str) -> bytes:
    """Return what a learner reads of a text."""
    return text.encode("utf-8", "replace")[:TEXT_BYTES]


def from_bytes(rows: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return (texts, bytes of the longest)."""
    width = max([1, *map(len, rows)])
    joined = b"".join(row.ljust(width, b"\0") for row in rows)
    return np.frombuffer(bytearray(joined), dtype=np.uint8).reshape(len(rows), width)


def unpacked(rows: Any) -> list[str]:
    """Return the texts of (texts, bytes).

    >>> unpacked(packed(["no", "yes"]))
    ['no', 'yes']
    """
    array = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
    return [row.tobytes().rstrip(b"\0").decode("utf-8", "ignore") for row in array.astype(np.uint8)]
