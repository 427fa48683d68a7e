"""Groups of runs: labels, means, intervals, paired gains."""

import random
from dataclasses import replace
from io import StringIO
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from evenkeel.errors import RunError
from evenkeel.learning.adaptors import ADAPTORS
from evenkeel.results.formats import to_rich
from evenkeel.results.groups import (
    Estimate,
    benchmark,
    gain,
    groups,
    half_interval,
    in_order,
    paired,
    pairs,
    scenario_title,
)
from evenkeel.results.measures import MEASURES, summarise
from evenkeel.results.overview import measures_table
from evenkeel.results.records import Session, from_line, to_line
from evenkeel.results.run_files import RECORDS, Results, find_runs
from tests.helpers.runs import make_run

PLAIN = [make_run("ER", seed=seed) for seed in range(4)]
WITH = [make_run("ER + CBA", seed=seed, adaptor=True, method={"name": "ER"}) for seed in range(1, 6)]


def test_an_interval_is_students_t() -> None:
    values = [1.0, 2.0, 4.0, 9.0]
    found = Estimate.of(values)
    assert found is not None
    low, high = stats.t.interval(0.95, 3, loc=4, scale=stats.tstd(values) / sqrt(4))
    assert (found.mean - (found.half or 0), found.mean + (found.half or 0)) == pytest.approx((low, high))
    assert str(Estimate.of([3.14159])) == "3.1"
    small = Estimate.of([-0.04, -0.02])
    assert small is not None
    assert [small.text(format) for format in (".1f", "+.1f", "+.2f", ",.0f")] == [
        "0.0 (0.0, 0.0)",
        "+0.0 (+0.0, +0.0)",
        "-0.03 (-0.04, -0.02)",
        "0 (0, 0)",
    ]
    assert Estimate.of([]) is Estimate.of([None]) is None
    assert Estimate.of([None, *values]) == replace(found, missing=1)
    columns = np.array([values, values[::-1]]).T  # the bands of figures
    assert half_interval(columns.std(axis=0, ddof=1), 4) == pytest.approx([found.half] * 2)


def test_below_three_seeds_the_values_are_shown_instead_of_an_interval() -> None:
    assert [str(Estimate.of(values)) for values in ([50.0], [50.0, 53.0], [None, 50.0, 53.0])] == [
        *("50.0", "51.5 (50.0, 53.0)", "51.5 (50.0, 53.0)"),
    ]
    titles = [measures_table(PLAIN[:count]).title for count in (1, 2, 3)]
    assert titles == [
        "In percent, 1 seed",
        "In percent, 2 seeds, mean (both values)",
        "In percent, 3 seeds, mean ± half of the 95% interval",
    ]
    mixed = measures_table([*PLAIN[:2], *WITH])
    assert mixed.title.endswith("mean ± half of the 95% interval, of two seeds (both values)")


def test_a_title_counts_finished_runs_only() -> None:
    unfinished = [make_run("ER", seed=seed, finished=False, stop=30) for seed in (7, 8)]
    assert measures_table([PLAIN[0], *unfinished]).title == "In percent, 1 seed"
    assert measures_table(unfinished).title == "In percent, no run is finished"


def test_a_gain_is_paired_over_the_seeds_that_both_have() -> None:
    found = groups([*PLAIN, *WITH])
    assert [group.label for group in found] == ["ER", "ER + CBA"]
    ((without, with_),) = pairs(found)
    assert (without.label, with_.label) == ("ER", "ER + CBA")
    for name in ("acc", "fm", "acc_auc"):
        of = MEASURES[name].of
        differences = [(of(WITH[seed - 1]) or 0) - (of(PLAIN[seed]) or 0) for seed in (1, 2, 3)]
        assert gain(MEASURES[name], paired(without, with_)) == Estimate.of(differences)


PRIOR = [make_run("ER + Prior", seed=seed, adaptor="prior") for seed in range(2)]


def test_an_adaptor_is_named_wherever_it_comes_from() -> None:
    slow = make_run("my learner", adaptor="slow_start")
    assert [group.adaptor for group in groups([*PLAIN, *WITH, *PRIOR, slow])] == ["", "CBA", "Prior", "Slow start"]
    for name, adaptor in ADAPTORS.items():  # as in the names of runs
        (group,) = groups([make_run("my learner", adaptor=name)])
        assert group.adaptor == (adaptor.title or adaptor.__name__)


