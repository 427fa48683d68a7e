"""What the paper claims, and whether our runs show it: from single gains to the sentences of docs/reproduction.md."""

import re
from pathlib import Path
from statistics import fmean

import pytest

from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table
from evenkeel.grids.paper_claims import EXCLUDED, OPEN, Pair, beyond_claims, conclusions, on_the_whole, pairs
from evenkeel.grids.paper_tables import finished_group
from evenkeel.results.groups import Estimate
from evenkeel.results.run_files import Results

SLIM = Path(__file__).parents[2] / "results" / "slim"


@pytest.mark.parametrize(
    ("gains", "paper", "shown"),
    [
        ([5.0, 5.1, 4.9], 3.0, 1),
        ([-5.0, -5.1, -4.9], 3.0, -1),
        ([-5.0, -5.1, -4.9], -9.0, 1),
        ([5.0, -5.0, 4.9], 3.0, 0),  # the interval has 0 in it
        ([5.0, 5.1], 3.0, 0),  # no interval
        ([], 3.0, 0),
    ],
)
def test_a_gain_is_shown_if_its_interval_lies_on_the_papers_side_of_zero(
    gains: list[float], paper: float, shown: int
) -> None:
    assert Pair("table1", "acc", "ER", Estimate.of(gains), paper).shown == shown


def test_a_claim_counts_pairs_with_an_interval_and_lists_all_that_were_run() -> None:
    three, two = Estimate.of([5.0, 5.1, 4.9]), Estimate.of([1.0, 3.0])
    table = [("ER", three, 3.0), ("DER++", three, -1.0), ("RAR", two, 2.0), ("CLS-ER", None, 2.0)]
    text = conclusions([Pair("table1", "acc", *row) for row in table])
    first, *listed = text.splitlines()[:4]
    assert "shown in 1 of 2 pairs with 3 seeds or more, the opposite in 1." in first
    assert first.endswith("3 of the paper's 4 pairs were run:")
    assert listed == [
        "  - ER: +5.0 ± 0.2, 3 seeds; the paper +3.0: shown",
        "  - DER++: +5.0 ± 0.2, 3 seeds; the paper -1.0: the opposite is shown",
        "  - RAR: +2.0 (+1.0, +3.0), 2 seeds; the paper +2.0: too few seeds to tell",
    ]
    assert "- **Online, CBA lowers forgetting (FM): not run.** The paper has 0 pairs." in text


def test_a_claim_counts_what_is_open_and_what_is_excluded_each_once() -> None:
    unsure, small = Estimate.of([5.0, -5.0, 3.0]), Estimate.of([0.1, -0.1, 0.0])
    table = [("ER", unsure, 3.0), ("DER++", small, 3.0), ("RAR", small, 4.0)]
    first, *listed = conclusions([Pair("table1", "acc", *row) for row in table]).splitlines()[:4]
    assert "shown in 0 of 3 pairs with 3 seeds or more, open in 1, the paper's gain excluded in 2." in first
    assert [line.endswith(verdict) for line, verdict in zip(listed, (OPEN, EXCLUDED, EXCLUDED), strict=True)] == [
        True
    ] * 3


def test_a_single_seed_has_no_interval_to_speak_of() -> None:
    pair = Pair("table1", "acc", "ER, A, memory 1", Estimate.of([2.0]), 3.0)
    first, second, *_ = conclusions([pair]).splitlines()
    assert first.endswith("too few seeds to tell, as no pair has 3.** 1 of the paper's 1 pairs was run:")
    assert second == "  - ER, A, memory 1: +2.0, 1 seed; the paper +3.0: too few seeds to tell"
    assert "by means over 1 seed: online" in on_the_whole([pair])


