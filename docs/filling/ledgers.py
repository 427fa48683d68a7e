"""What the pages share: the runs of a ledger, cells, tables and colours."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from evenkeel.report.svg import PALETTE
from evenkeel.results.groups import Estimate, in_order
from evenkeel.results.measures import MEASURES
from evenkeel.results.run_files import Results, find_runs

ROOT = Path(__file__).parents[2]
PLAIN, OURS = PALETTE[1], PALETTE[0]  # the colours of a method alone, and of what is added to it


@cache
def runs_of(ledger: str) -> list[Results]:
    """Return the runs of a ledger, by its path in the repository."""
    return in_order([Results.read(path) for path in find_runs([ROOT / ledger])])


def finished(ledger: str, **chosen: object) -> list[Results]:
    """Return the finished runs of a ledger with this method and capacity of the memory."""
    runs = runs_of(ledger)
    settings = [{"method": run.started.config["method"]["name"], "memory": memory(run)} for run in runs]
    return [
        run
        for run, mine in zip(runs, settings, strict=True)
        if run.ended is not None and chosen.items() <= mine.items()
    ]


def memory(run: Results) -> int:
    return int(run.started.config["memory"]["capacity"])


def acc(runs: Sequence[Results]) -> Estimate | None:
    return Estimate.of([MEASURES["acc"].of(run) for run in runs])


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """Return a table whose first column has names, and the others numbers, or texts."""
    sides = [":--", *["--:" if numbers else ":--"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, sides, *rows))