def test_each_adaptor_is_paired_with_the_method_without_one() -> None:
    found = groups([*PRIOR, *PLAIN, *WITH, make_run("DER++ + Prior", adaptor="prior")])
    assert [(one.label, other.label) for one, other in pairs(found)] == [("ER", "ER + Prior"), ("ER", "ER + CBA")]
    rows = {row.cells[0].value: row.cells[1:] for row in measures_table([*PLAIN, *WITH, *PRIOR], ["acc"]).rows}
    acc = MEASURES["acc"].of
    for adaptor, adapted in (("CBA", WITH), ("Prior", PRIOR)):
        (cell,) = rows[f"ER + {adaptor}: gain by {adaptor}, paired"]
        before = {run.seed: acc(run) or 0 for run in PLAIN}
        assert cell.value == Estimate.of([(acc(run) or 0) - before[run.seed] for run in adapted if run.seed in before])


def test_the_best_of_a_table_is_a_method() -> None:
    bound = make_run("Joint", skill=9, method={"name": "joint"})
    table = measures_table([*PLAIN, make_run("DER++", skill=5), bound], ["acc", "fm", "recency_bias"])
    best = {row.cells[0].value: [cell.best for cell in row.cells[1:]] for row in table.rows}
    estimates = [group.estimate(MEASURES["fm"]) for group in groups([*PLAIN, make_run("DER++", skill=5)])]
    forgets_less = min(estimates, key=lambda each: each.mean if each else 0) is estimates[0]
    assert best == {
        "ER": [False, forgets_less, False],
        "DER++": [True, not forgets_less, False],
        "Joint (upper bound)": [False] * 3,
    }
    elsewhere = make_run("DER++", skill=5, data="cifar10")
    assert not any(cell.best for row in measures_table([*PLAIN, elsewhere]).rows for cell in row.cells)


def test_a_gain_names_what_it_was_added_to_where_the_names_of_the_runs_do_not() -> None:
    averaged = [make_run("ER, averaged", seed=seed, method={"name": "er"}) for seed in range(3)]
    keel = [make_run("keel", seed=seed, adaptor="prior", method={"name": "er"}) for seed in range(3)]
    labels = [row.cells[0].value for row in measures_table([*averaged, *keel], ["acc"]).rows]
    assert labels == ["ER, averaged", "keel", "keel: gain by Prior over ER, averaged, paired"]


def test_labels_tell_runs_apart_on_the_same_data_only() -> None:
    memories = [make_run("ER", memory={"capacity": size}) for size in (20, 50)]
    elsewhere = [
        make_run(run.label, seed=run.seed, adaptor=run.label != "ER", data="cifar10") for run in [*PLAIN, *WITH]
    ]
    rows = [[cell.value for cell in row.cells[:2]] for row in measures_table([*memories, *elsewhere], ["acc"]).rows]
    assert [label for where, label in rows if where == "digits, disjoint"] == ["ER (memory 20)", "ER (memory 50)"]
    assert [label for where, label in rows if where == "cifar10, disjoint"] == [
        "ER",
        "ER + CBA",
        "ER + CBA: gain by CBA, paired",
    ]


def test_scenarios_have_one_name() -> None:
    run = make_run(scenario="blurry", tasks=5)
    own = replace(run, started=replace(run.started, config={**run.started.config, "scenario": None}))
    assert [scenario_title(run), scenario_title(own)] == ["blurry (tasks: 5)", "own stream"]
    assert [benchmark(run), benchmark(own)] == ["digits, blurry", "digits, own stream"]


def test_runs_with_different_settings_are_not_averaged() -> None:
    other = make_run("ER", seed=9, memory={"capacity": 500, "policy": "reservoir"})
    strange = replace(PLAIN[0], started=replace(PLAIN[0].started, data={**PLAIN[0].started.data, "digest": "other"}))
    found = groups([*PLAIN, other, strange])
    assert [len(group.runs) for group in found] == [4, 1, 1]
    assert found[1].label == "ER (memory 500)"
    assert len({group.label for group in found}) == 3
    assert not pairs(groups([other, *WITH]))