def test_the_whole_is_counted_by_signs_and_averaged_by_method() -> None:
    one, two, less = Estimate.of([2.0]), Estimate.of([1.0, 3.0]), Estimate.of([-1.0, -2.0, -3.0])
    acc = [("ER, A, memory 1", one, 1.0), ("ER, B, memory 1", less, 3.0), ("DER++, A, memory 1", two, 5.0)]
    fm = [("ER, A, memory 1", less, -4.0), ("ER, B, memory 1", one, -4.0), ("DER++, A, memory 1", None, -4.0)]
    others = [Pair("table3", "acc", *acc[0]), Pair("table1", "learning_within", "ER, A, memory 1", one, None)]
    main = [Pair("table1", name, *row) for name, rows in (("acc", acc), ("fm", fm)) for row in rows]
    text = on_the_whole([*others, *main])
    assert "lowers forgetting in 1 of 2 pairs and raises ACC in 2 of 3." in text
    assert "-2.0 to +2.0 (in the paper's same cells +1.0 to +3.0) with ER; " in text
    assert "+2.0 (in the paper's same cells +5.0) with DER++." in text
    assert "by means over 1 to 3 seeds, whose intervals follow: online" in text
    assert on_the_whole(others) == ""


def test_gains_are_those_of_the_ledger_and_of_the_paper() -> None:
    every = [pair for pair in pairs(Ledger(SLIM), "slim") if (pair.part, pair.measure) == ("table1", "acc")]
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
    ("row", "memory", "paper"),
    [("er-cba-joint", 200, 31.95 - 37.27), ("er-cba-joint-memory", 500, 44.58 - 45.41), ("er-cba-1024", 500, 1.44)],
)
def test_ablations_are_compared_with_the_proposed_adaptor(row: str, memory: int, paper: float) -> None:
    ledger, cells = Ledger(SLIM), paper_table("table5", net="slim", memory=[memory]).cells
    ours, proposed = (
        {run.seed: run.ended.metrics["acc"] or 0 for run in finished_group(cell, ledger).runs if run.ended}
        for name in (row, "er-cba")
        for cell in cells
        if cell.row == name
    )
    (pair,) = (
        each
        for each in pairs(ledger, "slim")
        if (each.part, each.measure) == (row, "acc") and each.label.endswith(f"memory {memory}")
    )
    assert pair.paper == pytest.approx(paper)
    assert pair.ours == Estimate.of([ours[seed] - proposed[seed] for seed in sorted(ours.keys() & proposed.keys())])


def test_what_the_paper_lacks_is_listed_without_it(tmp_path: Path) -> None:
    changes = [Pair("table1", "learning_within", "ER", Estimate.of([5.0, 5.1, 4.9]), None)]
    changes.append(Pair("table1", "learning_within", "DER++", None, None))
    assert [pair.shown for pair in changes] == [0, 0]  # nothing is claimed
    head, *items = beyond_claims(changes, Ledger(tmp_path), "slim").splitlines()
    assert head.startswith("- **Not in the paper: what CBA changes in within-task learning accuracy")
    assert "of 1 pair with 3 seeds or more, a fall is shown in 0, a rise in 1.**" in head
    assert items == ["  - ER: +5.0 ± 0.2, 3 seeds"]


def test_changes_are_counted_by_the_side_of_zero_their_intervals_are_on(tmp_path: Path) -> None:
    gains = [[-5.0, -5.1, -4.9], [-3.0, -3.1, -2.9], [5.0, 5.1, 4.9], [5.0, -5.0, 1.0], [-9.0, -9.1]]
    changes = [Pair("table1", "learning_accuracy", "ER", Estimate.of(each), None) for each in gains]
    head, *_ = beyond_claims(changes, Ledger(tmp_path), "slim").splitlines()
    assert "of 4 pairs with 3 seeds or more, a fall is shown in 2, a rise in 1.**" in head
    alone, *_ = beyond_claims(changes[-1:], Ledger(tmp_path), "slim").splitlines()
    assert "shown" not in alone


def test_our_runs_without_cba_are_compared_with_the_papers() -> None:
    head, *items = beyond_claims([], Ledger(SLIM), "slim").splitlines()
    scores = [
        run.ended.metrics["acc"] or 0
        for path in SLIM.glob("cifar10-500-derpp-seed*")
        if (run := Results.read(path)).ended
    ]
    assert f"  - DER++, CIFAR-10, memory 500: {Estimate.of(scores)}, {len(scores)} seeds; the paper 43.4" in items
    values = [tuple(map(float, found)) for found in re.findall(r": ([\d.]+).*; the paper ([\d.]+)", "\n".join(items))]
    assert f"in {sum(ours > paper for ours, paper in values)} of {len(items)} cells" in head
