"""Tables for the terminal; that of measures for other formats too."""

import inspect
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from evenkeel.data.dataset import DataSet
from evenkeel.experiment.config import PARTS, Config
from evenkeel.experiment.loading import presets
from evenkeel.experiment.parts import settings_of
from evenkeel.results import Results
from evenkeel.sheets import Cell, Sheet, Shown, signed, to_rich
from evenkeel.summary import MEASURES, Group, gain, groups, pairs

PROGRESS = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(),
)
HEADLINE = ("acc", "fm", "acc_auc", "learning_accuracy")


def measures_sheet(runs: Sequence[Results], names: Sequence[str] = HEADLINE) -> Sheet:
    """Means and intervals by group, and what CBA gains, paired by seed."""
    found = groups(runs)
    seeds = sorted({len(group.runs) for group in found})
    counted = f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]} seeds"
    interval = ", mean ± half of the 95% interval" if seeds[-1] > 1 else ""
    homes = [f"{group.runs[0].started.data['name']}, {_scenario(group)}" for group in found]
    several = len(set(homes)) > 1  # numbers on other data must not look comparable
    gains = {with_.setting: (without, with_) for without, with_ in pairs(found)}
    rows, bold = list[list[Cell]](), set[int]()
    for home, group in zip(homes, found, strict=True):
        where: list[Cell] = [home] * several
        unfinished = sum(run.ended is None for run in group.runs)
        label = group.label + (f" ({unfinished} unfinished)" if unfinished else "")
        rows.append([*where, label, *(group.estimate(name) for name in names)])
        if group.setting in gains:
            bold.add(len(rows))
            label_of_gain = Shown(f"{group.label}: gain by CBA, paired", "  gain by CBA, paired")
            rows.append([*where, label_of_gain, *(signed(gain(name, *gains[group.setting])) for name in names)])
    headings = [f"{MEASURES[name].title}{MEASURES[name].arrow}" for name in names]
    title = f"In percent, {counted}{interval}"
    return Sheet(title, ["on"] * several + ["", *headings], rows, bold=frozenset(bold))


def measures_table(runs: Sequence[Results], names: Sequence[str] = HEADLINE) -> Table:
    """The same for a terminal."""
    return to_rich(measures_sheet(runs, names))


def _scenario(group: Group) -> str:
    scenario = group.runs[0].started.config["scenario"]
    return str(scenario["name"]) if scenario else "own stream"


def config_tables() -> list[Table]:
    """Everything that a config may name."""
    tables = []
    for part, kind in PARTS.items():
        table = Table(f"{part}.name", "settings and defaults", "what it is", title=f"[{part}]", title_justify="left")
        for name, made in kind.registry.items():
            summary = (inspect.getdoc(made) or "").split("\n\n")[0].replace("\n", " ")
            table.add_row(name, ", ".join(_default(*each) for each in settings_of(made, kind).items()), summary)
        tables.append(table)
    others = Table("setting", "default", "what it is", title="Other settings", title_justify="left")
    for name, field in Config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            for key, each in inner.model_fields.items():
                others.add_row(f"{name}.{key}", _shown(each.default), each.description)
        elif name not in PARTS:
            others.add_row(name, _shown(field.default), field.description)
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
    if data.train.x.dtype == np.uint8:
        mean, std = (", ".join(f"{value:.4f}" for value in values) for values in _moments(data.train.x))
        table.add_row("normalize", f"mean = [{mean}]\nstd = [{std}]")
    table.add_row("digest", Text(data.digest, overflow="fold"))
    return table


def _moments(x: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation by channel of pixels from 0 to 1, from counts of the 256 values: no copy in floats."""
    levels = np.arange(256) / 255
    shares = np.array([np.bincount(x[:, channel].ravel(), minlength=256) for channel in range(x.shape[1])], dtype=float)
    shares /= shares.sum(axis=1, keepdims=True)
    mean = shares @ levels
    return mean, np.sqrt(shares @ levels**2 - mean**2)


def _default(name: str, default: object) -> str:
    return name if default is inspect.Parameter.empty else f"{name}={_shown(default)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
