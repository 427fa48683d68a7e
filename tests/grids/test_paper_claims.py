"""What the paper claims, and whether our runs show it: from single gains to the sentences of docs/reproduction.md."""

import re
from pathlib import Path
from statistics import fmean

import pytest

from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table
from evenkeel.grids.paper_claims import (
    CLAIMS,
    EARLIER,
    NEWEST,
    OPEN,
    OUTSIDE,
    UNCLAIMED,
    Comparison,
    Pair,
    beyond_claims,
    conclusions,
    on_the_whole,
    pairs,
)
from evenkeel.grids.paper_tables import finished_group
from evenkeel.results.groups import Estimate
from evenkeel.results.run_files import Results

SLIM = Path(__file__).parents[2] / "results" / "slim"
ACC, FM = CLAIMS[:2]
LEARNING, WITHIN, _ = UNCLAIMED


def comparison(part: str, measure: str, row: str = "", base: str = "") -> Comparison:
    (found,) = (each for each in CLAIMS if (each.part, each.measure, each.row, each.base) == (part, measure, row, base))
    return found


@pytest.mark.parametrize(
    ("claim", "gains", "shown"),
    [
        (ACC, [5.0, 5.1, 4.9], 1),
        (ACC, [-5.0, -5.1, -4.9], -1),
        (FM, [-5.0, -5.1, -4.9], 1),
        (ACC, [5.0, -5.0, 4.9], 0),  # the interval has 0 in it
        (ACC, [5.0, 5.1], 0),  # no interval
        (ACC, [], 0),
        (WITHIN, [5.0, 5.1, 4.9], 0),  # nothing is claimed
    ],
)
def test_a_claim_is_shown_if_the_interval_lies_on_its_side_of_zero(
    claim: Comparison, gains: list[float], shown: int
) -> None:
    for paper in (3.0, -3.0, None):  # also where the paper's own cell says otherwise
        assert Pair(claim, "ER", Estimate.of(gains), paper).shown == shown


@pytest.mark.parametrize(
    ("gains", "paper", "verdict"),
    [
        ([5.0, 5.1, 4.9], 5.1, "shown"),
        ([5.0, 5.1, 4.9], 9.0, f"shown, and {OUTSIDE}"),
        ([-5.0, -5.1, -4.9], -5.1, "the opposite is shown"),
        ([-5.0, -5.1, -4.9], 3.0, f"the opposite is shown, and {OUTSIDE}"),
        ([5.0, -5.0, 3.0], 3.0, OPEN),
        ([5.0, -5.0, 3.0], None, "not shown"),
        ([0.1, -0.1, 0.0], 3.0, f"not shown, and {OUTSIDE}"),
        ([5.0, 5.1], 9.0, "too few seeds to tell"),
    ],
)
def test_a_verdict_says_what_the_interval_has_room_for(gains: list[float], paper: float | None, verdict: str) -> None:
    assert Pair(ACC, "ER", Estimate.of(gains), paper).verdict == verdict


def test_a_claim_counts_pairs_with_an_interval_and_lists_all_that_were_run() -> None:
    three, lower, two = Estimate.of([5.0, 5.1, 4.9]), Estimate.of([-5.0, -5.1, -4.9]), Estimate.of([1.0, 3.0])
    table = [("ER", three, 5.0), ("DER++", lower, 3.0), ("RAR", two, 2.0), ("CLS-ER", None, 2.0)]
    text = conclusions([Pair(ACC, *row) for row in table])
    first, *listed = text.splitlines()[:4]
    assert f"shown in 1 of 2 pairs with 3 seeds or more, the opposite in 1; {OUTSIDE} in 1." in first
    assert first.endswith("3 of the paper's 4 pairs were run:")
    assert listed == [
        "    - ER: +5.0 ± 0.2, 3 seeds; the paper +5.0: shown",
        f"    - DER++: -5.0 ± 0.2, 3 seeds; the paper +3.0: the opposite is shown, and {OUTSIDE}",
        "    - RAR: +2.0 (+1.0, +3.0), 2 seeds; the paper +2.0: too few seeds to tell",
    ]
    assert text.splitlines()[4].startswith(
        "- **Not run:** Online, CBA lowers forgetting (FM) (0 pairs); Online, CBA raises"
    )


