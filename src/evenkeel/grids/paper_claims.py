"""What the paper claims of CBA, which of it holds in the finished runs of a ledger, and what they show besides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from evenkeel.errors import counted
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.paper import PaperCell, PaperTable, paper_table, without
from evenkeel.grids.paper_tables import finished_group, short_title
from evenkeel.results.groups import ENOUGH, Estimate, gain, paired, seeds_text
from evenkeel.results.measures import MEASURES, Measure, final_accuracy

MAIN = "table1"
HEIGHT = "learning_accuracy"  # from which forgetting is counted
EARLIER, NEWEST = "earlier", "newest"  # what Table 2 has: the mean over the earlier tasks, and the last
MEASURED = MEASURES | {
    EARLIER: Measure("ACC on the earlier tasks", True, "", lambda run: fmean(run.matrix()[-1, :-1])),
    NEWEST: Measure("accuracy on the newest task", True, "", lambda run: final_accuracy(run, -1)),
}


@dataclass(frozen=True)
class Comparison:
    """A change between two rows of a part of the paper, and which way it goes, if the paper says so."""

    part: str  # a table or figure
    measure: str
    sign: int  # of the change that the paper claims; 0 if it says nothing
    text: str
    row: str = ""  # of the table; empty: each row with CBA
    base: str = ""  # the row it is compared with; empty: the same method without CBA

    def base_of(self, cells: Sequence[PaperCell], cell: PaperCell) -> PaperCell | None:
        """Return what a cell is compared with; None if this is not about it."""
        if not self.row:
            return without(cells, cell)
        place = (cell.data, cell.memory, self.base)
        return next((each for each in cells if cell.row == self.row and each.place == place), None)


CLAIMS = (
    Comparison(MAIN, "acc", 1, "Online, CBA raises the accuracy at the end (ACC)"),
    Comparison(MAIN, "fm", -1, "Online, CBA lowers forgetting (FM)"),
    Comparison("table2", EARLIER, 1, "Online, CBA raises the accuracy at the end on the earlier tasks (Table 2)"),
    Comparison("table2", NEWEST, -1, "Online, CBA lowers the accuracy at the end on the newest task (Table 2)"),
    Comparison(
        "figure3", "recency_bias", -1, "Online, CBA lowers the newest task's share of the predictions (Figure 3)"
    ),
    Comparison("figure4", "acc_auc", 1, "Online, CBA raises the accuracy along the whole stream (ACC_AUC, Figure 4)"),
    *(
        Comparison(MAIN, "acc", -1, f"Online, {name} has a lower ACC than ER", row, "er")
        for row, name in (("lucir", "LUCIR"), ("bic", "BiC"))
    ),
    Comparison("table3", "acc", 1, "On blurry streams, CBA raises ACC"),
    Comparison("table3", "fm", -1, "On blurry streams, CBA lowers FM"),
    Comparison("table4", "acc", 1, "Offline, CBA raises ACC"),
    Comparison("table4", "fm", -1, "Offline, CBA lowers FM"),
    *(
        Comparison("table5", "acc", -1, f"Trained end to end{how}, CBA gives a lower ACC than {other}", row, base)
        for base, other in (("er", "none"), ("er-cba", "trained bi-level"))
        for row, how in (("er-cba-joint", ""), ("er-cba-joint-memory", " with the loss on the memory too"))
    ),
    Comparison("table5", "acc", -1, "With 64 hidden units, CBA gives a lower ACC than none", "er-cba-64", "er"),
    Comparison(
        "table5", "acc", 1, "With 1,024 hidden units, CBA gives a higher ACC than with 256", "er-cba-1024", "er-cba"
    ),
)
UNCLAIMED = (
    Comparison(MAIN, HEIGHT, 0, "learning accuracy (of a task right after it was learned)"),
    Comparison(MAIN, "learning_within", 0, "within-task learning accuracy (only the task's own classes compete)"),
    Comparison(
        MAIN, "recency_bias", 0, "the newest task's share of the predictions (below the fair one it is a tilt, too)"
    ),
)
BELOW = "    - "  # with fewer spaces, Python-Markdown shows no list in a list
OPEN = "open: no gain and the paper's gain are both within our interval"
OUTSIDE = "the paper's gain is outside our interval"


@dataclass(frozen=True)
class Pair:
    """Two rows that are compared, on one data set with one size of memory: the gain, ours and the paper's."""

    comparison: Comparison
    label: str  # such as ER, CIFAR-10, memory 500
    ours: Estimate | None  # paired by seed; None: no common seed is finished
    paper: float | None  # None: the paper does not report this measure

    @property
    def method(self) -> str:
        """Return the name of the method alone."""
        return self.label.partition(", ")[0]

    @property
    def data(self) -> str:
        """Return the data set alone."""
        return self.label.rsplit(", ", 2)[1]

    @property
    def shown(self) -> int:
        """Return 1 if our interval shows what is claimed, -1 if the opposite, 0 if neither."""
        if self.ours is None or self.ours.half is None or abs(self.ours.mean) <= self.ours.half:
            return 0
        return self.comparison.sign * (1 if self.ours.mean > 0 else -1)

    @property
    def agrees(self) -> bool:
        """Return whether our mean has the sign that is claimed, which chance alone may give it."""
        return self.ours is not None and self.ours.mean * self.comparison.sign > 0

    @property
    def outside(self) -> bool:
        """Return whether our interval excludes the paper's gain."""
        if self.ours is None or self.ours.half is None or self.paper is None:
            return False
        return abs(self.ours.mean - self.paper) > self.ours.half

    @property
    def verdict(self) -> str:
        """Return what our runs say of the paper's claim."""
        if self.ours is None or self.ours.half is None:
            return "too few seeds to tell"
        if self.shown:
            verdict = "shown" if self.shown > 0 else "the opposite is shown"
            return f"{verdict}, and {OUTSIDE}" if self.outside else verdict
        if self.outside:
            return f"not shown, and {OUTSIDE}"
        return "not shown" if self.paper is None else OPEN

    def __str__(self) -> str:
        assert self.ours is not None
        paper = "" if self.paper is None else f"; the paper {self.paper:+.1f}"
        return f"{self.label}: {self.ours.text('+.1f')}, {seeds_text([self.ours.n])}{paper}"


