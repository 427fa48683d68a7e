"""The mapping between labels and outputs of the head."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from evenkeel.errors import CheckpointError, InputError, SettingsError, nearest, some

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def as_labels(y: object, name: str = "y") -> list[Hashable]:
    """Return labels as plain Python objects; raise InputError if they are not a sequence of hashable values."""
    if isinstance(y, str | bytes) or not isinstance(y, Iterable):
        raise InputError(f"{name} must be a sequence of labels, but it is the single value {y!r}.")
    if isinstance(y, Tensor | np.ndarray):
        if y.ndim != 1:
            raise InputError(
                f"{name} must have one dimension, with one entry per label, but its shape is {tuple(y.shape)}."
            )
        whole = y.dtype.kind in "biu" if isinstance(y, np.ndarray) else y.dtype in INTEGERS
        y = y.tolist()
        if whole:
            return cast(list[Hashable], y)  # there is nothing to check, and this is done in every step
    labels: list[Any] = [item.item() if isinstance(item, np.generic) or _is_number(item) else item for item in y]
    for place, label in enumerate(labels):
        if isinstance(label, Tensor | np.ndarray):
            raise InputError(f"A label in {name} is an array of shape {tuple(label.shape)}; it must be a single value.")
        try:
            hash(label)
        except TypeError:
            raise InputError(f"The label {label!r} is not hashable; use a string, a number or a tuple.") from None
        if label is None or label == "" or label != label:  # noqa: PLR0124 - NaN is the one that differs from itself
            raise InputError(f"The label at index {place} of {name} is missing: it is {label!r}.")
        if isinstance(label, float) and not label.is_integer():
            raise InputError(
                f"The label at index {place} of {name} is {label!r}; a label is a whole number, a text, or a tuple."
            )
    return labels


def _is_number(item: object) -> bool:
    return isinstance(item, Tensor | np.ndarray) and item.ndim == 0


class LabelMap:
    """A map from labels to outputs: in order of arrival, or fixed beforehand.

    >>> labels = LabelMap()
    >>> labels.add(labels.unknown(["cat", "dog", "cat"]))
    >>> labels.outputs(["dog", "cat"])
    tensor([1, 0])
    """

    def __init__(self, fixed: Sequence[Hashable] | None = None) -> None:
        self.fixed = fixed is not None
        try:
            self.names: list[Hashable] = [] if fixed is None else as_labels(fixed, "classes")
        except InputError as error:
            raise SettingsError(str(error)) from None
        self._output = {name: output for output, name in enumerate(self.names)}
        self._table: np.ndarray[Any, np.dtype[Any]] | None = None  # the names as an array, once it was needed
        if len(self._output) < len(self.names):
            raise SettingsError("classes lists a label twice; each label has one output.")

    def __contains__(self, label: Hashable) -> bool:
        return label in self._output

    def unknown(self, labels: Sequence[Hashable]) -> list[Hashable]:
        """Return the labels without an output, in order of arrival; raise InputError if the classes are fixed."""
        new = [label for label in dict.fromkeys(labels) if label not in self._output]
        if new and self.fixed:
            raise InputError(
                f"The label {new[0]!r} is not one of the {len(self.names)} classes given at the start"
                f" ({some(self.names)}).{nearest(new[0], self.names)}"
            )
        return new

    def add(self, new: Iterable[Hashable]) -> None:
        """Give each new label the next output."""
        for label in new:
            self._output[label] = len(self.names)
            self.names.append(label)
            self._table = None

    def drop(self, new: Sequence[Hashable]) -> None:
        """Remove the labels that were added last."""
        for label in new:
            del self._output[label]
            self._table = None
        del self.names[len(self.names) - len(new) :]

    def outputs(self, labels: Sequence[Hashable]) -> Tensor:
        """Return (labels,) the outputs of known labels."""
        return torch.tensor([self._output[label] for label in labels], dtype=torch.int64)

    def named(self, outputs: Tensor) -> "np.ndarray[Any, np.dtype[Any]]":
        """Return the labels at `outputs`: an array of integers or strings if all labels are such, else of objects."""
        if self._table is None:
            self._table = self._as_array()
        named: np.ndarray[Any, np.dtype[Any]] = self._table[outputs.cpu().numpy()]
        return named

    def _as_array(self) -> "np.ndarray[Any, np.dtype[Any]]":
        table: np.ndarray[Any, np.dtype[Any]]
        if all(type(name) is int and abs(name) < 2**63 for name in self.names):
            table = np.fromiter(cast(list[int], self.names), dtype=np.int64)
        elif all(type(name) is str and not name.endswith("\0") for name in self.names):  # numpy strips trailing NULs
            table = np.array(self.names, dtype=np.str_)
        else:
            table = np.fromiter(self.names, dtype=object)
        return table

    def copy(self) -> "LabelMap":
        """Return an independent copy; the labels themselves are the same objects."""
        copied = LabelMap()
        copied.add(self.names)
        copied.fixed = self.fixed
        return copied

    def state(self) -> dict[str, Any]:
        """Return the map as JSON, for `from_state`."""
        return {"fixed": self.fixed, "names": [_encode(name) for name in self.names]}

    @classmethod
    def from_state(cls, state: dict[str, Any], given: Sequence[Hashable] | None = None) -> "LabelMap":
        """Return the map of a checkpoint. `given` replaces its labels, which is needed if JSON could not hold them."""
        names = [_decode(name) for name in state["names"]] if given is None else as_labels(given)
        opaque = [name.text for name in names if isinstance(name, _Opaque)]
        if opaque:
            raise CheckpointError(
                f"The checkpoint's labels are objects that a file cannot hold ({some(opaque)}). "
                f"Pass labels=[...], all {len(names)} of them in the order of learner.classes."
            )
        if len(set(names)) < len(names):
            raise CheckpointError("labels lists a label twice; each label has one output.")
        if len(names) != len(state["names"]):
            raise CheckpointError(
                f"labels has {len(names)} entries, but the checkpoint has {len(state['names'])} labels."
            )
        restored = cls()
        restored.add(names)
        restored.fixed = bool(state["fixed"])
        return restored


class _Opaque:
    """A stand-in for a label that JSON could not hold; `text` is its repr."""

    def __init__(self, text: str) -> None:
        self.text = text


def _encode(name: Hashable) -> Any:
    """Return text, numbers, None and tuples of them as JSON; of anything else only its repr."""
    if name is None or type(name) in (bool, int, float, str):
        return name
    if type(name) is tuple:
        items = [_encode(item) for item in name]
        if not any(isinstance(item, dict) and "object" in item for item in items):
            return {"tuple": items}
    return {"object": repr(name)}


def _decode(value: Any) -> Hashable:
    if not isinstance(value, dict):
        return cast(Hashable, value)
    if "tuple" in value:
        return tuple(_decode(item) for item in value["tuple"])
    return _Opaque(value["object"])