def test_a_claim_counts_what_is_open_and_where_the_papers_gain_is_outside() -> None:
    unsure, small, large = Estimate.of([5.0, -5.0, 3.0]), Estimate.of([0.1, -0.1, 0.0]), Estimate.of([9.0, 9.1, 8.9])
    table = [("ER", unsure, 3.0), ("DER++", small, 3.0), ("RAR", large, 4.0)]
    first, *_ = conclusions([Pair(ACC, *row) for row in table]).splitlines()
    assert f"shown in 1 of 3 pairs with 3 seeds or more, open in 1; {OUTSIDE} in 2." in first


def test_a_single_seed_has_no_interval_to_speak_of() -> None:
    pair = Pair(ACC, "ER, A, memory 1", Estimate.of([2.0]), 3.0)
    first, second, *_ = conclusions([pair]).splitlines()
    assert first.endswith("too few seeds to tell, as no pair has 3.** The paper's one pair was run:")
    assert second == "    - ER, A, memory 1: +2.0, 1 seed; the paper +3.0: too few seeds to tell"


def test_the_whole_is_counted_by_signs_by_data_set_and_method() -> None:
    one, two, less = Estimate.of([2.0]), Estimate.of([1.0, 3.0]), Estimate.of([-1.0, -2.0, -3.0])
    rows: dict[Comparison, list[tuple[str, Estimate | None, float | None]]] = {
        ACC: [("ER, A, memory 1", one, 1.0), ("ER, A, memory 2,000", less, 3.0), ("DER++, A, memory 1", two, 5.0)],
        FM: [("ER, A, memory 1", less, -4.0), ("ER, A, memory 2,000", one, -4.0), ("DER++, A, memory 1", None, -4.0)],
        LEARNING: [("ER, A, memory 1", less, None)],
    }
    main = [Pair(claim, *row) for claim, mine in rows.items() for row in mine]
    other_set = [Pair(claim, "ER, B, memory 1", one, 7.0) for claim in (ACC, FM, LEARNING)]
    others = [Pair(comparison("table3", "acc"), "ER, C, memory 1", one, 1.0)]
    _, _, first, second, *_ = on_the_whole([*others, *main, *other_set]).splitlines()
    assert first.startswith(
        "- **A** (1 to 3 seeds): CBA raises ACC in 2 of 3 pairs, with ER by -2.0 to +2.0 (the paper +1.0 to"
    )
    assert ", DER++ by +2.0 (the paper +5.0). It lowers forgetting in 1 of 2: FM changes by -2.0 to +2.0" in first
    assert first.endswith("the height that it is counted from, by -2.0.")
    assert second.startswith("- **B** (1 seed): CBA raises ACC in 1 of 1 pair, with ER by +2.0 (the paper +7.0).")
    assert on_the_whole(others) == ""


def test_gains_are_those_of_the_ledger_and_of_the_paper() -> None:
    every = [pair for pair in pairs(Ledger(SLIM), "slim") if pair.comparison == ACC]
    assert len(every) == 24
    (pair,) = (each for each in every if each.label == "DER++, CIFAR-10, memory 500")
    plain, adapted = (
        {run.seed: run.ended.metrics["acc"] or 0 for path in SLIM.glob(name) if (run := Results.read(path)).ended}
        for name in ("cifar10-500-derpp-seed*", "cifar10-500-derpp-cba-seed*")
    )
    assert pair.ours is not None
    assert pair.ours.mean == pytest.approx(fmean(adapted[seed] - plain[seed] for seed in plain))
    assert pair.ours.n == len(plain) == len(adapted)
    assert pair.paper == pytest.approx(48.44 - 43.44)


@pytest.mark.parametrize(
    ("row", "base", "memory", "paper"),
    [
        ("er-cba-joint", "er", 200, 31.95 - 35.21),
        ("er-cba-joint", "er-cba", 200, 31.95 - 37.27),
        ("er-cba-joint-memory", "er", 500, 44.58 - 42.32),  # against the paper's text
        ("er-cba-64", "er", 500, 37.48 - 42.32),
        ("er-cba-1024", "er-cba", 500, 1.44),
    ],
)
def test_ablations_are_compared_with_what_the_text_compares_them_with(
    row: str, base: str, memory: int, paper: float
) -> None:
    ledger, cells = Ledger(SLIM), paper_table("table5", net="slim", memory=[memory]).cells
    ours, others = (
        {run.seed: run.ended.metrics["acc"] or 0 for run in finished_group(cell, ledger).runs if run.ended}
        for name in (row, base)
        for cell in cells
        if cell.row == name
    )
    claim = comparison("table5", "acc", row, base)
    every = [each for each in pairs(ledger, "slim") if each.comparison == claim]
    (pair,) = (each for each in every if each.label.endswith(f"memory {memory}"))
    assert len(every) == 2
    assert pair.paper == pytest.approx(paper)
    assert pair.ours == Estimate.of([ours[seed] - others[seed] for seed in sorted(ours.keys() & others.keys())])


