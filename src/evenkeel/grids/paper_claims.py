"""What the paper claims of CBA, and which of it holds in the finished runs of a ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import paper_table, without
from evenkeel.grids.paper_tables import TITLES, finished_group
from evenkeel.results.groups import ENOUGH, Estimate, gain, paired, seeds_text
from evenkeel.results.measures import MEASURES

CLAIMS = {  # by table and measure: what a gain of the paper's sign means
    ("table1", "acc"): "Online, CBA raises the accuracy at the end (ACC)",
    ("table1", "fm"): "Online, CBA lowers forgetting (FM)",
    ("table3", "acc"): "On blurry streams, CBA raises ACC",
    ("table3", "fm"): "On blurry streams, CBA lowers FM",
    ("table4", "acc"): "Offline, CBA raises ACC",
    ("table4", "fm"): "Offline, CBA lowers FM",
}


@dataclass(frozen=True)
class Pair:
    """A method without and with CBA: the gain in one measure, ours and the paper's."""

    table: str
    measure: str
    label: str  # such as ER, CIFAR-10, memory 500
    ours: Estimate | None  # paired by seed; None: no common seed is finished
    paper: float

    @property
    def shown(self) -> int:
        """Return 1 if our interval shows a gain of the paper's sign, -1 if the opposite, 0 if neither."""
        if self.ours is None or self.ours.half is None or abs(self.ours.mean) <= self.ours.half:
            return 0
        return 1 if self.ours.mean * self.paper > 0 else -1

    def __str__(self) -> str:
        assert self.ours is not None
        return f"{self.label}: {self.ours.text('+.1f')}, {seeds_text([self.ours.n])}; the paper {self.paper:+.1f}"


def pairs(ledger: Ledger, net: str) -> list[Pair]:
    """Return all pairs of the tables with claims, in the paper's order, with what is finished of them."""
    found = []
    for name in dict.fromkeys(table for table, _ in CLAIMS):
        table = paper_table(name, net=net)
        for cell in table.cells:
            base = without(table.cells, cell)
            if base is None:
                continue
            common = paired(finished_group(base, ledger), finished_group(cell, ledger))
            label = f"{base.title}, {TITLES.get(cell.data, cell.data).removeprefix('Split ')}, memory {cell.memory}"
            for measure, before, after in zip(table.values, base.values, cell.values, strict=True):
                found.append(Pair(name, measure, label, gain(MEASURES[measure], common), after - before))
    return found


def conclusions(every: Sequence[Pair]) -> str:
    """Return a list in Markdown: each claim, in how many pairs our runs show it, and the gains behind that."""
    by_claim = {claim: [pair for pair in every if (pair.table, pair.measure) == key] for key, claim in CLAIMS.items()}
    return "\n".join(line for claim, mine in by_claim.items() for line in _conclusion(claim, mine))


def _conclusion(claim: str, mine: Sequence[Pair]) -> Iterator[str]:
    ran = [pair for pair in mine if pair.ours is not None]
    if not ran:
        yield f"- **{claim}: not run.** The paper has {len(mine)} pairs."
        return
    intervals = [pair for pair in ran if pair.ours is not None and pair.ours.half is not None]
    yes, no = (sum(pair.shown == sign for pair in intervals) for sign in (1, -1))
    opposite = f", the opposite in {no}" if no else ""
    yield (
        f"- **{claim}: shown in {yes} of {len(intervals)} pairs with {ENOUGH} seeds or more{opposite}.** "
        f"{len(ran)} of the paper's {len(mine)} pairs were run:"
    )
    yield from (f"  - {pair}" for pair in ran)
