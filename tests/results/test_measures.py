"""Measures are computed from records, whatever the runs themselves wrote down when they ended."""

from pathlib import Path
from statistics import fmean

import pytest

import evenkeel as ek
from evenkeel.results.measures import HEADLINE, MEASURES
from evenkeel.results.overview import measures_table
from evenkeel.results.run_files import find_runs

LEDGERS = Path(__file__).parents[2] / "results"


def test_the_headline_measures() -> None:
    assert HEADLINE == ("acc", "fm", "learning_within", "acc_auc")


@pytest.mark.parametrize("ledger", ["digits", "slim"])
def test_older_runs_have_a_measure_that_was_added_later(ledger: str) -> None:
    runs = [ek.Results.read(path) for path in find_runs([LEDGERS / ledger])]
    older = [run for run in runs if run.ended is not None and "learning_within" not in run.ended.metrics]
    assert older, "all runs are new: this test needs some that ended before the measure was added"
    for run in older:
        at_its_end = [test.masked[test.task] for test in run.tested if test.task >= 0]
        assert MEASURES["learning_within"].of(run) == pytest.approx(fmean(at_its_end))
    column = 2 + HEADLINE.index("learning_within") - 1
    assert all(row.cells[column].value is not None for row in measures_table(older).rows)
