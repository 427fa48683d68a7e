"""`evenkeel list`: what a config may contain, and what is measured."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.console import out
from evenkeel.errors import SettingsError, nearest, one_of

if TYPE_CHECKING:
    from evenkeel.config.parts import Kind
    from evenkeel.results.table import ResultTable, Row

PARTS = {  # what a user types, and the part of a config that it lists
    "data": "data",
    "scenarios": "scenario",
    "nets": "net",
    "encoders": "encoder",
    "methods": "method",
    "adaptors": "adaptor",
    "augments": "augment",
}
TOPICS = ("presets", *PARTS, "settings", "measures")


def _topics(incomplete: str) -> list[str]:
    return [topic for topic in TOPICS if topic.startswith(incomplete)]


def list_command(
    what: Annotated[
        str | None,
        typer.Argument(help=f"One of {', '.join(TOPICS)}. Default: an overview.", autocompletion=_topics),
    ] = None,
    text: Annotated[
        str,
        typer.Argument(help="Show only what contains this text; of settings, a name such as method.derpp or memory."),
    ] = "",
) -> None:
    """List what a config may contain and what is measured: an overview, or one kind of it.

    evenkeel list presets cifar10, evenkeel list methods, evenkeel list settings method.derpp
    """
    if what is None:
        _show([_overview()])
        return
    one_of("what", what, TOPICS)
    if what == "settings":
        _show(_settings(text))
        return
    tables = {"presets": lambda: _presets(text), "measures": lambda: [_measures()]}
    listed = tables.get(what, lambda: [_parts(what)])()
    matching = [each for each in (_containing(table, text) for table in listed) if each.rows]
    if not matching:
        raise SettingsError(f"None of the {what} contains {text!r}; `evenkeel list {what}` lists all.")
    _show(matching)


def _show(tables: "Iterable[ResultTable]") -> None:
    """Print tables of prose, folded in a pipe, too."""
    from evenkeel.results.formats import to_rich

    for place, table in enumerate(tables):
        out.print(*["\n"] * (place > 0), to_rich(table), sep="", end="")


def _containing(table: "ResultTable", text: str) -> "ResultTable":
    from dataclasses import replace

    words = text.casefold().split()

    def has_all(row: "Row") -> bool:
        return all(any(word in str(cell.value).casefold() for cell in row.cells) for word in words)

    return replace(table, rows=[row for row in table.rows if has_all(row)])


def _overview() -> "ResultTable":
    from evenkeel.config.composition import FAMILIES
    from evenkeel.config.loading import presets
    from evenkeel.config.schema import PARTS as KINDS
    from evenkeel.results.measures import MEASURES
    from evenkeel.results.table import ResultTable, Row

    general = dict.fromkeys(name.partition(".")[0] for name, *_ in _general())
    names: dict[str, Iterable[str]] = {
        "presets": [*presets(), *(f"{family}/..." for family in FAMILIES)],
        **{topic: KINDS[part].registry for topic, part in PARTS.items()},
        "settings": general,
        "measures": MEASURES,
    }
    return ResultTable(
        "evenkeel list TOPIC: what a config may contain, and what is measured",
        ["topic", "names"],
        [Row.of(topic, ", ".join(names[topic])) for topic in TOPICS],
        [
            "",
            "Add a text to search: evenkeel list presets cifar10. Settings of a part: evenkeel list settings "
            "method.derpp. To use them: evenkeel run digits --set method.name=derpp --set method.alpha=0.5",
        ],
    )


def _parts(topic: str) -> "ResultTable":
    """Return what one part of a config may be."""
    from evenkeel.config.schema import PARTS as KINDS
    from evenkeel.results.table import ResultTable, Row

    part = PARTS[topic]
    kind = KINDS[part]
    rows = [Row.of(name, _paragraphs(each)[0], ", ".join(_written(each, kind))) for name, each in kind.registry.items()]
    return ResultTable(f"[{part}]", [f"{part}.name", "description", "settings and defaults"], rows)


def _presets(text: str) -> "list[ResultTable]":
    """Return the presets, and the parts that names of others are made of, or these names if there is a text."""
    from evenkeel.config.composition import FAMILIES, KINDS, about, family, names
    from evenkeel.config.loading import presets
    from evenkeel.results.table import ResultTable, Row

    own = [Row.of(name, what) for name, what in presets().items()]
    tables = [ResultTable("Presets: evenkeel run NAME", ["preset", "description"], own)]
    for each in FAMILIES:
        pattern = f"{each}/<{KINDS[0]}>" + "".join(f"[-<{kind}>]" for kind in KINDS[1:] if family(each)[kind])
        title = f"Presets by composition: evenkeel run {pattern}"
        parts = [(kind, name, part) for kind in KINDS for name, part in family(each)[kind].items()]
        rows = [Row.of(kind, name, part.get("about", part.get("title", "").strip(", "))) for kind, name, part in parts]
        named = [Row.of(name, about(each, name)) for name in names(each)]
        composed = ResultTable(title, ["preset", "description"], named)
        tables.append(composed if text else ResultTable(title, ["part", "name", "description"], rows))
    return tables


def _settings(name: str) -> "list[ResultTable]":
    """Return the settings of a part such as method.derpp or of a table such as memory; all that are no part's."""
    from evenkeel.config.parts import settings_of
    from evenkeel.config.schema import PARTS as KINDS
    from evenkeel.results.table import ResultTable, Row

    part, _, chosen = name.partition(".")
    columns = ["setting", "default", "description"]
    if part in KINDS and chosen in KINDS[part].registry:
        factory = KINDS[part].registry[chosen]
        title, *notes = _paragraphs(factory)
        rows = [Row.of(f"{part}.{key}", _default(value)) for key, value in settings_of(factory, KINDS[part]).items()]
        return [ResultTable(title, columns[:2] if rows else ["", "It has no settings."], rows, ["", *notes])]
    general = list(_general())
    rows = [Row.of(*each) for each in general if each[0] == name or each[0].startswith(f"{name}." if name else "")]
    if not rows:
        parts = [f"{each}.{one}" for each, kind in KINDS.items() for one in kind.registry]
        tables = dict.fromkeys(each[0].partition(".")[0] for each in general)
        raise SettingsError(
            f"There are no settings {name!r}. `evenkeel list settings` lists those that are no part's; a part is named "
            f"as in {parts[0]}.{nearest(name, [*parts, *tables, *(each[0] for each in general)])}"
        )
    others = f"Settings of parts: evenkeel list settings PART.NAME; parts are {', '.join(KINDS)}."
    return [ResultTable("Settings", columns, rows, [] if name else ["", others])]