def pairs(ledger: Ledger, net: str) -> list[Pair]:
    """Return all pairs that are compared, with what is finished of them."""
    found = []
    for part in dict.fromkeys(each.part for each in (*CLAIMS, *UNCLAIMED)):
        table = paper_table(part, net=net)
        groups = {cell.place: finished_group(cell, ledger) for cell in table.cells}
        for comparison in (each for each in (*CLAIMS, *UNCLAIMED) if each.part == part):
            for cell in table.cells:
                if base := comparison.base_of(table.cells, cell):
                    common = paired(groups[base.place], groups[cell.place])
                    before, after = (_printed(table, each, comparison.measure) for each in (base, cell))
                    paper = None if before is None or after is None else after - before
                    label = _label(cell if comparison.row else base)
                    found.append(Pair(comparison, label, gain(MEASURED[comparison.measure], common), paper))
    return found


def _printed(table: PaperTable, cell: PaperCell, measure: str) -> float | None:
    """Return what the paper has in a cell; None if it does not have this measure."""
    if measure in (EARLIER, NEWEST):
        *earlier, newest, _ = cell.values  # the last is ACC
        return fmean(earlier) if measure == EARLIER else newest
    return cell.values[table.values.index(measure)] if measure in table.values else None


def _label(cell: PaperCell) -> str:
    return f"{cell.title}, {short_title(cell.data)}, memory {cell.memory:,}"


def on_the_whole(every: Sequence[Pair]) -> str:
    """Return a list in Markdown: what CBA changes in the pairs of the main table that were run, by data set."""
    about_cba = (pair for pair in every if pair.comparison.part == MAIN and not pair.comparison.row)
    ran = [pair for pair in about_cba if pair.ours is not None]
    lines = [_of_data(name, [pair for pair in ran if pair.data == name]) for name in dict.fromkeys(p.data for p in ran)]
    head = "**On the whole**, online, by means over few seeds:"
    return "\n".join([head, "", *lines, "", "Claim by claim:", ""]) if lines else ""


def _of_data(name: str, ran: Sequence[Pair]) -> str:
    of = {measure: [pair for pair in ran if pair.comparison.measure == measure] for measure in ("acc", "fm", HEIGHT)}
    by_method = {pair.method: [each for each in of["acc"] if each.method == pair.method] for pair in of["acc"]}
    seeds = seeds_text([pair.ours.n for pair in ran if pair.ours is not None])
    raised, lowered = (sum(pair.agrees for pair in of[measure]) for measure in ("acc", "fm"))
    return (
        f"- **{name}** ({seeds}): CBA raises ACC in {raised} of {counted(len(of['acc']), 'pair')}, with "
        f"{', '.join(f'{method} by {_gains(mine)}' for method, mine in by_method.items())}. It lowers forgetting in "
        f"{lowered} of {len(of['fm'])}: FM changes by {_span(_ours(of['fm']))}, and learning accuracy, the height that "
        f"it is counted from, by {_span(_ours(of[HEIGHT]))}."
    )


