"""Budgets: which runs of a grid begin, in which order, when there is time for only a part of them."""

from pathlib import Path

import pytest

import evenkeel as ek
from evenkeel.errors import SettingsError
from evenkeel.grids import schedule
from evenkeel.grids.budget import Budget, seconds_of
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid

SMALL = ["limits.train=5", "limits.test=5", "evaluation.every=0", "evaluation.alignment=0", "threads=1"]
COSTS = {"er": 4.0, "derpp": 10.0, "er_ace": 1.0}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3h", 10_800), ("1.5h", 5_400), ("2h30m", 9_000), ("2 h 30 min", 9_000), ("90min", 5_400), ("45s", 45)],
)
def test_a_budget_is_written_as_a_span_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "3", "h", "three hours", "-1h", "0h", "1h 1h", "30m2h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"such as 3h, 2h30m or 45min"):
        seconds_of(text)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def config(method: str, seed: int, adaptor: str = "none") -> ek.Config:
    return ek.load_config("digits", [*SMALL, f"method.name={method}", f"seed={seed}", f"adaptor.name={adaptor}"])


def by_seeds(*methods: str, seeds: int = 2) -> dict[str, ek.Config]:
    """Return runs as a table of the paper lists them: by seed, each method without and with CBA."""
    configs = [
        config(method, seed, adaptor) for seed in range(seeds) for method in methods for adaptor in ("none", "cba")
    ]
    return {run_key(each): each for each in configs}


def cost(config: ek.Config) -> float:
    return COSTS[config.method["name"]] * (1.5 if config.adaptor else 1.0)


def names(keys: list[str], runs: dict[str, ek.Config]) -> list[str]:
    return [f"{runs[key].method['name']}{'-cba' if runs[key].adaptor else ''} {runs[key].seed}" for key in keys]


def budget(seconds: float, *, at_once: int = 1, done: dict[str, float] | None = None) -> tuple[Budget, Clock]:
    clock = Clock()
    return Budget(seconds, cost, lambda key: (done or {}).get(key, 0.0), at_once, clock), clock


def test_pairs_stay_together_and_the_first_seed_of_the_cheapest_comes_first() -> None:
    runs = by_seeds("derpp", "er", "er_ace")
    first = ["er_ace 0", "er_ace-cba 0", "er 0", "er-cba 0", "derpp 0", "derpp-cba 0"]
    assert names(budget(1e9)[0].in_order(runs), runs) == [*first, *(each.replace("0", "1") for each in first)]


def test_a_cell_with_fewer_seeds_comes_before_a_cheaper_one_with_more() -> None:
    runs = by_seeds("er_ace", seeds=2) | by_seeds("derpp", seeds=1)
    order = names(budget(1e9)[0].in_order(runs), runs)
    assert order == ["er_ace 0", "er_ace-cba 0", "derpp 0", "derpp-cba 0", "er_ace 1", "er_ace-cba 1"]


@pytest.mark.parametrize(("seconds", "at_once", "runs"), [(9.9, 1, 0), (10, 1, 2), (6, 2, 2), (5.9, 2, 0), (12, 2, 4)])
def test_a_pair_begins_only_if_both_can_end_in_time(seconds: float, at_once: int, runs: int) -> None:
    table = by_seeds("er")
    plan, _ = budget(seconds, at_once=at_once)
    assert len(plan.planned(plan.in_order(table))) == runs


def variants(*rates: float) -> dict[str, ek.Config]:
    """Return ER, and ER with CBA at these rates."""
    with_cba = [config("er", 0, "cba").model_copy(update={"adaptor": {"name": "cba", "lr": rate}}) for rate in rates]
    return {run_key(each): each for each in (config("er", 0), *with_cba)}


@pytest.mark.parametrize(("seconds", "runs"), [(9.9, 0), (10, 2), (15.9, 2), (16, 3), (1e9, 5)])
def test_of_many_variants_begin_as_many_as_fit_next_to_the_plain_run(seconds: float, runs: int) -> None:
    table = variants(0.1, 0.2, 0.3, 0.4)
    plan, _ = budget(seconds)
    keys = plan.in_order(table)
    assert keys == list(table)
    assert plan.planned(keys) == keys[:runs]
    assert [plan.begins(key) for key in keys[:2]] == [runs > 0, runs > 0]


def test_pairs_come_before_single_runs_of_the_same_seed() -> None:
    single = [config("er_ace", seed) for seed in (0, 1)]
    runs = {run_key(each): each for each in single} | by_seeds("derpp")
    assert names(budget(1e9)[0].in_order(runs), runs) == [
        *("derpp 0", "derpp-cba 0", "er_ace 0"),
        *("derpp 1", "derpp-cba 1", "er_ace 1"),
    ]


def test_runs_may_be_compared_with_others_than_those_without_an_adaptor() -> None:
    runs = {run_key(each): each for each in (config("derpp", 0), config("er", 0), config("er_ace", 0))}
    derpp, er, er_ace = runs
    plan, _ = budget(1e9)
    plan.bases = {derpp: er_ace, er_ace: "a run of another grid"}
    assert plan.in_order(runs) == [er_ace, derpp, er]


def test_what_is_done_of_a_run_needs_no_time() -> None:
    runs = by_seeds("er", seeds=1)
    plain, cba = runs
    plan, _ = budget(5, done={plain: 1.0, cba: 0.5})
    plan.in_order(runs)
    assert plan.begins(cba)


