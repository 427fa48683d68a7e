"""`evenkeel data show`: what it says of large data."""

import tracemalloc

import numpy as np
import pytest

import evenkeel as ek
from evenkeel.cli.data import data_table


def test_moments_are_counted_in_blocks() -> None:
    x = np.random.default_rng(0).integers(0, 256, (6000, 3, 16, 16), dtype=np.uint8)
    y = np.arange(6000) % 2
    data = ek.DataSet.of(x, y, x[:2], y[:2])
    tracemalloc.start()
    table = data_table(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes  # numpy's own mean, or counts of the whole, take eight bytes per pixel
    shown = next(str(row.cells[1].value) for row in table.rows if row.cells[0].value == "normalize")
    means, stds = ([float(each) for each in part.split("]")[0].split(",")] for part in shown.split("[")[1:])
    scaled = x / 255
    assert means == pytest.approx(scaled.mean(axis=(0, 2, 3)), abs=1e-4)
    assert stds == pytest.approx(scaled.std(axis=(0, 2, 3)), abs=1e-4)
