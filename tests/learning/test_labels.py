"""Labels of any kind, and their outputs."""

import json
from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.errors import CheckpointError, InputError, SettingsError
from evenkeel.learning.labels import LabelMap, as_labels


class Colour(Enum):
    RED = 1
    BLUE = 2


KINDS: dict[str, tuple[Any, list[Hashable]]] = {
    "strings": (["cat", "dog"], ["cat", "dog"]),
    "integers": ((3, 7), [3, 7]),
    "numpy-integers": (np.array([3, 7], dtype=np.uint8), [3, 7]),
    "numpy-strings": (np.array(["cat", "dog"]), ["cat", "dog"]),
    "numpy-scalars": ([np.int64(3), np.str_("cat")], [3, "cat"]),
    "torch": (torch.tensor([3, 7]), [3, 7]),
    "torch-scalars": ([torch.tensor(3), torch.tensor(7)], [3, 7]),
    "bools": (torch.tensor([True, False]), [True, False]),
    "tuples": ([("cat", 1), ("dog", 2)], [("cat", 1), ("dog", 2)]),
    "mixed": (["cat", 3, 2.0, ("a", None, 2.5)], ["cat", 3, 2.0, ("a", None, 2.5)]),
    "range": (range(2), [0, 1]),
    "generator": ((name for name in ("cat", "dog")), ["cat", "dog"]),
    "enum": ([Colour.RED], [Colour.RED]),
    "empty": ([], []),
}


@pytest.mark.parametrize(("given_", "expected"), KINDS.values(), ids=KINDS)
def test_labels_become_plain_objects(given_: Any, expected: list[Hashable]) -> None:
    labels = as_labels(given_)
    assert labels == expected
    assert [type(label) for label in labels] == [type(label) for label in expected]


REFUSED: dict[str, tuple[object, str]] = {
    "a-bare-string": ("cat", "y must be a sequence of labels, but it is the single value 'cat'"),
    "bytes": (b"cat", "it is the single value b'cat'"),
    "a-number": (3, "it is the single value 3"),
    "none": (None, "it is the single value None"),
    "two-dimensions": (torch.zeros(2, 3), r"y must have one dimension, .*, but its shape is \(2, 3\)"),
    "no-dimension": (torch.tensor(3), r"its shape is \(\)"),
    "one-hot-array": (np.eye(2), r"its shape is \(2, 2\)"),
    "unhashable": ([[1], [2]], r"The label \[1\] is not hashable; use a string, a number or a tuple"),
    "unhashable-within": ([({},)], r"The label \({},\) is not hashable"),
    "nan": ([1.0, float("nan")], "The label at index 1 of y is missing: it is nan"),
    "numpy-nan": (np.array([1.0, np.nan]), "at index 1 of y is missing: it is nan"),
    "torch-nan": (torch.tensor([torch.nan]), "at index 0 of y is missing: it is nan"),
    "no-label": (["cat", None], "at index 1 of y is missing: it is None"),
    "empty-text": (["", "cat"], "at index 0 of y is missing: it is ''"),
    "fractions": ([1, 2.5], "The label at index 1 of y is 2.5; a label is a whole number, a text, or a tuple"),
    "fractions-of-torch": (torch.tensor([0.5]), "at index 0 of y is 0.5"),
}


@pytest.mark.parametrize(("y", "sentence"), REFUSED.values(), ids=REFUSED)
def test_anything_but_a_batch_of_labels_is_refused(y: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        as_labels(y)


def test_a_list_of_one_hot_tensors_is_refused() -> None:
    with pytest.raises(InputError):
        as_labels([torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])])


def test_numpy_scalars_in_an_array_of_objects_become_plain() -> None:
    assert [type(label) for label in as_labels(np.array([np.int64(3), "cat"], dtype=object))] == [int, str]


# ---- the map ----

LABELS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.text("aé\U0001f600 '", max_size=4),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.tuples(st.integers(0, 3), st.text("ab", max_size=2)),
)
BATCHES = st.lists(st.lists(LABELS, max_size=5), max_size=6)


@given(BATCHES)
@settings(deadline=None)
def test_labels_take_outputs_in_order_of_arrival(batches: list[list[Hashable]]) -> None:
    labels = LabelMap()
    for batch in batches:
        known = list(labels.names)
        new = labels.unknown(batch)
        assert labels.names == known  # the query changes nothing
        assert new == [label for label in dict.fromkeys(batch) if label not in known]
        labels.add(new)
        assert labels.names == known + new
        assert labels.unknown(batch) == []
        assert [labels.names[output] for output in labels.outputs(batch).tolist()] == batch
        assert labels.outputs(batch).dtype == torch.int64
        assert labels.named(labels.outputs(batch)).tolist() == batch


NAMED: dict[str, tuple[list[Hashable], type[np.generic]]] = {
    "integers": ([3, 7, -1], np.int64),
    "strings": (["cat", "elephant", "é"], np.str_),
    "bools": ([True, False], np.object_),
    "floats": ([2.0, 3.0], np.object_),
    "tuples": ([("a", 1), ("b", 2)], np.object_),
    "tuples-of-one-length": ([(1, 2), (3, 4)], np.object_),
    "mixed": ([3, "cat"], np.object_),
    "integers-past-64-bits": ([1, 2**70], np.object_),
}


@pytest.mark.parametrize(("names", "kind"), NAMED.values(), ids=NAMED)
def test_predictions_are_arrays_of_integers_or_strings_if_all_labels_are(
    names: list[Hashable], kind: type[np.generic]
) -> None:
    named = LabelMap(names).named(torch.tensor([1, 0, 1]))
    assert named.dtype.type is kind
    assert named.shape == (3,)
    assert named.tolist() == [names[1], names[0], names[1]]


# NumPy would turn these integers into floats, and it strips trailing NULs from text.
@pytest.mark.parametrize("names", [[-1, 2**63 + 1], ["a\0", "b"]], ids=["integers-of-two-kinds", "trailing-nul"])
def test_predictions_are_the_labels_themselves(names: list[Hashable]) -> None:
    assert LabelMap(names).named(torch.tensor([0, 1])).tolist() == names


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            "kat",
            r"The label 'kat' is not one of the 3 classes given at the start \('cat', 'dog', 'horse'\)\. Did .* 'cat",
        ),
        (1, r"The label 1 is not one of the 3 classes"),
        ("zebra", r"\('cat', 'dog', 'horse'\)\.$"),
    ],
    ids=["misspelt", "another-type", "nothing-near"],
)
def test_fixed_classes_accept_no_others(wrong: Hashable, sentence: str) -> None:
    labels = LabelMap(["cat", "dog", "horse"])
    assert labels.outputs(["horse", "cat"]).tolist() == [2, 0]
    with pytest.raises(InputError, match=sentence):
        labels.unknown(["cat", wrong])
    assert labels.unknown(["dog", "cat"]) == []


def test_a_long_list_of_classes_is_shortened() -> None:
    with pytest.raises(InputError, match=r"100 classes given at the start \(0, 1, 2, 3, 4, \.\.\.\)"):
        LabelMap(range(100)).unknown([1000])


@pytest.mark.parametrize("names", [["cat", "dog", "cat"], [1, True], [1, np.int64(1)]], ids=repr)
def test_fixed_classes_are_listed_once(names: list[Hashable]) -> None:
    with pytest.raises(SettingsError, match="lists a label twice"):
        LabelMap(names)


def test_a_bare_string_as_classes_is_refused_with_the_name_of_the_setting() -> None:
    with pytest.raises(SettingsError, match="classes"):
        LabelMap("cat")


# ---- in a checkpoint ----


def round_trip(labels: LabelMap, given_: Sequence[Hashable] | None = None) -> LabelMap:
    return LabelMap.from_state(json.loads(json.dumps(labels.state())), given_)


@given(st.lists(st.one_of(LABELS, st.tuples(LABELS, LABELS)), unique=True, max_size=6), st.booleans())
@settings(deadline=None)
def test_labels_survive_json(names: list[Hashable], fixed: bool) -> None:
    labels = LabelMap()
    labels.add(labels.unknown(names))  # even those that `as_labels` refuses: older checkpoints may hold them
    labels.fixed = fixed
    again = round_trip(labels)
    assert again.names == names
    assert [type(name) for name in again.names] == [type(name) for name in names]
    assert again.fixed is fixed
    assert again.outputs(names).tolist() == list(range(len(names)))


def test_fixed_classes_stay_fixed() -> None:
    with pytest.raises(InputError, match="not one of the 2 classes"):
        round_trip(LabelMap(["cat", "dog"])).unknown(["cow"])
    assert round_trip(LabelMap()).unknown(["cow"]) == ["cow"]


OPAQUE: dict[str, list[Hashable]] = {
    "enum": ["cat", Colour.RED],
    "bytes": [b"cat", "dog"],
    "frozenset": [frozenset({1})],
    "within-a-tuple": [("cat", Colour.RED)],
    "deep-within": [("cat", ("dog", b"x"))],
}


@pytest.mark.parametrize("names", OPAQUE.values(), ids=OPAQUE)
def test_labels_that_json_cannot_hold_must_be_passed(names: list[Hashable]) -> None:
    labels = LabelMap(names)
    with pytest.raises(CheckpointError, match=rf"cannot hold \(.*Pass labels=\[\.\.\.\], all {len(names)} of them"):
        round_trip(labels)
    again = round_trip(labels, given_=names)
    assert again.names == names
    assert again.fixed


def test_labels_passed_must_be_as_many_as_before() -> None:
    with pytest.raises(CheckpointError, match="labels has 1 entries, but the checkpoint has 2 labels"):
        round_trip(LabelMap([b"cat", b"dog"]), given_=[b"cat"])


def test_labels_passed_must_differ() -> None:
    with pytest.raises(CheckpointError):
        round_trip(LabelMap([b"cat", b"dog"]), given_=[b"cat", b"cat"])


def test_names_are_looked_up_in_the_labels_of_now() -> None:
    """Also of other types than before, and after some were dropped: the array of all is made only when they change."""
    labels = LabelMap()
    labels.add([7, 8])
    assert labels.named(torch.tensor([1, 0])).tolist() == [8, 7]
    assert labels.named(torch.tensor([1])) is not labels.named(torch.tensor([1]))
    labels.add(["x"])
    assert labels.named(torch.tensor([2, 0])).tolist() == ["x", 7]
    labels.drop(["x"])
    labels.add([9])
    assert labels.named(torch.tensor([2, 0])).tolist() == [9, 7]
    assert labels.named(torch.tensor([2])).dtype.kind == "i"
    assert labels._table is not None
    assert labels.copy().named(torch.tensor([2])).tolist() == [9]
