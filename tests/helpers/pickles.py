"""Small versions of the original CIFAR-10 files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evenkeel.data.readers.names import CIFAR10
from tests.helpers.data_files import pictures, python2_pickle

TRAIN, TEST = pictures(20), pictures(10, seed=1)


def cifar10_files(dump: Callable[[Any], bytes] = python2_pickle) -> dict[str, bytes]:
    """Return batches of four images; sample i has the class i % 10."""
    names = list(CIFAR10)
    files = {"batches.meta": dump({"num_cases_per_batch": 4, "label_names": names, "num_vis": 3072})}
    batches = {f"data_batch_{number + 1}": slice(number * 4, number * 4 + 4) for number in range(5)}
    for name, rows in batches.items():
        files[name] = dump(batch(TRAIN[rows], (np.arange(20) % 10)[rows].tolist()))
    return files | {"test_batch": dump(batch(TEST, list(range(10))))}


def batch(pixels: np.ndarray[Any, Any], labels: list[int]) -> dict[str, Any]:
    names = [f"{place}.png" for place in range(len(pixels))]
    data = np.ascontiguousarray(pixels.reshape(len(pixels), -1))
    return {"batch_label": "a batch", "labels": labels, "data": data, "filenames": names}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder
