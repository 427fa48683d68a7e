"""Paired statistics against slow versions written by hand, and which groups are compared."""

import csv
import re
from dataclasses import replace
from functools import cache, partial
from io import StringIO
from itertools import product
from math import gamma, pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenkeel.errors import RunError
from evenkeel.results.groups import Estimate, Group, groups
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results
from evenkeel.results.significance import (
    Comparison,
    against,
    by_adaptor,
    compare,
    holm,
    paired_t,
    side_by_side,
    signed_rank,
)
from evenkeel.results.table import Cell, ResultTable
from tests.helpers.commands import call
from tests.helpers.runs import make_run, make_runs


def slow_t(differences: list[float]) -> float:
    """Return the area under Student's density outside of t, by the trapezoidal rule."""
    d = np.array(differences)
    n, nu = len(d), len(d) - 1
    t = abs(d.mean()) / (sqrt(((d - d.mean()) ** 2).sum() / nu) / sqrt(n))
    x = np.linspace(0, t, 200_001)
    density = gamma((nu + 1) / 2) / (sqrt(nu * pi) * gamma(nu / 2)) * (1 + x**2 / nu) ** (-(nu + 1) / 2)
    return float(1 - ((density[1:] + density[:-1]) * np.diff(x)).sum())


def slow_wilcoxon(differences: list[float]) -> float:
    """Return the share of all sign assignments whose rank sum is at least as far from the middle."""
    sizes = [abs(each) for each in differences if each]
    ranks = [sum(other < each for other in sizes) + (sizes.count(each) + 1) / 2 for each in sizes]
    middle = sum(ranks) / 2
    seen = abs(sum(rank for rank, each in zip(ranks, filter(None, differences), strict=True) if each > 0) - middle)
    sums = [sum(chosen) for chosen in product(*((0, rank) for rank in ranks))]
    return sum(abs(each - middle) >= seen for each in sums) / len(sums)


def slow_holm(values: list[float]) -> list[float]:
    """Apply the definition: the highest, over the values up to it, of the value times how many are not below it."""
    ordered = sorted(values)
    scaled = [value * (len(values) - place) for place, value in enumerate(ordered)]
    return [min(1.0, max(scaled[: ordered.index(value) + 1])) for value in values]


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_t_test(n: int) -> None:
    differences = [float(each) for each in np.random.default_rng(n).normal(0.5, 1, n)]
    found = paired_t(differences)
    assert found == pytest.approx(slow_t(differences), abs=1e-7)
    assert found == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)


@given(st.lists(st.integers(-4, 4).map(float), min_size=2, max_size=9))
def test_wilcoxons_test_is_exact_with_ties_and_zeros(differences: list[float]) -> None:
    assert signed_rank(differences) == pytest.approx(slow_wilcoxon(differences))


@pytest.mark.parametrize("n", [2, 5, 12, 40])
def test_wilcoxons_test_equals_scipys(n: int) -> None:
    differences = [float(each) for each in np.random.default_rng(n).normal(0.3, 1, n)]
    assert signed_rank(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)
    assert signed_rank([abs(each) for each in differences]) == pytest.approx(2.0 ** (1 - n))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holms_correction(values: list[float]) -> None:
    assert holm(values) == pytest.approx(slow_holm(values))
    with_gaps = [part for value in values for part in (None, value)]
    assert holm(with_gaps)[1::2] == holm(values)
    assert holm(with_gaps)[::2] == [None] * len(values)


def test_too_few_pairs_for_a_test() -> None:
    for few in ([], [1.0]):
        assert paired_t(few) is None
        assert signed_rank(few) is None
    assert paired_t([0.0, 0.0]) == signed_rank([0.0, 0.0]) == 1
    assert paired_t([2.0, 2.0, 2.0]) is None  # no spread, no t
    assert signed_rank([2.0, 2.0, 2.0]) == 0.25


def with_acc(run: Results, acc: float) -> Results:
    """Return the same run with another accuracy at the end."""
    return replace(run, tested=[*run.tested[:-1], replace(run.tested[-1], accuracy=[acc] * len(run.started.tasks))])


short_run = cache(partial(make_run, tasks=2, steps=2))


def group(*accuracies: float, name: str = "ER", first_seed: int = 0) -> Group:
    runs = [with_acc(short_run(name, seed=first_seed + seed), acc) for seed, acc in enumerate(accuracies)]
    return groups(runs)[0]


ACCURACIES = st.lists(st.floats(0, 100), min_size=2, max_size=4)


@given(ACCURACIES, ACCURACIES)
def test_swapping_the_sides_negates_the_differences(one: list[float], other: list[float]) -> None:
    a, b = group(*one), group(*other, first_seed=1)
    (there,), (back,) = compare([(a, b)], ["acc"]), compare([(b, a)], ["acc"])
    assert there.n == back.n == len({*range(len(one))} & {*range(1, len(other) + 1)})
    assert (there.a, there.b) == (back.b, back.a)
    assert (there.t, there.wilcoxon, there.significant) == (back.t, back.wilcoxon, back.significant)
    assert there.difference is not None
    negated = tuple(-value for value in there.difference.values)
    assert back.difference == replace(there.difference, mean=-there.difference.mean, values=negated)
    assert there.difference.mean == pytest.approx((there.b or 0) - (there.a or 0), abs=1e-9)


def test_only_runs_that_both_have_count() -> None:
    a, b = group(50, 51, 52, 53, 54), group(60, 62, 64, 66, name="DER++", first_seed=2)
    (found,) = compare([(a, b)], ["acc"])
    assert (found.runs, found.n) == ("ER against DER++", 3)
    assert (found.a, found.b) == pytest.approx((53, 62))
    assert found.difference == Estimate.of([60 - 52.0, 62 - 53.0, 64 - 54.0])
    assert found.t == found.t_corrected == pytest.approx(stats.ttest_rel([60, 62, 64], [52, 53, 54]).pvalue)
    assert found.wilcoxon == 0.25
    data = {**b.runs[0].started.data, "digest": "other"}
    elsewhere = replace(b, runs=[replace(run, started=replace(run.started, data=data)) for run in b.runs])
    assert compare([(a, elsewhere)], ["acc"])[0].n == 0


def test_differences_in_the_last_bits_of_a_float_do_not_count() -> None:
    a, b = group(0.1, 0.2, 50.1), group(0.1 + 0.2, 0.4, 50.3)
    (found,) = compare([(a, b)], ["acc"])
    assert (found.t, found.wilcoxon, found.verdict) == (None, 0.25, "")
    (same,) = compare([(group(0.3, 1, 2), group(0.1 + 0.2, 1, 2))], ["acc"])
    assert (same.t, same.wilcoxon) == (1, 1)


def test_the_correction_is_over_all_rows() -> None:
    er, der = (group(*accs) for accs in ([50, 51, 52], [53, 54.5, 55]))
    rows = compare([(er, der), (der, er)], ["acc", "fm"])
    assert [row.t_corrected for row in rows] == holm([row.t for row in rows])
    assert [row.wilcoxon_corrected for row in rows] == holm([row.wilcoxon for row in rows]) == [1] * 4
    assert rows[0].t is not None
    assert rows[0].t_corrected == pytest.approx(4 * rows[0].t)


@pytest.mark.parametrize(
    ("measure", "mean", "corrected", "verdict"),
    [
        ("acc", 3.0, 0.049, "* B is better"),
        ("acc", -3.0, 0.049, "* A is better"),
        ("fm", 3.0, 0.049, "* A is better"),
        ("fm", -3.0, 0.049, "* B is better"),
        ("recency_bias", 3.0, 0.049, "* they differ"),
        ("acc", 3.0, 0.05, ""),
        ("acc", 3.0, None, ""),
    ],
)
def test_the_verdict(measure: str, mean: float, corrected: float | None, verdict: str) -> None:
    row = Comparison("ER", measure, 5, 50.0, 50 + mean, Estimate(mean, 1.0, 5), 0.01, 0.01, corrected, 0.01)
    assert row.verdict == verdict
    assert replace(row, n=2).verdict == "2 runs in common, no test"
    assert replace(row, n=1).verdict == "1 run in common, no test"
    assert replace(row, n=0).verdict == "no runs in common, no test"
    assert replace(row, n=0, measured=False).verdict == "not measured"


def test_two_pairs_are_not_tested_however_much_they_differ() -> None:
    (two,) = compare([(group(50.0, 50.1), group(70.0, 70.1))], ["acc"])
    assert two.difference is not None
    assert two.difference.mean == pytest.approx(20)
    assert (two.t, two.wilcoxon, two.verdict) == (None, None, "2 runs in common, no test")
    (three,) = compare([(group(50.0, 50.1, 50.2), group(70.0, 70.1, 70.3))], ["acc"])
    assert three.verdict == "* B is better"


def test_a_measure_that_no_run_has_is_not_said_to_lack_runs() -> None:
    one, other = group(50.0, 60.0, 70.0), group(51.0, 60.0, 71.0)
    without = replace(one, runs=[replace(run, anytime=[]) for run in one.runs])
    (row,) = compare([(without, other)], ["acc_auc"])
    assert (row.n, row.verdict) == (0, "not measured")
    (row,) = compare([(one, group(50.0, first_seed=9))], ["acc"])
    assert (row.n, row.verdict) == (0, "no runs in common, no test")


def values(table: ResultTable) -> list[list[object]]:
    return [[cell.value for cell in row.cells] for row in table.rows]


def test_groups_with_the_same_label_are_compared() -> None:
    a = [*make_runs(2, ["ER", "DER++"]), make_run("MIR")]
    b = [*make_runs(2, ["DER++", "ER"]), make_run("GDumb")]
    sheet = side_by_side(a, b, ["acc", "fm"], called=("old", "new"))
    assert [row[0] for row in values(sheet)[::2]] == ["ER", "ER + CBA", "DER++", "DER++ + CBA"]
    assert [row.cells[1] for row in sheet.rows[:2]] == [Cell("acc", "ACC ↑"), Cell("fm", "FM ↓")]
    assert sheet.title.startswith("A: old, B: new;")
    assert sheet.notes[-2:] == ["Only in A: 'MIR'.", "Only in B: 'GDumb'."]
    assert "2^(1-n)" in sheet.notes[1]


def test_one_group_against_one_whatever_their_labels() -> None:
    (row,) = values(side_by_side([make_run("ER")], [make_run("ER + CBA", adaptor=True)], ["acc"]))
    assert row[0] == "ER against ER + CBA"
    assert row[2] == 1
    assert row[6:] == [None] * 4 + ["1 run in common, no test"]


def test_nothing_to_compare() -> None:
    with pytest.raises(RunError, match=r"no method is on both sides. 'x' has 'ER', 'DER\+\+'; 'y' has 'MIR'\. Give"):
        side_by_side([make_run("ER"), make_run("DER++")], [make_run("MIR")], ["acc"], called=("x", "y"))
    with pytest.raises(
        RunError, match=r"no two of these differ only in the adaptor: 'ER', 'DER\+\+'\. Give two folders"
    ):
        by_adaptor([make_run("ER"), make_run("DER++")], ["acc"])


def test_without_and_with_cba() -> None:
    sheet = by_adaptor(make_runs(4), list(MEASURES))
    assert [row[0] for row in values(sheet)[:: len(MEASURES)]] == ["ER against ER + CBA", "DER++ against DER++ + CBA"]
    assert sheet.title.startswith("A: without CBA, B: with CBA")
    by_name = {row[1]: row for row in values(sheet)[: len(MEASURES)]}
    assert by_name.keys() == MEASURES.keys()
    assert by_name["acc"][-1] == "* B is better"
    assert not any("No t-test" in note for note in sheet.notes)
    even = [with_acc(run, 50 + 2 * ("CBA" in run.label)) for run in make_runs(3, ["ER"])]
    sheet = by_adaptor(even, ["acc"])
    assert "No t-test where all pairs differ by the same amount" in sheet.notes[-1]
    assert values(sheet)[0][6] is None


def test_without_and_with_other_adaptors() -> None:
    er, cba = make_runs(2, ["ER"])[:2], make_runs(2, ["ER"])[2:]
    prior = [make_run("ER + Prior", seed=seed, adaptor="prior") for seed in range(2)]
    assert by_adaptor([*er, *prior], ["acc"]).title.startswith("A: without Prior, B: with Prior;")
    both = by_adaptor([*er, *cba, *prior], ["acc"])
    assert both.title.startswith("A: without CBA or Prior, B: with CBA or Prior;")
    assert [row[0] for row in values(both)] == ["ER against ER + CBA", "ER against ER + Prior"]


def test_all_methods_against_one() -> None:
    (sheet,) = against("DER++", make_runs(3), ["acc"])
    assert [row[0] for row in values(sheet)] == [f"{name} against DER++" for name in ("ER", "ER + CBA", "DER++ + CBA")]
    er, derpp = ([run for run in make_runs(3) if run.label == label] for label in ("ER", "DER++"))
    assert values(sheet)[0][2:7] == values(side_by_side(er, derpp, ["acc"]))[0][2:7]
    with pytest.raises(RunError, match=r"no method 'DERPP' among 'ER', .*\. Did you mean 'DER\+\+'"):
        against("DERPP", make_runs(3), ["acc"])
    with pytest.raises(RunError, match="ER is the only method"):
        against("ER", [make_run("ER")], ["acc"])


def test_methods_are_compared_with_one_that_has_the_same_data_and_memory() -> None:
    small, large = (
        [make_run(name, seed=seed, memory={"capacity": size}) for name in ("ER", "DER++") for seed in range(3)]
        for size in (20, 50)
    )
    elsewhere = [make_run("ER", seed=seed, data="cifar10") for seed in range(3)]
    one, other = against("DER++", [*small, *elsewhere, *large], ["acc"])
    for table, runs, size in ((one, small, 20), (other, large, 50)):
        assert {row[0] for row in values(table)} == {f"digits, disjoint, memory {size}"}
        alone = against("DER++", runs, ["acc"])[0]
        assert [row[1:] for row in values(table)] == values(alone)  # corrected for its own tests only
    with pytest.raises(RunError, match="DER\\+\\+ is the only method with its data, scenario and memory"):
        against("DER++", [*small[3:], *elsewhere], ["acc"])


def test_methods_are_compared_with_one_that_has_the_same_noise() -> None:
    noisy = {
        noise: [make_run(name, seed=seed) for name in ("ER", "DER++") for seed in range(3)] for noise in (0.1, 0.4)
    }
    for noise, runs in noisy.items():
        for run in runs:
            run.started.config["scenario"]["noise"] = noise
    tables = against("DER++", [*noisy[0.1], *noisy[0.4]], ["acc"])
    for table, (noise, runs) in zip(tables, noisy.items(), strict=True):
        place = f"digits, disjoint, memory 200 (noise {noise})"
        assert [row[:2] for row in values(table)] == [[place, "ER against DER++"]]
        assert [row[1:] for row in values(table)] == values(against("DER++", runs, ["acc"])[0])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    er = [make_run("ER", seed=seed, folder=tmp_path / "er" / str(seed)) for seed in range(4)]
    cba = [make_run("ER + CBA", seed=seed, adaptor=True, folder=tmp_path / "cba" / str(seed)) for seed in range(1, 5)]
    acc = MEASURES["acc"].of
    one, other = [acc(run) or 0 for run in er[1:]], [acc(run) or 0 for run in cba[:3]]
    folders = [str(tmp_path / "er"), str(tmp_path / "cba")]
    for given_folders in (folders, [str(tmp_path)]):
        code, out, err = call(capsys, "compare", *given_folders, "--measures", "acc", "--format", "csv")
        assert (code, err) == (0, "")
        header, row = csv.reader(StringIO(out))
        found = dict(zip(header, row, strict=True))
        assert (found["runs"], found["measure"], found["n"]) == ("ER against ER + CBA", "acc", "3")
        assert float(found["A"]) == pytest.approx(np.mean(one))
        assert float(found["B - A"]) == pytest.approx(np.mean(other) - np.mean(one))
        assert float(found["p (t)"]) == pytest.approx(stats.ttest_rel(other, one).pvalue)
        assert float(found["p (Wilcoxon)"]) == 0.25
    code, out, _ = call(capsys, "compare", *folders)
    assert code == 0
    assert out.startswith(f"A: {folders[0]}, B: {folders[1]};")
    assert "never below 0.05" in out
    code, out, _ = call(capsys, "compare", *folders, "--format", "html", "-o", str(tmp_path / "page.html"))
    assert code == 0
    assert (tmp_path / "page.html").read_text().startswith("<table>")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["er"], "no two of these differ only in the adaptor: 'ER'"),
        (["er", "nowhere"], "There is no run in 'nowhere'"),
        (["er", "--measures", "ac"], "measures='ac' is not one of .*Did you mean 'acc'"),
        (["er", "er", "--format", "tex"], "format='tex' is not one of"),
    ],
)
def test_an_error_is_one_message(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("ER", folder=tmp_path / "er")
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "compare", *arguments)
    assert (code, out) == (1, "")
    assert re.search(sentence, err.replace("\n", " ")), err


def test_equal_settings_are_matched_whatever_else_is_in_the_folders() -> None:
    """Labels depend on what else there is: with two memories "ER" becomes "ER (memory 20)"."""
    small = [make_run(seed=seed, memory={"capacity": 20}) for seed in range(3)]
    large = [make_run(seed=seed, memory={"capacity": 50}, skill=3) for seed in range(3)]
    sheet = side_by_side([*small, *large], small, ["acc"])
    assert [row[:3] for row in values(sheet)] == [["ER (memory 20) against ER", "acc", 3]]
    assert any("memory 50" in note for note in sheet.notes)


def test_a_method_is_found_among_its_namesakes() -> None:
    large = [make_run(name, seed=seed, memory={"capacity": 50}) for name in ("ER", "DER++") for seed in range(3)]
    small = [
        make_run(name, seed=seed, memory={"capacity": 20}, optimizer={"lr": lr})
        for name, lr in (("ER", 0.1), ("ER", 0.2), ("DER++", 0.1))
        for seed in range(3)
    ]
    one, other = against("ER", [*large, *small], ["acc"])
    assert [row[1] for row in values(one)] == ["DER++ against ER"]
    assert {row[1] for row in values(other)} >= {f"DER++ against ER (lr {lr})" for lr in (0.1, 0.2)}
