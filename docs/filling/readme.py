"""Accuracy along a stream of digits: the figure of README.md."""

from matplotlib.figure import Figure

from docs.filling.ledgers import OURS, PLAIN, runs_of
from evenkeel.report.scene import Scene, series
from evenkeel.report.svg import GRID, MUTED, PALETTE

DEMO = {"ER": (PLAIN, "plain replay (ER)"), "ER + CBA": (OURS, "ER with CBA"), "keel": (PALETTE[2], "keel")}


def draw_stream(figure: Figure) -> None:
    scene = Scene(runs_of("results/demo"))
    axes = figure.subplots()
    axes.grid(axis="y")
    for end in scene.boundaries[:-1]:
        axes.axvline(end, color=GRID, linewidth=0.9)
    for group in scene.groups:
        colour, label = DEMO[group.label]
        line = series(group.runs, lambda run: {each.step: each.mean for each in run.anytime})
        assert line is not None
        assert line.low is not None
        assert line.high is not None
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(line.x, line.mean, color=colour)
        axes.annotate(label, (line.x[-1], line.mean[-1]), (6, 0), textcoords="offset points", color=colour, va="center")
    starts = [0, *scene.boundaries]
    for begin, end, task in zip(starts, starts[1:], scene.first.started.tasks, strict=False):
        digits = " and ".join(map(str, task["classes"]))
        axes.text((begin + end) / 2, 101.5, digits, ha="center", color=MUTED)
    axes.set(xlabel="batches of 10 images", ylabel="accuracy on the digits so far, %", ylim=(None, 101), xlim=(0, None))
    axes.margins(x=0)