def _gains(mine: Sequence[Pair]) -> str:
    """Return from where to where the gains of some pairs go, ours and the paper's."""
    return f"{_span(_ours(mine))} (the paper {_span([pair.paper for pair in mine if pair.paper is not None])})"


def _ours(mine: Sequence[Pair]) -> list[float]:
    return [pair.ours.mean for pair in mine if pair.ours is not None]


def _span(gains: Sequence[float]) -> str:
    least, most = (f"{each:+z.1f}" for each in (min(gains), max(gains)))
    return least if least == most else f"{least} to {most}"


def conclusions(every: Sequence[Pair]) -> str:
    """Return a list in Markdown: each claim, in how many pairs our runs show it, and the gains behind that."""
    by_claim = {claim: [pair for pair in every if pair.comparison == claim] for claim in CLAIMS}
    ran = {claim: [pair for pair in mine if pair.ours is not None] for claim, mine in by_claim.items()}
    lines = [
        line for claim, mine in by_claim.items() if ran[claim] for line in _conclusion(claim, ran[claim], len(mine))
    ]
    left = [f"{claim.text} ({counted(len(mine), 'pair')})" for claim, mine in by_claim.items() if not ran[claim]]
    return "\n".join([*lines, f"- **Not run:** {'; '.join(left)}."] if left else lines)


def _conclusion(claim: Comparison, ran: Sequence[Pair], published: int) -> Iterator[str]:
    intervals = [pair for pair in ran if pair.ours is not None and pair.ours.half is not None]
    opposite, unsure = (sum(pair.shown < 0 for pair in intervals), sum(pair.verdict == OPEN for pair in intervals))
    outside = sum(pair.outside for pair in intervals)
    verdict = f"shown in {sum(pair.shown > 0 for pair in intervals)} of {_enough(intervals)}"
    verdict += f", the opposite in {opposite}" if opposite else ""
    verdict += f", open in {unsure}" if unsure else ""
    verdict += f"; {OUTSIDE} in {outside}" if outside else ""
    verdict = verdict if intervals else f"too few seeds to tell, as no pair has {ENOUGH}"
    were = "was" if len(ran) == 1 else "were"
    pairs = f"{len(ran)} of the paper's {published} pairs" if published > 1 else "The paper's one pair"
    yield f"- **{claim.text}: {verdict}.** {pairs} {were} run:"
    yield from (f"{BELOW}{pair}: {pair.verdict}" for pair in ran)


def _enough(intervals: Sequence[object]) -> str:
    return f"{counted(len(intervals), 'pair')} with {ENOUGH} seeds or more"


def beyond_claims(every: Sequence[Pair], ledger: Ledger, net: str) -> str:
    """Return a list in Markdown: what CBA changes in measures that the paper lacks, and our ACC without CBA."""
    blocks = dict[str, list[str]]()
    for comparison in UNCLAIMED:
        ran = [pair for pair in every if pair.comparison == comparison and pair.ours is not None]
        head = f"Not in the paper: what CBA changes in {comparison.text}{_shown_changes(ran)}"
        blocks[head] = [str(pair) for pair in ran]
    blocks |= _baselines(ledger, net)
    return "\n".join(
        line
        for head, items in blocks.items()
        if items
        for line in (f"- **{head}.**", *(f"{BELOW}{each}" for each in items))
    )


def _shown_changes(ran: Sequence[Pair]) -> str:
    """Return in how many pairs an interval is clear of zero, and on which side."""
    intervals = [pair.ours for pair in ran if pair.ours is not None and pair.ours.half is not None]
    if not intervals:
        return ""
    rises, falls = (sum(sign * each.mean > (each.half or 0.0) for each in intervals) for sign in (1, -1))
    return f": of {_enough(intervals)}, a fall is shown in {falls}, a rise in {rises}"


def _baselines(ledger: Ledger, net: str) -> dict[str, list[str]]:
    """Return how our ACC without CBA compares with the paper's, by data set, and the values behind that."""
    cells = paper_table(MAIN, net=net).cells
    blocks = dict[str, list[str]]()
    for name in dict.fromkeys(cell.data for cell in cells):
        bases = [base for cell in cells if cell.data == name and (base := without(cells, cell)) is not None]
        known = [(cell, ours) for cell in bases if (ours := finished_group(cell, ledger).estimate(MEASURES["acc"]))]
        above = sum(ours.mean > cell.values[0] for cell, ours in known)
        head = f"Without CBA, our mean ACC on {short_title(name)} is above the paper's in {above} of {len(known)} cells"
        blocks[head] = [
            f"{_label(cell)}: {ours}, {seeds_text([ours.n])}; the paper {cell.values[0]:.1f}" for cell, ours in known
        ]
    return blocks
