"""What the paper claims of CBA, which of it holds in the finished runs of a ledger, and what they show besides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evenkeel.errors import counted
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import PaperCell, paper_table, without
from evenkeel.grids.paper_tables import finished_group, short_title
from evenkeel.results.groups import ENOUGH, Estimate, gain, paired, seeds_text
from evenkeel.results.measures import MEASURES

MAIN = "table1"
PROPOSED = "er-cba"  # the row of Table 5 that the others vary
CLAIMS = {  # by table, or row of Table 5, and measure: what a difference of the paper's sign means
    (MAIN, "acc"): "Online, CBA raises the accuracy at the end (ACC)",
    (MAIN, "fm"): "Online, CBA lowers forgetting (FM)",
    ("table3", "acc"): "On blurry streams, CBA raises ACC",
    ("table3", "fm"): "On blurry streams, CBA lowers FM",
    ("table4", "acc"): "Offline, CBA raises ACC",
    ("table4", "fm"): "Offline, CBA lowers FM",
    ("er-cba-joint", "acc"): "Trained end to end instead of bi-level, CBA gives a lower ACC",
    ("er-cba-joint-memory", "acc"): "Trained end to end with the loss on the memory too, CBA gives a lower ACC",
    ("er-cba-64", "acc"): "With 64 hidden units instead of 256, CBA gives a lower ACC",
    ("er-cba-1024", "acc"): "With 1,024 hidden units instead of 256, CBA gives a higher ACC",
}
OPEN = "open: no gain and the paper's gain are both within our interval"
EXCLUDED = "not shown, and the paper's gain is outside our interval"
UNCLAIMED = {  # by measure: what the paper does not report of its main table
    "learning_accuracy": "learning accuracy (of a task right after it was learned)",
    "learning_within": "within-task learning accuracy (only the task's own classes compete)",
}


@dataclass(frozen=True)
class Pair:
    """A method without and with CBA, or with the proposed adaptor and another: the gain, ours and the paper's."""

    part: str  # of the paper: a table, or a row of Table 5
    measure: str
    label: str  # such as ER, CIFAR-10, memory 500
    ours: Estimate | None  # paired by seed; None: no common seed is finished
    paper: float | None  # None: the paper does not report this measure

    @property
    def method(self) -> str:
        """Return the name of the method alone."""
        return self.label.partition(", ")[0]

    @property
    def shown(self) -> int:
        """Return 1 if our interval shows a gain of the paper's sign, -1 if the opposite, 0 if neither."""
        if self.paper is None or self.ours is None or self.ours.half is None or abs(self.ours.mean) <= self.ours.half:
            return 0
        return 1 if self.ours.mean * self.paper > 0 else -1

    @property
    def agrees(self) -> bool:
        """Return whether our mean has the paper's sign, which chance alone may give it."""
        return self.ours is not None and self.paper is not None and self.ours.mean * self.paper > 0

    @property
    def verdict(self) -> str:
        """Return what our runs say of the paper's claim."""
        if self.ours is None or self.ours.half is None:
            return "too few seeds to tell"
        if not self.shown:
            return OPEN if self.open else EXCLUDED
        return "shown" if self.shown > 0 else "the opposite is shown"

    @property
    def open(self) -> bool:
        """Return whether our interval has room for both no gain and the paper's."""
        if self.ours is None or self.paper is None or self.ours.half is None or self.shown:
            return False
        return abs(self.ours.mean - self.paper) <= self.ours.half

    def __str__(self) -> str:
        assert self.ours is not None
        paper = "" if self.paper is None else f"; the paper {self.paper:+.1f}"
        return f"{self.label}: {self.ours.text('+.1f')}, {seeds_text([self.ours.n])}{paper}"


def pairs(ledger: Ledger, net: str) -> list[Pair]:
    """Return all pairs that claims are about, in the paper's order, with what is finished of them."""
    found = []
    for name in ("table1", "table3", "table4", "table5"):
        table = paper_table(name, net=net)
        for cell in table.cells:
            ablated = name == "table5"
            base = _proposed(table.cells, cell) if ablated else without(table.cells, cell)
            if base is None:
                continue
            common = paired(finished_group(base, ledger), finished_group(cell, ledger))
            differences = zip(cell.values, base.values, strict=True)
            printed = dict(zip(table.values, (after - before for after, before in differences), strict=True))
            part, label = (cell.row, _label(cell)) if ablated else (name, _label(base))
            for measure in (*table.values, *(UNCLAIMED if name == MAIN else ())):
                found.append(Pair(part, measure, label, gain(MEASURES[measure], common), printed.get(measure)))
    return found


def _proposed(cells: Sequence[PaperCell], cell: PaperCell) -> PaperCell | None:
    """Return the cell of Table 5 with the proposed adaptor, if a claim compares `cell` with it."""
    if (cell.row, "acc") not in CLAIMS:
        return None
    return next(each for each in cells if (each.data, each.memory, each.row) == (cell.data, cell.memory, PROPOSED))


def _label(cell: PaperCell) -> str:
    return f"{cell.title}, {short_title(cell.data)}, memory {cell.memory}"


def on_the_whole(every: Sequence[Pair]) -> str:
    """Return sentences in Markdown: what CBA changes in the pairs of the main table that were run, and by method."""
    ran = [pair for pair in every if pair.part == MAIN and pair.ours is not None]
    acc, fm = ([pair for pair in ran if pair.measure == measure] for measure in ("acc", "fm"))
    if not acc:
        return ""
    raised, lowered = (sum(pair.agrees for pair in each) for each in (acc, fm))
    by_method = {pair.method: [each for each in acc if each.method == pair.method] for pair in acc}
    seeds = seeds_text([pair.ours.n for pair in acc if pair.ours is not None])
    intervals = ", whose intervals follow" if any(pair.ours.half is not None for pair in acc if pair.ours) else ""
    return (
        f"**On the whole**, by means over {seeds}{intervals}: online, CBA lowers forgetting in {lowered} "
        f"of {len(fm)} pairs and raises ACC in {raised} of {len(acc)}. The gains in ACC are "
        f"{'; '.join(f'{_gains(mine)} with {method}' for method, mine in by_method.items())}.\n"
    )


def _gains(mine: Sequence[Pair]) -> str:
    """Return from where to where the gains of some pairs go, ours and the paper's."""
    ours = [pair.ours.mean for pair in mine if pair.ours is not None]
    return f"{_span(ours)} (in the paper's same cells {_span([pair.paper for pair in mine if pair.paper is not None])})"


def _span(gains: Sequence[float]) -> str:
    least, most = (f"{each:+.1f}" for each in (min(gains), max(gains)))
    return least if least == most else f"{least} to {most}"


def conclusions(every: Sequence[Pair]) -> str:
    """Return a list in Markdown: each claim, in how many pairs our runs show it, and the gains behind that."""
    by_claim = {claim: [pair for pair in every if (pair.part, pair.measure) == key] for key, claim in CLAIMS.items()}
    return "\n".join(line for claim, mine in by_claim.items() for line in _conclusion(claim, mine))


def _conclusion(claim: str, mine: Sequence[Pair]) -> Iterator[str]:
    ran = [pair for pair in mine if pair.ours is not None]
    if not ran:
        yield f"- **{claim}: not run.** The paper has {len(mine)} pairs."
        return
    intervals = [pair for pair in ran if pair.ours is not None and pair.ours.half is not None]
    yes, no = (sum(pair.shown == sign for pair in intervals) for sign in (1, -1))
    kinds = {
        "open in": sum(pair.verdict == OPEN for pair in intervals),
        "the paper's gain excluded in": sum(pair.verdict == EXCLUDED for pair in intervals),
        "the opposite in": no,
    }
    others = "".join(f", {kind} {number}" for kind, number in kinds.items() if number)
    shown = f"shown in {yes} of {counted(len(intervals), 'pair')} with {ENOUGH} seeds or more{others}"
    verdict = shown if intervals else f"too few seeds to tell, as no pair has {ENOUGH}"
    were = "was" if len(ran) == 1 else "were"
    yield f"- **{claim}: {verdict}.** {len(ran)} of the paper's {len(mine)} pairs {were} run:"
    yield from (f"  - {pair}: {pair.verdict}" for pair in ran)


def beyond_claims(every: Sequence[Pair], ledger: Ledger, net: str) -> str:
    """Return a list in Markdown: what CBA changes in measures that the paper lacks, and our ACC without CBA."""
    blocks = dict[str, list[str]]()
    for measure, about in UNCLAIMED.items():
        ran = [pair for pair in every if pair.measure == measure and pair.ours is not None]
        head = f"Not in the paper: what CBA changes in {about}{_shown_changes(ran)}"
        blocks[head] = [str(pair) for pair in ran]
    blocks |= _baselines(ledger, net)
    return "\n".join(
        line
        for head, items in blocks.items()
        if items
        for line in (f"- **{head}.**", *(f"  - {each}" for each in items))
    )


def _shown_changes(ran: Sequence[Pair]) -> str:
    """Return in how many pairs an interval is clear of zero, and on which side."""
    intervals = [pair.ours for pair in ran if pair.ours is not None and pair.ours.half is not None]
    if not intervals:
        return ""
    rises, falls = (sum(sign * each.mean > (each.half or 0.0) for each in intervals) for sign in (1, -1))
    number = counted(len(intervals), "pair")
    return f": of {number} with {ENOUGH} seeds or more, a fall is shown in {falls}, a rise in {rises}"


def _baselines(ledger: Ledger, net: str) -> dict[str, list[str]]:
    """Return how our ACC without CBA compares with the paper's, and the values behind that."""
    cells = paper_table(MAIN, net=net).cells
    bases = [base for cell in cells if (base := without(cells, cell)) is not None]
    known = [(cell, ours) for cell in bases if (ours := finished_group(cell, ledger).estimate(MEASURES["acc"]))]
    above = sum(ours.mean > cell.values[0] for cell, ours in known)
    items = [f"{_label(cell)}: {ours}, {seeds_text([ours.n])}; the paper {cell.values[0]:.1f}" for cell, ours in known]
    return {f"Without CBA, the mean of our ACC is above the paper's in {above} of {len(known)} cells": items}