@pytest.mark.parametrize(
    ("measure", "tasks", "paper"),
    [(EARLIER, slice(4), (16.02 + 4.28 + 5.46 + 1.93) / 4), (NEWEST, slice(4, None), -12.25)],
)
def test_earlier_tasks_and_the_newest_are_those_of_table_2(measure: str, tasks: slice, paper: float) -> None:
    found = [pair for pair in pairs(Ledger(SLIM), "slim") if pair.comparison == comparison("table2", measure)]
    (pair,) = (each for each in found if each.label == "ER, CIFAR-10, memory 500")
    plain, adapted = (
        {run.seed: fmean(run.finished_tasks[-1].accuracy[tasks]) for run in finished_group(cell, Ledger(SLIM)).runs}
        for cell in paper_table("table2", data=["cifar10"], net="slim").cells
    )
    assert pair.ours == Estimate.of([adapted[seed] - plain[seed] for seed in sorted(plain)])
    assert pair.paper == pytest.approx(paper)


def test_other_methods_are_compared_with_er() -> None:
    every = pairs(Ledger(SLIM), "slim")
    (pair,) = (each for each in every if each.label == "BiC, CIFAR-10, memory 500")
    assert pair.paper == pytest.approx(35.47 - 42.32)
    assert pair.comparison.sign == -1
    assert "BiC" not in on_the_whole(every)  # which is about CBA


def test_what_the_paper_lacks_is_listed_without_it(tmp_path: Path) -> None:
    changes = [Pair(WITHIN, "ER", Estimate.of([5.0, 5.1, 4.9]), None), Pair(WITHIN, "DER++", None, None)]
    head, *items = beyond_claims(changes, Ledger(tmp_path), "slim").splitlines()
    assert head.startswith("- **Not in the paper: what CBA changes in within-task learning accuracy")
    assert "of 1 pair with 3 seeds or more, a fall is shown in 0, a rise in 1.**" in head
    assert items == ["    - ER: +5.0 ± 0.2, 3 seeds"]


def test_changes_are_counted_by_the_side_of_zero_their_intervals_are_on(tmp_path: Path) -> None:
    gains = [[-5.0, -5.1, -4.9], [-3.0, -3.1, -2.9], [5.0, 5.1, 4.9], [5.0, -5.0, 1.0], [-9.0, -9.1]]
    changes = [Pair(LEARNING, "ER", Estimate.of(each), None) for each in gains]
    head, *_ = beyond_claims(changes, Ledger(tmp_path), "slim").splitlines()
    assert "of 4 pairs with 3 seeds or more, a fall is shown in 2, a rise in 1.**" in head
    alone, *_ = beyond_claims(changes[-1:], Ledger(tmp_path), "slim").splitlines()
    assert "shown" not in alone


def test_our_runs_without_cba_are_compared_with_the_papers() -> None:
    blocks = beyond_claims([], Ledger(SLIM), "slim").split("- **Without CBA, our mean ACC ")
    _, (head, *items), *_ = (block.splitlines() for block in blocks)
    scores = [
        run.ended.metrics["acc"] or 0
        for path in SLIM.glob("cifar10-500-derpp-seed*")
        if (run := Results.read(path)).ended
    ]
    assert f"    - DER++, CIFAR-10, memory 500: {Estimate.of(scores)}, {len(scores)} seeds; the paper 43.4" in items
    values = [tuple(map(float, found)) for found in re.findall(r": ([\d.]+).*; the paper ([\d.]+)", "\n".join(items))]
    assert (
        f"on CIFAR-10 is above the paper's in {sum(ours > paper for ours, paper in values)} of {len(values)} " in head
    )
