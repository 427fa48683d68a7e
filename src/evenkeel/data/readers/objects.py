"""Data that is already in Python: data frames, torch data sets and loaders, Hugging Face data sets, pairs of arrays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenkeel.data.readers import images, tables
from evenkeel.data.readers.splits import stratified
from evenkeel.errors import DataError, nearest
from evenkeel.learning.texts import are_texts

Rows = tuple[Any, Any]  # samples and labels


def read_objects(
    train: object,
    test: object,
    where: str,
    *,
    sample: str | None,
    label: str | None,
    size: images.Size,
    standardize: bool,
    one_hot: bool,
    test_share: float,
    seed: int,
) -> tuple[tuple[Any, Any, Any, Any], list[str] | None]:
    """Return x_train, y_train, x_test, y_test of one object of each split, or of one to split, and the class names."""
    if isinstance(train, Mapping) and "train" in train:  # datasets.DatasetDict, or a dict of splits
        test = (
            test if test is not None else next((train[name] for name in ("test", "validation") if name in train), None)
        )
        train = train["train"]
    if (table := as_table(train)) is not None:
        given = (table, None if test is None else as_table(test))
        wide = tables.wide_data(
            given,
            where,
            label=label,
            sample=sample,
            standardize=standardize,
            one_hot=one_hot,
            test_share=test_share,
            seed=seed,
        )
        return wide, None
    names = _class_names(train, label)
    sides = images.parse_size(size)
    x, y = _pairs(train, where, sample, label, sides)
    if test is None:
        kept, tested = stratified(y.tolist(), test_share, seed, where)
        x_test, y_test, x, y = x[tested], y[tested], x[kept], y[kept]
    else:
        x_test, y_test = _pairs(test, f"{where} (test)", sample, label, sides)
    if standardize:
        x, x_test = tables.standardized(x, x_test, where)
    return (x, y, x_test, y_test), names


def as_table(given: object) -> Any:
    """Return a data frame of pandas or polars, or a table of pyarrow, as the latter; None if it is none of them."""
    library = type(given).__module__.partition(".")[0]
    if library == "pandas":
        import pyarrow as pa

        return pa.Table.from_pandas(given, preserve_index=False)
    if library == "polars":
        return given.collect().to_arrow() if type(given).__name__ == "LazyFrame" else given.to_arrow()  # type: ignore[attr-defined]
    return given if library == "pyarrow" else None


def _class_names(given: object, label: str | None) -> list[str] | None:
    """Return the names that a Hugging Face data set has for its labels."""
    features = getattr(given, "features", None)
    if not isinstance(features, Mapping):
        return None
    column = tables.label_column(list(features), label, "the data set")
    names = getattr(features[column], "names", None)
    return None if names is None else list(map(str, names))


def _pairs(
    given: object, where: str, sample: str | None, label: str | None, size: tuple[int, int] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return samples and labels, each as one array."""
    if isinstance(given, tuple) and len(given) == 2:
        samples, labels = _arrays(*given, where, size)
    else:
        samples, labels = _collected(given, where, sample, label, size)
    if len(samples) != len(labels):
        raise DataError(f"{where} has {len(samples)} samples, but {len(labels)} labels.")
    return samples, tables.labels_of(labels, where)


def _arrays(x: Any, y: object, where: str, size: tuple[int, int] | None) -> tuple[NDArray[Any], list[object]]:
    if are_texts(x):
        return np.array(x), _as_list(y)
    if size is None:
        return _numbers(x), _as_list(y)
    return np.stack([_sample(each, size, f"{where}, item {place}") for place, each in enumerate(x)]), _as_list(y)


