"""Hashes of keys and samples."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.errors import InputError
from evenkeel.learning.hashing import hash_key, hash_keys

# ---- keys ----


@pytest.mark.parametrize(
    "same",
    [
        (7, np.int64(7), np.uint8(7), torch.tensor(7), np.array(7)),
        ("anna", np.str_("anna")),
        (b"anna", np.bytes_(b"anna")),
    ],
    ids=["integers", "strings", "bytes"],
)
def test_one_key_in_many_types_has_one_hash(same: Sequence[object]) -> None:
    assert len({hash_key(key) for key in same}) == 1


def test_different_keys_have_different_hashes() -> None:
    keys = [7, "7", b"7", "", 0, -7, "anna", "Anna", *range(1000, 2000)]
    assert len({hash_key(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", [None, 7.0, ("anna", 3), ["anna"], object(), torch.ones(2), np.ones(2)], ids=type)
def test_a_value_that_cannot_be_reproduced_is_no_key(key: object) -> None:
    """A float may be rounded, and an object is another one in another process."""
    with pytest.raises(InputError, match="A key must be a string, bytes or a whole number, but"):
        hash_key(key)


def test_a_hash_does_not_depend_on_the_process() -> None:
    """Python's own hash of a string does; a key must still match after loading a checkpoint elsewhere."""
    assert hash_key("anna") == 6210743931197739096


@given(st.one_of(st.integers(), st.text("a\u00e9 '"), st.binary()))
@settings(deadline=None)
def test_a_hash_fits_its_column_and_never_means_no_key(key: object) -> None:
    value = hash_key(key)
    assert value != 0
    assert torch.tensor([value], dtype=torch.int64).item() == value


def test_one_key_for_all_or_one_for_each() -> None:
    assert hash_keys(None, 3).tolist() == [0, 0, 0]
    assert hash_keys("anna", 2).tolist() == [hash_key("anna")] * 2
    each = [hash_key("anna"), hash_key("bob")]
    for keys in (["anna", "bob"], ("anna", "bob"), np.array(["anna", "bob"]), iter(["anna", "bob"])):
        assert hash_keys(keys, 2).tolist() == each
    assert hash_keys(torch.tensor([1, 2]), 2).tolist() == [hash_key(1), hash_key(2)]
    assert hash_keys(torch.tensor(1), 2).tolist() == [hash_key(1)] * 2
    assert all(hash_keys(key, 2).dtype == torch.int64 for key in (None, "anna", ["anna", "bob"]))


def test_keys_must_be_as_many_as_samples() -> None:
    with pytest.raises(InputError, match="key has 2 entries, but x has 3 samples"):
        hash_keys(["anna", "bob"], 3)