def test_a_run_counts_once_and_only_when_it_is_finished() -> None:
    half = make_run("ER", seed=7, finished=False)
    killed = make_run("ER", seed=0, stop=30)
    (group,) = groups([killed, *PLAIN, PLAIN[1], half])
    assert [run.seed for run in group.runs] == [0, 1, 2, 3, 7]
    assert [run.seed for run in group.finished] == [0, 1, 2, 3]
    assert group.estimate(MEASURES["acc"]) == Estimate.of([summarise(run)["acc"] or 0 for run in PLAIN])


def test_the_table_in_the_terminal() -> None:
    console = Console(width=200, record=True, file=StringIO())
    console.print(to_rich(measures_table([*PLAIN, *WITH])))
    text = console.export_text()
    ((without, with_),) = pairs(groups([*PLAIN, *WITH]))
    assert str(without.estimate(MEASURES["acc"])) in text
    found = gain(MEASURES["acc"], paired(without, with_))
    assert found is not None
    assert f"{found.mean:+.1f} ± {found.half:.1f}" in text


def test_records_read_back(tmp_path: Path) -> None:
    made = make_run("ER", folder=tmp_path / "a" / "run")
    assert made.path is not None
    lines = (made.path / RECORDS).read_text().splitlines(keepends=True)
    assert [to_line(from_line(line)) for line in lines] == lines
    assert Results.read(made.path).matrix().tolist() == made.matrix().tolist()
    assert find_runs([tmp_path]) == find_runs([made.path]) == [made.path]
    for wrong in ("{}", "[]", '{"kind":"stepp"}', '{"kind":"end"}', "3"):
        with pytest.raises(ValueError, match="not a record"):
            from_line(wrong)
    (made.path / RECORDS).write_text("".join(lines[1:]))
    with pytest.raises(RunError, match="does not begin with the start of a run"):
        Results.read(made.path)
    with pytest.raises(RunError, match="is not a run"):
        Results.read(tmp_path)
    with pytest.raises(RunError, match="There is no run in"):
        find_runs([tmp_path / "nowhere"])


def test_bounds_are_labelled_whatever_their_name() -> None:
    runs = [
        make_run("ER", method={"name": "er"}),
        make_run("Finetune (lower bound)", method={"name": "finetune"}),
        make_run("my baseline", method={"name": "joint", "epochs": 5}),
        make_run("RAR", method={"name": "finetune"}, learner={"repeats": 2}),
    ]
    found = groups(runs)
    own = ["my baseline (upper bound)", "RAR (lower bound)"]
    assert [group.label for group in found] == ["ER", "Finetune (lower bound)", *own]
    assert [group.is_bound for group in found] == [False, True, True, True]


def test_labels_distinguish_all_groups_with_as_few_settings_as_possible() -> None:
    tables = [dict(zip("abcd", values, strict=True)) for values in ((1, 1, 1, 1), (2, 2, 2, 1), (2, 2, 2, 3))]
    run = make_run("ER + CBA", adaptor=True)
    runs = [
        replace(run, started=replace(run.started, config={**run.started.config, "adaptor": table})) for table in tables
    ]
    assert [group.label for group in groups(runs)] == [
        "ER + CBA (a 1, b 1, c 1)",
        "ER + CBA (a 2, b 2, c 2, d 1)",
        "ER + CBA (a 2, b 2, c 2, d 3)",
    ]


def test_threads_make_no_group_of_their_own() -> None:
    runs = [make_run(seed=0, threads=1), make_run(seed=1, threads=2), make_run(seed=1, threads=4)]
    (group,) = groups(runs)
    assert [run.seed for run in group.runs] == [0, 1]  # one run per seed counts
    assert group.label == "ER"


def test_runs_without_an_order_are_sorted() -> None:
    """Methods in the order of ROWS, bounds last; each without CBA first, seeds ascending, whatever the folders."""
    names = [("er", False), ("er", True), ("derpp", False), ("derpp", True), ("of one's own", False), ("joint", False)]
    runs = [
        make_run(name + " + CBA" * adaptor, seed=seed, adaptor=adaptor, method={"name": name})
        for name, adaptor in names
        for seed in range(3)
    ]
    shuffled = random.Random(0).sample(runs, len(runs))
    assert [(run.label, run.seed) for run in in_order(shuffled)] == [(run.label, run.seed) for run in runs]


