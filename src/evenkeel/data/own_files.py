"""Your own data in files: images, tables, arrays. Each is a source by name, for configs and `load_data`."""
# ruff: noqa: ARG001 - all sources have one signature, even those that report no progress

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from evenkeel.data import cache
from evenkeel.data.dataset import DataSet, Progress
from evenkeel.data.readers import csv_files, folders, images, tables
from evenkeel.data.readers import parquet as parquet_files
from evenkeel.data.readers.npz import read_npz
from evenkeel.data.readers.places import existing
from evenkeel.errors import DataError, reason


def folder(
    root: Path | None,
    *,
    progress: Progress,
    path: str | Path,
    size: images.Size = None,
    test_share: float = 0.25,
    seed: int = 0,
) -> DataSet:
    """Your own images: `path/train/<class>/*` and `path/test/<class>/*`, or `path/<class>/*`, which is split."""
    where, sides = existing(path, root), images.parse_size(size)
    listings = folders.list_folder(where, test_share=test_share, seed=seed)
    read = partial(folders.read_listing, listings, name=str(where), size=sides)
    settings = {"source": "folder", "size": sides, "test_share": test_share, "seed": seed}
    return cache.load(where.resolve().name, settings, listed(listings), read, progress)


def parquet(
    root: Path | None,
    *,
    progress: Progress,
    path: str | Path,
    image: str | None = None,
    label: str | None = None,
    size: images.Size = None,
    standardize: bool = False,
    one_hot: bool = False,
    test_share: float = 0.25,
    seed: int = 0,
) -> DataSet:
    """Your own parquet: `train*` and `test*.parquet`, or one file; images, lists of floats, texts, or many columns."""
    where, sides = existing(path, root), images.parse_size(size)
    share: dict[str, Any] = {"test_share": test_share, "seed": seed}
    if where.is_file():
        return _single_parquet(where, image, label, standardize=standardize, one_hot=one_hot, **share)
    candidates = [shards for one in (where, *sorted(where.glob("*/"))) if (shards := parquet_files.find_shards(one))]
    if not candidates:
        raise DataError(f"{where} has no files train*.parquet.")
    shards, name = candidates[0], where.resolve().name
    features = parquet_files.feature_column(shards[0][0], image)
    if features is not None:
        (x_train, x_test), (y_train, y_test), classes = parquet_files.read_features(
            shards, name=str(where), features=features, label=label
        )
        return DataSet.of(x_train, y_train, x_test, y_test, classes=classes, name=name, standardize=standardize)
    if parquet_files.is_wide(shards[0][0], image):
        both = [parquet_files.whole_table(files) for files in shards]
        return _wide(both, where, label=label, sample=image, standardize=standardize, one_hot=one_hot)
    if standardize:
        raise DataError(f"The samples of {where} are images; leave out standardize.")
    read = partial(parquet_files.read_images, shards, name=str(where), image=image, label=label, size=sides)
    settings = {"source": "parquet", "image": image, "label": label, "size": sides}
    return cache.load(name, settings, [*shards[0], *shards[1]], read, progress)


def _single_parquet(file: Path, image: str | None, label: str | None, **how: Any) -> DataSet:
    """Return a set of one file, which is split: of a column of features, or of many columns."""
    if parquet_files.feature_column(file, image) is not None:
        rows = list(parquet_files.rows_of(file, sample=image, label=label, labelled=True))
        x, y = np.stack([np.asarray(cell) for cell, _, _ in rows]), [row for _, row, _ in rows]
        return DataSet.of((x, y), name=file.stem, **how)
    if not parquet_files.is_wide(file, image):
        raise DataError(f"{file} is a single file; give the folder that has train*.parquet and test*.parquet.")
    return _wide([parquet_files.whole_table([file])], file, label=label, sample=image, **how)


def csv(
    root: Path | None,
    *,
    progress: Progress,
    path: str | Path,
    label: str | None = None,
    sample: str | None = None,
    standardize: bool = False,
    one_hot: bool = False,
    header: bool = True,
    delimiter: str | None = None,
    test_share: float = 0.25,
    seed: int = 0,
) -> DataSet:
    """Your own CSV, of numbers or texts: one file, which is split, or a folder with `train*.csv` and `test*.csv`."""
    where = existing(path, root)
    files = _split_files(where, (".csv", ".tsv"))
    both, label = csv_files.read_labelled(
        files, str(where), label=label, sample=sample, header=header, delimiter=delimiter
    )
    how = {"standardize": standardize, "one_hot": one_hot, "test_share": test_share, "seed": seed}
    return _wide(both, where, label=label, sample=sample, **how)


