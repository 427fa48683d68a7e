"""Accuracy against cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evenkeel.results.formats import render, text_of
from evenkeel.results.front import Costs, cpu_known, front_tables, learning_seconds, points
from evenkeel.results.groups import Group, groups
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results
from evenkeel.results.table import ResultTable
from tests.helpers.runs import make_run


def timed(name: str, cpu: float | None, *, skill: float = 0.0, seeds: int = 3, **settings: Any) -> list[Results]:
    """Return runs that took 20 seconds by the clock, 5 of them in tests, and so much CPU time in learning."""
    runs = [make_run(name, seed=seed, skill=skill, **settings) for seed in range(seeds)]
    return [replace(run, sessions=[replace(run.sessions[0], learning_cpu=cpu)]) for run in runs]


def table_of(grouped: Sequence[Group], *names: Sequence[str]) -> ResultTable:
    (table,) = front_tables(grouped, *names).values()
    return table


def front_of(grouped: Sequence[Group]) -> list[str]:
    found = points(grouped, MEASURES["acc"], Costs.measured(grouped))
    assert [point.cost.mean for point in found] == sorted(point.cost.mean for point in found)
    return [point.group.label for point in found if point.on_front]


def slow_front(grouped: Sequence[Group], costs: Costs) -> set[str]:
    """Return the groups that no other beats, by the definition."""
    measured = {
        group.label: (costs.of[group.label].mean, estimate.mean)
        for group in grouped
        if (estimate := group.estimate(MEASURES["acc"])) and not group.is_bound
    }
    return {
        label
        for label, (cost, acc) in measured.items()
        if not any((c <= cost and a > acc) or (c < cost and a >= acc) for c, a in measured.values())
    }


def test_the_front_is_what_no_other_beats_in_both() -> None:
    runs = [
        *timed("er", 10.0),
        *timed("derpp", 20.0, skill=4),
        *timed("clser", 30.0, skill=-4),
        *timed("icarl", 40.0, skill=8),
        *timed("bic", 40.0, skill=6),
        *timed("mir", 5.0, skill=-8),
    ]
    grouped = groups(runs)
    assert set(front_of(grouped)) == slow_front(grouped, Costs.measured(grouped)) == {"mir", "er", "derpp", "icarl"}


def test_a_bound_is_never_on_the_front() -> None:
    assert "joint" not in " ".join(front_of(groups([*timed("er", 10.0), *timed("joint", 1.0, skill=9)])))


def test_the_unit_of_cost_is_plain_er() -> None:
    small = {"capacity": 20, "policy": "reservoir"}  # which costs about the same
    runs = [*timed("er", 11.0), *timed("er", 13.0, memory=small), *timed("er", 36.0, learner={"repeats": 3})]
    costs = Costs.measured(groups([*runs, *timed("derpp", 18.0)]))
    assert costs.unit == "cost, ER = 1"
    assert sorted(cost.mean for cost in costs.of.values()) == pytest.approx([11 / 12, 13 / 12, 1.5, 3.0])
    assert not costs.by_clock


def test_the_unit_has_the_same_net_and_batches_and_of_several_replays_least() -> None:
    slim, full = {"name": "resnet18", "width": 20}, {"name": "resnet18", "width": 64}
    small, large = {"replay": 10}, {"replay": 40}
    tens, twenties = {"size": 10}, {"size": 20}
    runs = [
        *timed("er", 10.0, net=slim, learner=small, batches=tens),
        *timed("er", 30.0, net=slim, learner=large, batches=tens),
        *timed("er", 60.0, net=full, learner=small, batches=tens),
        *timed("er", 5.0, net=slim, learner=small, batches=twenties),
        *timed("derpp", 20.0, net=slim, learner=large, batches=tens),
        *timed("mir", 90.0, net=full, learner=small, batches=tens),
        *timed("icarl", 30.0, net=full, learner=small, batches={"size": 32}),  # no ER has such batches
    ]
    grouped = groups(runs)
    costs = Costs.measured(grouped).of
    assert [cost.mean for cost in costs.values()] == pytest.approx([1.0, 3.0, 1.0, 1.0, 2.0, 1.5])
    assert [group.runs[0].label for group in grouped if group.label not in costs] == ["icarl"]


def test_without_plain_er_costs_are_in_seconds() -> None:
    costs = Costs.measured(groups([*timed("derpp", 18.0), *timed("er", 36.0, adaptor=True)]))
    assert costs.unit == "seconds"
    assert sorted(cost.mean for cost in costs.of.values()) == pytest.approx([18.0, 36.0])


def test_costs_are_those_of_runs_that_recorded_cpu_time() -> None:
    runs = [*timed("er", 10.0), *timed("er", None, seeds=5)[3:], *timed("derpp", 30.0, skill=4), *timed("icarl", None)]
    costs = Costs.measured(groups(runs))
    assert not costs.by_clock
    assert {label: (cost.mean, cost.n) for label, cost in costs.of.items()} == {"er": (1.0, 3), "derpp": (3.0, 3)}


def test_cpu_time_is_known_if_every_session_recorded_it() -> None:
    (run,) = timed("er", 10.0, seeds=1)
    (session,) = run.sessions
    assert cpu_known(run)
    assert not cpu_known(replace(run, sessions=[session, replace(session, learning_cpu=None)]))
    assert not cpu_known(replace(run, sessions=[]))


def test_a_method_without_a_cost_is_shown_last_and_never_on_the_front() -> None:
    table = table_of(groups([*timed("er", 10.0), *timed("derpp", 30.0, skill=4), *timed("icarl", None, skill=9)]))
    assert [row.cells[0].value for row in table.rows] == ["er", "derpp", "icarl"]
    last = table.rows[-1].cells
    assert last[1].value is None
    assert last[2].value is not None
    assert not last[2].best


def test_without_cpu_time_of_plain_er_costs_are_those_of_the_clock() -> None:
    grouped = groups([*timed("er", None), *timed("derpp", 12.0)])
    costs = Costs.measured(grouped)
    assert costs.by_clock
    assert {cost.mean for cost in costs.of.values()} == {1.0}
    assert "clock" in table_of(grouped).notes[0]


def test_only_methods_with_the_same_memory_are_rivals() -> None:
    small = {"capacity": 20, "policy": "reservoir"}
    runs = [
        *timed("er", 10.0, skill=4),
        *timed("er", 10.0, memory=small),
        *timed("derpp", 20.0, memory=small, skill=-4),
    ]
    found = points(groups(runs), MEASURES["acc"], Costs.measured(groups(runs)))
    assert [(point.rivals[0], point.on_front) for point in found] == [("200", True), ("20", True), ("20", False)]
    tables = front_tables(groups(runs))
    assert {memory: len(table.rows) for memory, table in tables.items()} == {"200": 1, "20": 2}
    assert all(table.title.startswith(f"Memory {memory}, ") for memory, table in tables.items())


@pytest.mark.parametrize(
    "settings",
    [[{"batches": {"size": 10}}, {"batches": {"size": 2}}], [{"net": {"name": "mlp"}}, {"net": {"name": "convnet"}}]],
    ids=["batches", "nets"],
)
def test_methods_whose_cost_is_in_units_of_another_er_are_no_rivals(settings: list[dict[str, Any]]) -> None:
    cheap, dear = settings
    runs = [
        *timed("er", 10.0, **cheap),
        *timed("er", 50.0, skill=4, **dear),
        *timed("derpp", 20.0, skill=2, **cheap),
        *timed("derpp", 60.0, skill=6, **dear),
        *timed("mir", 90.0, skill=-4, **dear),
    ]
    assert len(front_of(groups(runs))) == 4


def on(machine: str | None, runs: Sequence[Results]) -> list[Results]:
    return [replace(run, sessions=[replace(each, machine=machine) for each in run.sessions]) for run in runs]


def test_a_cost_is_in_units_of_plain_er_on_the_same_kind_of_machine() -> None:
    er, fast_er = timed("er", 10.0, seeds=2), timed("er", 3.0, seeds=4)[2:]
    derpp, fast_derpp = timed("derpp", 20.0, seeds=2), timed("derpp", 6.0, seeds=4)[2:]
    costs = Costs.measured(groups([*er, *derpp, *on("fast", [*fast_er, *fast_derpp])]))
    assert [(cost.mean, cost.n) for cost in costs.of.values()] == [(1.0, 4), (2.0, 4)]


def test_without_plain_er_on_the_same_kind_of_machine_a_run_has_no_cost() -> None:
    er, derpp, mir = timed("er", 10.0), timed("derpp", 20.0), on("fast", timed("mir", 6.0))
    moved = replace(derpp[0], sessions=[*derpp[0].sessions, *on("fast", derpp[:1])[0].sessions])
    costs = Costs.measured(groups([*er, moved, *derpp[1:], *mir]))
    assert [(label, cost.mean, cost.n) for label, cost in costs.of.items()] == [("er", 1.0, 3), ("derpp", 2.0, 2)]
    alone = Costs.measured(groups([*derpp, *mir]))
    assert alone.unit == "seconds"
    assert [cost.mean for cost in alone.of.values()] == [20.0, 6.0]


def test_a_cost_that_one_run_of_several_recorded_says_so() -> None:
    runs = [*timed("er", 10.0), *timed("derpp", 20.0, seeds=1), *timed("derpp", None)[1:], *timed("mir", 30.0, seeds=1)]
    table = table_of(groups(runs))
    assert [text_of(row.cells[1]) for row in table.rows] == ["1.00 ± 0.00", "2.00 (1 run)", "3.00"]


def test_a_clock_that_did_not_move_says_nothing() -> None:
    costs = Costs.measured(groups([*timed("er", 0.0, seeds=1), *timed("er", 8.0)[1:], *timed("derpp", 0.0)]))
    assert {label: (cost.mean, cost.n) for label, cost in costs.of.items()} == {"er": (1.0, 2)}


def test_unfinished_runs_are_counted_below_the_table() -> None:
    stopped = make_run("mir", stop=60)
    assert "Unfinished runs are left out: 1." in table_of(groups([*timed("er", 10.0), stopped])).notes
    assert len(table_of(groups(timed("er", 10.0))).notes) == 1


def test_a_csv_file_says_what_is_on_the_front() -> None:
    table = table_of(groups([*timed("er", 10.0), *timed("derpp", 20.0, skill=-4)]), ["acc"])
    header, *rows = (line.split(",") for line in render(table, "csv").splitlines())
    assert header[-2:] == ["ACC on the front", "seeds"]
    assert [row[-2] for row in rows] == ["1", "0"]


def test_steps_that_an_interruption_repeats_are_not_counted_twice() -> None:
    (run,) = timed("er", 10.0, seeds=1)
    whole = run.sessions[0]
    half = len(run.steps) // 2
    twice = replace(run, sessions=[replace(whole, step=half), replace(whole, from_step=half // 2, learning_cpu=15.0)])
    steps = half + len(run.steps) - half // 2
    assert learning_seconds(twice, by_clock=False) == pytest.approx(25.0 * len(run.steps) / steps)
    assert learning_seconds(run, by_clock=True) == 15.0


def test_the_table_has_a_row_per_method_with_a_star_on_the_front() -> None:
    table = table_of(groups([*timed("er", 10.0), *timed("derpp", 20.0, skill=4), *timed("clser", 30.0, skill=-4)]))
    assert table.columns == ["", "cost, ER = 1", "ACC ↑", "average incremental accuracy ↑", "ACC_AUC ↑", "seeds"]
    assert [row.cells[0].value for row in table.rows] == ["er", "derpp", "clser"]
    assert [text_of(row.cells[1]) for row in table.rows] == ["1.00 ± 0.00", "2.00 ± 0.00", "3.00 ± 0.00"]
    assert [row.cells[2].text.endswith("*") for row in table.rows] == [True, True, False]
    assert [row.cells[5].value for row in table.rows] == [3, 3, 3]