def test_a_busy_machine_is_noticed_by_the_pace_of_its_runs() -> None:
    runs, done = by_seeds("er"), dict[str, float]()
    first, second, third, _ = runs
    plan, clock = budget(21, done=done)
    plan.in_order(runs)
    assert plan.begins(first)
    clock.now += 5  # the start
    done[first] = 0.25
    plan.observe([first])
    assert plan.pace == 1
    clock.now += 2
    done[first] = 0.5  # twice as slow as estimated
    plan.observe([first])
    assert plan.pace == 2
    done[first] = 1.0
    plan.observe([])
    assert plan.begins(second)
    assert not plan.begins(third)
    clock.now += 14
    assert plan.is_over


def test_the_clock_may_start_before_the_runs_are_put_in_order() -> None:
    runs = by_seeds("er", seeds=1)
    plan, clock = budget(10)
    plan.since = clock.now - 1
    assert plan.planned(plan.in_order(runs)) == []


def begun_within(seconds: float, runs: dict[str, ek.Config], workers: int) -> tuple[list[str], float]:
    """Return the runs that begin if each takes as long as estimated, and the seconds until the last has ended."""
    done, ends = dict[str, float](), dict[str, float]()
    plan, clock = budget(seconds, at_once=workers, done=done)
    waiting = plan.in_order(runs)
    while True:
        done.update({key: min(1.0, 1 - (end - clock.now) / cost(runs[key])) for key, end in ends.items()})
        working = [key for key, end in ends.items() if end > clock.now]
        plan.observe(working)
        for key in list(waiting):
            if len(working) < workers and plan.begins(key):
                ends[key] = clock.now + cost(runs[key])
                working.append(key)
                waiting.remove(key)
        if not working:
            return list(ends), clock.now - 1000
        clock.now = min(ends[key] for key in working)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("seconds", [each + 0.3 for each in range(2, 40)])  # no sum of costs, which rounding could miss
def test_a_pair_is_never_torn_if_all_takes_as_long_as_estimated(seconds: float, workers: int) -> None:
    runs = by_seeds("er", "derpp", "er_ace")
    keys, took = begun_within(seconds, runs, workers)
    assert took <= seconds
    begun = names(keys, runs)
    assert {each for each in begun if "cba" in each} == {
        each.replace(" ", "-cba ") for each in begun if "cba" not in each
    }
    assert keys or seconds < 2.5
    plan, _ = budget(seconds, at_once=workers)
    assert set(plan.planned(plan.in_order(runs))) == set(keys)


def test_a_grid_begins_only_what_fits_and_leaves_the_rest(tmp_path: Path) -> None:
    runs = by_seeds("er_ace", "er")
    ledger = Ledger(tmp_path)
    plan, _ = budget(9)  # a pair of ER-ACE takes 2.5, one of ER 10; the clock stands still
    grid = Grid(ledger, runs.values(), Execution(workers=0, save_every=0), plan).finish()
    assert names(grid.finished, runs) == ["er_ace 0", "er_ace-cba 0", "er_ace 1", "er_ace-cba 1"]
    assert names(grid.left, runs) == ["er 0", "er-cba 0", "er 1", "er-cba 1"]
    again = Grid(ledger, runs.values(), Execution(workers=0, save_every=0)).finish()
    assert not again.left
    assert len(again.finished) == 8


def test_a_run_that_did_not_fit_is_tried_again_when_another_has_ended(tmp_path: Path) -> None:
    class Hesitant(Budget):
        asked = 0

        def begins(self, key: str) -> bool:
            """Refuse the second run that asks, as if the pace were slow by then."""
            self.asked += 1
            return self.asked != 2 and super().begins(key)

    runs = {run_key(each): each for each in (config("er_ace", seed) for seed in range(3))}
    plan = Hesitant(1e6, cost, lambda _: 0.0, clock=Clock())
    grid = Grid(Ledger(tmp_path), runs.values(), Execution(workers=0, save_every=0), plan).finish()
    assert names(grid.finished, runs) == ["er_ace 0", "er_ace 2", "er_ace 1"]
    assert not grid.left


def test_runs_that_do_not_fit_are_asked_about_again_only_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(Budget):
        """A budget with time for one run."""

        asked = 0

        def begins(self, key: str) -> bool:
            self.asked += 1
            return not self.has_begun and super().begins(key)

    monkeypatch.setattr(schedule, "RETRY", 1e9)
    runs = [config("er_ace", seed) for seed in range(3)]
    plan = Full(1e6, cost, lambda _: 0.0, clock=Clock(), at_once=2)
    grid = Grid(Ledger(tmp_path), runs, Execution(workers=2, save_every=0), plan).finish()
    assert (len(grid.finished), len(grid.left)) == (1, 2)
    assert plan.asked == 3 + 2  # at the beginning, and after the one has ended


def test_no_more_runs_are_active_than_the_budget_counts_with(tmp_path: Path) -> None:
    runs = {run_key(each): each for each in (config("er_ace", seed) for seed in range(3))}
    plan = Budget(1e6, cost, lambda _: 0.0, clock=Clock(), at_once=1)
    grid = Grid(Ledger(tmp_path), runs.values(), Execution(workers=3, save_every=0), plan)
    assert max(len(now.working) for now in grid.go()) == 1
    assert len(grid.finished) == 3


def test_active_runs_stop_when_the_budget_is_over_and_resume_later(tmp_path: Path) -> None:
    whole = ek.load_config("digits", ["limits.train=100", "threads=1"])
    plan, clock = budget(1e6)
    grid = Grid(Ledger(tmp_path), [whole], Execution(workers=0, save_every=0), plan)
    for now in grid.go():
        if any(now.steps.values()):
            clock.now += 1e6
    assert grid.left == list(grid.runs)
    assert not grid.finished
    step = grid.ledger.step(*grid.runs)
    assert step > 0
    assert Grid(Ledger(tmp_path), [whole], Execution(workers=0)).finish().finished == list(grid.runs)