def _general() -> Iterator[tuple[str, str, str]]:
    """Yield the name, default and description of each setting that is no part's."""
    from pydantic import BaseModel

    from evenkeel.config.schema import PARTS as KINDS
    from evenkeel.experiment.config import Config

    for name, field in Config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            for key, each in inner.model_fields.items():
                yield f"{name}.{key}", _default(each.default), each.description or ""
        elif name not in KINDS:
            yield name, _default(field.default), field.description or ""


def _written(part: Callable[..., object], kind: "Kind") -> list[str]:
    """Return the settings of a part as name=default; one without a default is required."""
    from evenkeel.config.parts import settings_of

    return [
        name if default is inspect.Parameter.empty else f"{name}={_default(default)}"
        for name, default in settings_of(part, kind).items()
    ]


def _measures() -> "ResultTable":
    """Return the name, title, direction and definition of each measure."""
    from evenkeel.results.measures import MEASURES, NOTATION
    from evenkeel.results.table import ResultTable, Row

    better = {True: "higher", False: "lower", None: "neither"}
    rows = [
        Row.of(name, each.title, better[each.higher_is_better], "yes" if each.headline else "", each.formula)
        for name, each in MEASURES.items()
    ]
    columns = ["name", "title", "better", "headline", "definition"]
    return ResultTable("Measures: evenkeel table --measures NAME,...", columns, rows, [NOTATION])


def _paragraphs(part: Callable[..., object]) -> list[str]:
    """Return the paragraphs of a docstring without its examples, each on one line."""
    paragraphs = (inspect.getdoc(part) or "").split("\n\n")
    return [" ".join(each.split()) for each in paragraphs if not each.startswith(">>>")]


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    return "none" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