def _collected(
    given: object, where: str, sample: str | None, label: str | None, size: tuple[int, int] | None
) -> tuple[NDArray[Any], list[object]]:
    """Return the samples of a data set that is read item by item, or batch by batch."""
    samples: list[Any] = []
    labels: list[object] = []
    for place, item in enumerate(_items(given, where)):
        x, y = _pair(item, f"{where}, item {place}", sample, label)
        if isinstance(given, torch.utils.data.DataLoader):  # a batch of them
            samples.extend(_arrays(x, y, where, size)[0])
            labels.extend(_as_list(y))
        else:
            samples.append(_sample(x, size, f"{where}, item {place}"))
            labels.extend(_as_list([y]))
    if not samples:
        raise DataError(f"{where} has no samples.")
    if are_texts(samples):
        return np.array(samples), labels
    if {np.shape(each)[0] for each in samples if np.ndim(each) == 3} == {1, 3}:  # some images are gray
        samples = [np.repeat(each, 3, axis=0) if len(each) == 1 else each for each in samples]
    odd = next((place for place, each in enumerate(samples) if np.shape(each) != np.shape(samples[0])), None)
    if odd is not None:
        raise DataError(
            f"{where}, item {odd}, has the shape {np.shape(samples[odd])}, but the first one has "
            f"{np.shape(samples[0])}; for images, give a size to resize all to."
        )
    return np.stack(samples), labels


def _items(given: object, where: str) -> Iterable[Any]:
    if isinstance(given, torch.utils.data.Dataset) and not isinstance(given, torch.utils.data.IterableDataset):
        return (given[place] for place in range(len(given)))  # type: ignore[arg-type]
    if isinstance(given, Iterable):
        return given
    raise DataError(
        f"{where} is a {type(given).__name__}. Give arrays (x_train, y_train, x_test, y_test), a data frame of pandas "
        "or polars, a torch Dataset or DataLoader, or a Hugging Face data set."
    )


def _pair(item: object, where: str, sample: str | None, label: str | None) -> Rows:
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    if not isinstance(item, Mapping):
        raise DataError(f"{where}: is a {type(item).__name__}; it must be (sample, label), or a dict with both.")
    names = list(item)
    wanted = tables.label_column(names, label, where)
    others = [sample] if sample else [name for name in names if name != wanted]
    if sample is not None and sample not in item:
        raise DataError(f"{where}, has no column {sample!r}; it has {', '.join(names)}.{nearest(sample, names)}")
    if len(others) == 1:
        return item[others[0]], item[wanted]
    numbers = [item[name] for name in others]
    if not all(isinstance(number, int | float) for number in numbers):
        raise DataError(
            f"{where}, has the columns {', '.join(others)} besides the label {wanted!r}; choose one with sample=, "
            "unless all are numbers."
        )
    return numbers, item[wanted]


def _sample(x: object, size: tuple[int, int] | None, where: str) -> NDArray[Any] | str:
    if type(x).__module__.startswith("PIL."):
        return images.pixels_of(x, size)
    if isinstance(x, str):
        if not x.strip():
            raise DataError(f"{where} is an empty text.")
        return x
    try:
        array = _numbers(x)
    except (TypeError, ValueError):
        raise DataError(f"{where} is a {type(x).__name__}, which is no array of numbers and no image.") from None
    if size is not None:
        return images.resized(array, size, where)
    return array if array.ndim > 1 or array.dtype != np.uint8 else array.astype(np.float32)


def _numbers(x: object) -> NDArray[Any]:
    """Return pixels as uint8, and any other numbers as 32-bit floats."""
    array: NDArray[Any] = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    return array if array.dtype == np.uint8 else array.astype(np.float32)


def _as_list(y: object) -> list[object]:
    """Return labels as Python objects."""
    if isinstance(y, Tensor | np.ndarray):
        return list(y.tolist()) if y.ndim else [y.item()]
    items: Sequence[object] = list(y) if isinstance(y, Iterable) and not isinstance(y, str) else [y]
    return [
        item.item() if isinstance(item, Tensor | np.generic | np.ndarray) and item.ndim == 0 else item for item in items
    ]
