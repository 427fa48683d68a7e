"""Tables for the terminal."""

import inspect
from collections.abc import Sequence

from rich.table import Table

from evenkeel.data.dataset import DataSet
from evenkeel.experiment.config import PARTS, Config, presets
from evenkeel.experiment.parts import settings_of
from evenkeel.results import Results
from evenkeel.summary import MEASURES, gain, groups, pairs

HEADLINE = ("acc", "fm", "acc_auc", "learning_accuracy")


def measures_table(runs: Sequence[Results], names: Sequence[str] = HEADLINE) -> Table:
    """Means and intervals by group, and what CBA gains, paired by seed."""
    found = groups(runs)
    seeds = sorted({len(group.runs) for group in found})
    counted = f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]} seeds"
    interval = ", mean ± half of the 95% interval" if seeds[-1] > 1 else ""
    table = Table(title=f"In percent, {counted}{interval}", title_justify="left")
    table.add_column("")
    for name in names:
        arrow = "↑" if MEASURES[name].higher_is_better else "↓"
        table.add_column(f"{MEASURES[name].title} {arrow}", justify="right")
    gains = {with_.setting: (without, with_) for without, with_ in pairs(found)}
    for group in found:
        unfinished = sum(run.ended is None for run in group.runs)
        label = group.label + (f" ({unfinished} unfinished)" if unfinished else "")
        table.add_row(label, *(str(group.estimate(name) or "-") for name in names))
        if group.setting in gains:
            values = [gain(name, *gains[group.setting]) for name in names]
            table.add_row("  gain by CBA, paired", *(signed(value) for value in values), style="bold")
    return table


def signed(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if text.startswith("-") else f"+{text}"


def config_tables() -> list[Table]:
    """Everything that a config may name."""
    tables = []
    for part, kind in PARTS.items():
        table = Table(f"{part}.name", "settings and defaults", "what it is", title=rf"\[{part}]", title_justify="left")
        for name, made in kind.registry.items():
            summary = (inspect.getdoc(made) or "").split("\n\n")[0].replace("\n", " ")
            table.add_row(name, ", ".join(_default(*each) for each in settings_of(made, kind).items()), summary)
        tables.append(table)
    others = Table("setting", "default", title="Other settings", title_justify="left")
    for name, field in Config.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        if inner is not None:
            for key, each in inner.items():
                others.add_row(f"{name}.{key}", _shown(each.default))
        elif name not in PARTS:
            others.add_row(name, _shown(field.default))
    known = Table("preset", "what it is", title="Presets: evenkeel run NAME", title_justify="left")
    for name, about in presets().items():
        known.add_row(name, about)
    return [*tables, others, known]


def data_table(data: DataSet) -> Table:
    table = Table("", "", title=data.name, title_justify="left", show_header=False)
    table.add_row("train / test", f"{len(data.train.y):,} / {len(data.test.y):,}")
    table.add_row("sample", f"{tuple(data.train.x.shape[1:])} {data.train.x.dtype}")
    shown = ", ".join(data.classes[:20]) + (", ..." if len(data.classes) > 20 else "")
    table.add_row("classes", f"{len(data.classes)}: {shown}")
    table.add_row("digest", data.digest)
    return table


def _default(name: str, default: object) -> str:
    return name if default is inspect.Parameter.empty else f"{name}={_shown(default)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
