"""64-bit hashes of keys and samples."""

import hashlib
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from evenkeel.errors import InputError


def hash_samples(x: Tensor, salt: int) -> Tensor:
    """Return (n,) 64-bit hashes of the rows' bytes: a random weighted sum modulo 2^64, its bits then mixed."""
    rows = x.contiguous().flatten(1).view(torch.uint8)
    weights = torch.randint(-(2**63), 2**63 - 1, rows.shape[1:], generator=torch.Generator().manual_seed(salt))
    hashes = (rows.long() * weights.to(rows.device)).sum(dim=1)
    hashes = (hashes ^ (hashes >> 32)) * 0x2545F4914F6CDD1D
    return hashes ^ (hashes >> 29)


def hash_key(key: object) -> int:
    """Return a key as a 64-bit number: the memory need not hold a user's name to forget that user's data."""
    if isinstance(key, np.generic) or (isinstance(key, Tensor | np.ndarray) and key.ndim == 0):
        key = key.item()  # so that 7 is the same key as a Python, numpy or torch number
    if not isinstance(key, str | bytes | int):
        raise InputError(f"A key must be a string, bytes or a whole number, but {key!r} is a {type(key).__name__}.")
    digest = hashlib.blake2b(f"{type(key).__name__}:{key!r}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1  # 0 marks a sample without a key


def hash_keys(key: object, samples: int) -> Tensor:
    """Return (samples,) hashes of `key`: one key for all samples, or a sequence with one per sample."""
    if key is None:
        return torch.zeros(samples, dtype=torch.int64)
    if isinstance(key, str | bytes) or not isinstance(key, Iterable) or (isinstance(key, Tensor) and not key.ndim):
        return torch.full((samples,), hash_key(key))
    keys = [hash_key(one) for one in key]
    if len(keys) != samples:
        raise InputError(f"key has {len(keys)} entries, but x has {samples} samples.")
    return torch.tensor(keys)
