"""A data set: samples and labels of two splits, validated once, with a digest that identifies its exact content."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenkeel.data.readers.tables import standardized
from evenkeel.errors import DataError, fraction, nearest, whole_number
from evenkeel.learning.inputs import is_channels_last
from evenkeel.learning.rng import make_generator
from evenkeel.learning.texts import are_texts, packed, unpacked

Progress = Callable[[str, int, int], None]
"""Called with a description of the work, how much of it is done, and the total."""


@dataclass(frozen=True)
class Split:
    """Samples and their labels. `x` may be a read-only memory map."""

    x: NDArray[Any]  # (n, channels, height, width) uint8, (n, features...) float32, or texts as (n, bytes) uint8
    y: NDArray[np.int64]  # (n,) indices into the classes
    classes: tuple[str, ...] = ()  # those of its data set

    def __len__(self) -> int:
        return len(self.y)

    @property
    def labels(self) -> list[str]:
        """Return the class name of each sample."""
        return [self.classes[place] for place in self.y.tolist()]

    @property
    def sample(self) -> tuple[int, ...]:
        """Return the shape of a sample; () of texts."""
        return () if self.x.ndim == 2 and self.x.dtype == np.uint8 else self.x.shape[1:]

    @property
    def texts(self) -> list[str]:
        """Return the samples as texts; raise DataError if they are none."""
        if self.sample != ():
            raise DataError(f"These samples are no texts: they are {self.x.dtype} of shape {self.sample}.")
        return unpacked(self.x)


@dataclass(frozen=True)
class DataSet:
    """The training and test data of a run. Every class has samples in both splits."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    digest: str  # of classes, shapes, dtypes and content, however the set is stored on disk

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            object.__setattr__(self, name, replace(getattr(self, name), classes=self.classes))

    @classmethod
    def of(
        cls,
        x_train: object,
        y_train: object = None,
        x_test: object = None,
        y_test: object = None,
        *,
        test: object = None,
        classes: Sequence[object] | None = None,
        name: str = "arrays",
        label: str | None = None,
        sample: str | None = None,
        size: int | Sequence[int] | None = None,
        standardize: bool = False,
        one_hot: bool = False,
        test_share: float = 0.25,
        seed: int = 0,
    ) -> "DataSet":
        """Return a data set made of your own data: four arrays, or one object with samples and labels.

        x: images as uint8, (n, height, width) or with channels first or last, any floats (n, ...), or texts. y: labels,
        whole numbers or strings; if `classes` are strings, whole numbers are indices into them.

        Instead of four arrays: a data frame of pandas or polars, a torch Dataset or DataLoader, a Hugging Face data set
        (or dict of splits, or a stream, which is read to its end), or (x, y). `test` is another one; without it, a
        share of `test_share` is split off. label, sample: names of columns; the label is in "label", "labels", "target"
        or "class", or else in the last. size: to which images are resized. standardize: subtract the mean of the
        training samples and divide by their deviation, for floats only. one_hot: make a column of each category of a
        column of texts in a frame.

        >>> data = DataSet.of(np.zeros((3, 2)), ["cat", "dog", "cat"], np.ones((2, 2)), ["dog", "cat"])
        >>> data.classes, data.train.y.tolist(), data.train.x.dtype.name
        (('cat', 'dog'), [0, 1, 0], 'float32')
        """
        if y_train is None:
            from evenkeel.data.readers.objects import read_objects

            arrays, named = read_objects(
                x_train,
                test,
                name,
                sample=sample,
                label=label,
                size=size,
                standardize=standardize,
                one_hot=one_hot,
                test_share=test_share,
                seed=seed,
            )
            return cls.of(*arrays, classes=classes or named, name=name)
        if x_test is None or y_test is None:
            raise DataError(
                f"{name}: give x_test and y_test too, or the pair alone, of which a part is split off: (x, y)."
            )
        columns = {"test": test, "label": label, "sample": sample, "size": size, "one_hot": one_hot or None}
        if unused := [setting for setting, value in columns.items() if value is not None]:
            raise DataError(f"{name}: {', '.join(unused)} cannot be used with four arrays; leave it out.")
        samples = [_samples(x, f"x_{split} of {name}") for x, split in ((x_train, "train"), (x_test, "test"))]
        shapes = [Split(x, np.empty(0, np.int64)).sample for x in samples]
        if shapes[0] != shapes[1] or samples[0].dtype != samples[1].dtype:
            kinds = " and ".join(f"{shape} {x.dtype}" for shape, x in zip(shapes, samples, strict=True))
            raise DataError(f"Samples of x_train and x_test of {name} must have one shape and dtype, but are {kinds}.")
        if standardize:
            samples = list(standardized(samples[0], samples[1], name))
        labels, names = encode(y_train, y_test, classes, name)
        for x, y, split in zip(samples, labels, ("train", "test"), strict=True):
            if len(x) != len(y):
                raise DataError(f"x_{split} of {name} has {len(x)} samples, but y_{split} has {len(y)} labels.")
        train, test = (Split(x, y) for x, y in zip(samples, labels, strict=True))
        return cls(name, train, test, names, content_digest(train, test, names))

    def limited(self, *, train: int | None = None, test: int | None = None, held_out: float | None = None) -> "DataSet":
        """Return a set with only the first `train` and `test` samples of each class, in order, for short runs.

        held_out: the share of the remaining training samples to hold out. They become the test samples of the new set;
        the old test samples are not used.
        """
        splits = _first(self.train, train, "train"), _first(self.test, test, "test")
        if held_out is not None:
            splits = self._held_out(splits[0], held_out)
        return DataSet(self.name, *splits, self.classes, content_digest(*splits, self.classes))

    def _held_out(self, split: Split, part: float) -> tuple[Split, Split]:
        """Return what is left of `split` and what is held out: the same for all seeds, so that runs can be compared."""
        sizes = np.bincount(split.y, minlength=len(self.classes))
        counts = np.rint(fraction("held_out", part) * sizes).astype(np.int64)
        wrong = np.flatnonzero((counts < 1) | (counts >= sizes))
        if len(wrong):
            raise DataError(
                f"held_out={part} of the class {self.classes[wrong[0]]!r} of {self.name} is {counts[wrong[0]]} of its "
                f"{sizes[wrong[0]]} training samples, but at least one must be held out and one left to learn from."
            )
        drawn = torch.randperm(len(split), generator=make_generator(0, "held out")).numpy()
        labels = split.y[drawn]
        held = np.sort(drawn[_rank(labels) < counts[labels]])
        left = np.setdiff1d(drawn, held)
        return Split(split.x[left], split.y[left]), Split(split.x[held], split.y[held])