def jsonl(
    root: Path | None,
    *,
    progress: Progress,
    path: str | Path,
    label: str | None = None,
    sample: str | None = None,
    size: images.Size = None,
    standardize: bool = False,
    one_hot: bool = False,
    test_share: float = 0.25,
    seed: int = 0,
) -> DataSet:
    """Your own JSON lines: a label, and `x` (a list), `image` (base64), `text`, or a field for each number."""
    where = existing(path, root)
    files = _split_files(where, (".jsonl", ".ndjson"))
    both = [tables.joined([tables.read_json_lines(file) for file in each], str(where)) for each in files]
    share: dict[str, Any] = {"test_share": test_share, "seed": seed}
    names = both[0].column_names
    chosen = sample or next((name for name in ("x", "image", "text") if name in names), None)
    label = label or ("label" if "label" in names else None)
    if chosen is None:
        both = [each.drop_columns(["id"]) if "id" in each.column_names and label != "id" else each for each in both]
        return _wide(both, where, label=label, standardize=standardize, one_hot=one_hot, **share)
    sides = images.parse_size(size)
    train, *test = [tables.sample_pairs(each, str(where), chosen, label, sides) for each in both]
    return DataSet.of(train, test=test[0] if test else None, name=where.stem, standardize=standardize, **share)


def npz(root: Path | None, *, progress: Progress, path: str | Path) -> DataSet:
    """Your own arrays x_train, y_train, x_test, y_test, and optionally names, in one .npz file."""
    return read_npz(existing(path, root))


def huggingface(
    root: Path | None,
    *,
    progress: Progress,
    path: str,
    config: str | None = None,
    train: str = "train",
    test: str | None = "test",
    streaming: bool = False,
    sample: str | None = None,
    label: str | None = None,
    size: images.Size = None,
    standardize: bool = False,
    test_share: float = 0.25,
    seed: int = 0,
) -> DataSet:
    """A Hugging Face data set by its name on the hub or a path, from the user's cache; needs the package datasets."""
    try:
        load_dataset: Any = import_module("datasets").load_dataset
    except ImportError:
        raise DataError("data.name = 'huggingface' needs the package datasets: pip install datasets.") from None
    try:
        splits = [
            None if split is None else load_dataset(path, config, split=split, streaming=streaming)
            for split in (train, test)
        ]
    except Exception as error:  # of datasets, fsspec, httpx or the hub, by version
        raise DataError(
            f"The Hugging Face data set {path!r} cannot be loaded ({reason(error)}). Without the network it must be in "
            "the cache of Hugging Face, or a folder."
        ) from error
    return DataSet.of(
        splits[0],
        test=splits[1],
        name=Path(path).name,
        sample=sample,
        label=label,
        size=size,
        standardize=standardize,
        test_share=test_share,
        seed=seed,
    )


def listed(listings: tuple[folders.Listing, folders.Listing]) -> list[Path]:
    """Return all files of a set."""
    return [file for listing in listings for file, _ in listing]


def _split_files(where: Path, suffixes: tuple[str, ...]) -> list[list[Path]]:
    """Return one file, which is to be split, or the training and the test files of a folder."""
    if where.is_file():
        return [[where]]
    files = {
        part: sorted(file for file in where.glob(f"{part}*") if file.suffix in suffixes)
        for part in ("train", *folders.TESTS)
    }
    test = next((files[part] for part in folders.TESTS if files[part]), [])
    if not files["train"] or not test:
        lacking = "train" if not files["train"] else "test"
        raise DataError(
            f"{where} has no files {lacking}*{suffixes[0]}; it needs train*{suffixes[0]} and test*{suffixes[0]}."
        )
    return [files["train"], test]


def _wide(both: Sequence[Any], where: Path, **how: Any) -> DataSet:
    """Return a set of a table of training rows and one of test rows, or of one to split."""
    train, *test = both
    return DataSet.of(*tables.wide_data((train, test[0] if test else None), str(where), **how), name=where.stem)
