"""`evenkeel table` and `compare`: the measures of runs for a paper or a program, and tests of significance."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.console import Format, Output, out, print_table, read_runs
from evenkeel.errors import RunError, SettingsError, one_of

if TYPE_CHECKING:
    from evenkeel.results.table import ResultTable

Measures = Annotated[
    str | None,
    typer.Option(help="Names of measures such as acc,fm (evenkeel list measures). Default: the headline ones."),
]


def table_command(
    folders: Annotated[list[Path], typer.Argument(help="Runs, or folders that contain runs.")],
    measures: Measures = None,
    format: Format = "text",
    path: Output = None,
) -> None:
    """Show the measures of runs: means and intervals over seeds, and the gain by an adaptor (CBA).

    CSV has every digit, with three columns per estimate: mean, half of the 95% interval, number of runs.
    """
    from evenkeel.results.overview import measures_table

    names = _checked(measures, format)
    show([measures_table(read_runs(folders), names)], format, path)


def compare_command(
    first: Annotated[Path, typer.Argument(help="A run, or a folder that contains runs.", metavar="DIR_A")],
    second: Annotated[
        Path | None,
        typer.Argument(
            help="What to compare it with. Default: in DIR_A, methods without and with an adaptor (CBA).",
            metavar="DIR_B",
        ),
    ] = None,
    *,
    method: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Compare all other methods in DIR_A with this one, such as keel, at equal data and memory.",
        ),
    ] = None,
    measures: Measures = None,
    format: Format = "text",
    path: Output = None,
) -> None:
    """Compare the runs of two folders, paired by seed: differences, t-test, Wilcoxon's test, Holm's correction.

    Methods with the same name are compared, or the two methods if each folder has only one.
    """
    from evenkeel.results.significance import against, by_adaptor, side_by_side

    names = _checked(measures, format)
    if method is not None and second is not None:
        raise SettingsError("--against compares the methods of one folder, but two folders were given.")
    if method is not None:
        tables = against(method, read_runs([first]), names)
    elif second is None:
        tables = [by_adaptor(read_runs([first]), names)]
    else:
        tables = [side_by_side(read_runs([first]), read_runs([second]), names, called=(str(first), str(second)))]
    show(tables, format, path)


def _checked(measures: str | None, format: str) -> list[str]:
    """Return the distinct names; raise SettingsError for unknown ones before many runs are read."""
    from evenkeel.results.formats import FORMATS
    from evenkeel.results.measures import HEADLINE, MEASURES

    one_of("format", format, FORMATS)
    names = list(HEADLINE if measures is None else dict.fromkeys(name.strip() for name in measures.split(",")))
    for name in names:
        one_of("measures", name, MEASURES)
    return names


def show(tables: "Sequence[ResultTable]", format: str, path: Path | None) -> None:
    """Print the tables, or write them all to one file; in CSV, an empty line separates them."""
    from evenkeel.results.formats import render

    text = "\n".join(render(table, format) for table in tables)
    if path is not None:
        write_file(path, text, "table")
    elif format == "text":
        for place, table in enumerate(tables):
            print("\n" * (place > 0), end="")
            print_table(table)
    else:
        print(text, end="")


def write_file(path: Path, text: str, what: str) -> None:
    """Write a text, and say where it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
    except OSError as error:
        raise RunError(f"Cannot write the {what} to {str(path)!r}: {error.strerror or error}.") from error
    out.print(f"{what.capitalize()}: {path.resolve()}", soft_wrap=True)