def content_digest(train: Split, test: Split, classes: Sequence[str]) -> str:
    digest = hashlib.sha256(json.dumps(list(classes)).encode())
    for array in (train.x, train.y, test.x, test.y):
        digest.update(f"{array.dtype.name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def encode(
    y_train: object, y_test: object, classes: Sequence[object] | None, name: str
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[str, ...]]:
    """Return the labels of both splits as indices into the classes, and the class names."""
    train, test = _labels(y_train, f"y_train of {name}"), _labels(y_test, f"y_test of {name}")
    known = _unique(train) if classes is None else list(classes)
    names = tuple(str(one) for one in known)
    if len(set(names)) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise DataError(f"The class {twice!r} of {name} is named twice.")
    by_index = classes is not None and all(isinstance(one, str) for one in known)
    pair = _indices(train, known, by_index, f"y_train of {name}"), _indices(test, known, by_index, f"y_test of {name}")
    for y, split in zip(pair, ("training", "test"), strict=True):
        missing = np.flatnonzero(np.bincount(y, minlength=len(names)) == 0)
        if len(missing):
            others = f" (nor do {len(missing) - 1} other classes)" if len(missing) > 1 else ""
            raise DataError(f"The class {names[missing[0]]!r} of {name} has no {split} sample{others}.")
    return pair, names