def with_code(run: Results, **versions: str) -> Results:
    return replace(run, started=replace(run.started, versions={**run.started.versions, **versions}))


def test_runs_of_edited_code_are_not_averaged_with_those_of_before() -> None:
    part: dict[str, Any] = {"method": {"name": "mine:Own"}}
    old, new = (
        [
            with_code(make_run("Own", seed=seed, **part), **{"mine:Own": f"sha256 {digest} of mine.py"})
            for seed in (0, 1)
        ]
        for digest in ("aa", "bb")
    )
    adapted = [with_code(make_run("Own + CBA", adaptor=True, **part), **new[0].started.versions)]
    grouped = groups([*old, *new, *adapted])
    assert [group.label for group in grouped] == [
        *("Own (code sha256 aa of mine.py)", "Own (code sha256 bb of mine.py)", "Own + CBA"),
    ]
    assert [group.runs for group in grouped] == [old, new, adapted]
    assert pairs(grouped) == [(grouped[1], grouped[2])]


def test_an_adaptor_of_ones_own_is_paired_whatever_its_code() -> None:
    plain = make_run("ER")
    grouped = groups([plain, with_code(make_run("ER", adaptor="mine:Own"), **{"mine:Own": "sha256 aa of mine.py"})])
    assert pairs(grouped) == [(grouped[0], grouped[1])]


def test_a_method_that_was_renamed_stays_one() -> None:
    def session(day: int) -> Session:
        return Session(f"evenkeel grid {day}", f"2026-01-0{day}", 0, 1, 1.0, 0.0, None)

    method: dict[str, Any] = {"method": {"name": "er"}}
    runs = [
        replace(make_run(name, seed=seed, **method), sessions=[session(day)])
        for seed, name, day in ((2, "baseline", 2), (3, "baseline", 2), (0, "plain", 1), (1, "plain", 1))
    ]
    adapted = [make_run("ER + CBA", seed=seed, adaptor=True, **method) for seed in range(4)]
    one, other = groups([*runs, *adapted])
    assert (one.label, [run.seed for run in one.runs]) == ("baseline", [0, 1, 2, 3])
    assert len(paired(*pairs([one, other])[0])) == 4
    own_streams = [
        replace(run, started=replace(run.started, config={**run.started.config, "scenario": None})) for run in runs
    ]
    assert [group.label for group in groups(own_streams)] == ["baseline", "plain"]  # the names may be all that is known


def test_a_setting_may_be_a_list_of_tables_without_names() -> None:
    runs = [make_run(method={"name": "own", "stages": [{"steps": steps}]}) for steps in (1, 2)]
    assert [group.label for group in groups(runs)] == ["ER (stages steps 1)", "ER (stages steps 2)"]


def test_runs_on_the_same_stream_of_ones_own_are_paired_and_copies_count_once(tmp_path: Path) -> None:
    def on(batches: str, path: str, **what: Any) -> Results:
        run = make_run(**what)
        assert run.ended is not None
        started = replace(run.started, config={**run.started.config, "scenario": None}, stream=None)
        return replace(run, started=started, ended=replace(run.ended, batches=batches), path=tmp_path / path)

    one, copy, other = on("aa", "a"), on("aa", "b"), on("bb", "c")
    adapted = on("aa", "d", name="ER + CBA", adaptor=True)
    plain, with_ = groups([one, copy, other, adapted])
    assert [run.path for run in plain.runs] == [tmp_path / "b", tmp_path / "c"]
    assert paired(plain, with_) == [(copy, adapted)]


def test_the_best_is_marked_among_runs_on_one_stream_only() -> None:
    def noisy(noise: float) -> list[Results]:
        runs = [make_run(name, skill=skill) for name, skill in (("ER", 0), ("DER++", 9))]
        for run in runs:
            run.started.config["scenario"]["noise"] = noise
        return runs

    for runs, marked in ((noisy(0.1), 1), ([*noisy(0.1), *noisy(0.4)], 0)):
        table = measures_table(runs, ["acc"])
        assert sum(cell.best for row in table.rows for cell in row.cells) == marked