def _labels(y: object, where: str) -> NDArray[Any]:
    """Return (n,) whole numbers or strings."""
    labels: NDArray[Any] = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.dtype == object:
        items = labels.ravel().tolist()
        for kind in (str, int):
            if all(isinstance(item, kind) for item in items):
                labels = np.array(items, dtype=kind).reshape(labels.shape)
    elif labels.dtype.kind == "f" and labels.ndim == 1 and (labels == np.rint(labels)).all():
        labels = labels.astype(np.int64)
    _refuse_missing(labels, where)
    if labels.ndim != 1:
        raise DataError(f"{where} must have one dimension, with one entry per label, but its shape is {labels.shape}.")
    if labels.size and labels.dtype.kind not in "iubU":
        raise DataError(f"{where} must be whole numbers or strings, but they are {labels.dtype}.")
    return labels.astype(np.int64) if labels.dtype.kind == "b" else labels


def _refuse_missing(labels: NDArray[Any], where: str) -> None:
    """Raise DataError with the index of a label that is missing, or no whole number."""
    for place, label in enumerate(labels.tolist() if labels.dtype.kind in "fOU" and labels.ndim == 1 else ()):
        if label is None or label == "" or label != label:  # noqa: PLR0124 - NaN
            raise DataError(f"{where} has no label at index {place}.")
        if isinstance(label, float) and not label.is_integer():
            raise DataError(f"{where} has the label {label!r} at index {place}; it must be a whole number or a text.")


def _unique(labels: NDArray[Any]) -> list[Any]:
    values: list[Any] = np.unique(labels).tolist()
    return values


def _indices(labels: NDArray[Any], known: list[Any], by_index: bool, where: str) -> NDArray[np.int64]:
    if by_index and labels.dtype.kind in "iu":
        wrong = np.flatnonzero((labels < 0) | (labels >= len(known)))
        if len(wrong):
            raise DataError(
                f"{where} has the label {labels[wrong[0]]} at index {wrong[0]}, "
                f"but the {len(known)} classes are 0 to {len(known) - 1}."
            )
        return labels.astype(np.int64)
    index = {one: place for place, one in enumerate(known)}
    values, inverse = np.unique(labels, return_inverse=True)
    unknown = next((one for one in values.tolist() if one not in index), None)
    if unknown is not None:
        raise DataError(
            f"{where} has the label {unknown!r}, which is not one of the {len(known)} classes.{nearest(unknown, known)}"
        )
    table = np.array([index[one] for one in values.tolist()], dtype=np.int64)
    return table[inverse]


def _samples(x: object, where: str) -> NDArray[Any]:
    """Return samples in the form that a split has; the array itself if it has it already."""
    if are_texts(x):
        texts = list(cast("Sequence[str]", x))
        empty = next((place for place, text in enumerate(texts) if not text.strip()), None)
        if empty is not None:
            raise DataError(f"{where} has an empty text at index {empty}.")
        return packed(texts)
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() else x).numpy()
    array: NDArray[Any] = np.asarray(x)
    if array.ndim < 2 or not array.size:
        raise DataError(f"{where} must hold samples of at least one number each, but its shape is {array.shape}.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(channels_first(array, where))
    if array.dtype.kind != "f":
        raise DataError(f"{where} is {array.dtype}; images are uint8 and features floats.")
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite and are reported below
        features = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(features).reshape(len(features), -1).all(axis=1)
    if not finite.all():
        raise DataError(f"{where} has a number that is not finite in float32 at index {int(finite.argmin())}.")
    return features


def channels_first(images: NDArray[np.uint8], where: str) -> NDArray[np.uint8]:
    """Return images with a dimension of channels, before height and width."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim != 4:
        raise DataError(
            f"{where} is uint8, so it must be images of 3 or 4 dimensions, but its shape is {images.shape}; "
            "features are floats."
        )
    return images.transpose(0, 3, 1, 2) if is_channels_last(images.shape[1:]) else images


def _first(split: Split, count: int | None, setting: str) -> Split:
    if count is None:
        return split
    whole_number(setting, count, at_least=1)
    kept = np.flatnonzero(_rank(split.y) < count)
    return Split(split.x[kept], split.y[kept])


def _rank(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (n,) the place of each sample among those of its class, from 0."""
    order = np.argsort(labels, kind="stable")
    of_order = labels[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.searchsorted(of_order, of_order)
    return rank
