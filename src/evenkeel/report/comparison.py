"""The text and tables of a report: findings, comparison, measures, cost, and the details of every run."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from evenkeel.report.elements import ABSENT, Note, PageCell, PageRow, PageTable, RunDetails, Section, number
from evenkeel.report.scene import Scene
from evenkeel.results.groups import Estimate, Group, gain
from evenkeel.results.measures import HEADLINE, MEASURES, Measure
from evenkeel.results.run_files import Results

REPORTED = ("acc", "fm", "learning_accuracy")  # what CBA is for, and what it costs
PAIRED = "gain by CBA, paired by seed"
OWN_STREAM = "the user's own stream"


def findings(scene: Scene, reported: Sequence[str] = REPORTED) -> list[str]:
    """Return the outcome in plain words: what CBA changed in the measures `reported`, or else which group is best."""
    if scene.pairs:
        names = [name for name in reported if name in scene.measures]
        return [_finding(without, with_, names) for without, with_ in scene.pairs]
    if not scene.finished:
        return ["No run is finished yet, so there is nothing to compare; the figures show the progress of each."]
    if not (names := scene.measures):
        return ["These runs have no measure to compare: nothing was tested."]
    name, measure = names[0], MEASURES[names[0]]
    among = [group for group in scene.finished.values() if not group.is_bound] or list(scene.finished.values())
    reached = [(group, estimate) for group in among if (estimate := group.estimate(name))]
    group, best = max(reached, key=lambda each: each[1].mean * (1 if measure.higher_is_better else -1))
    sentence = f"{group.label} reached {measure.title} {number(best)} ({_seeds(best.n)})"
    if len(reached) > 1 and not group.is_bound:
        sentence += f", the best mean of {len(reached)}; no two of them differ only in CBA"
    return [sentence + "."]


def _finding(without: Group, with_: Group, names: Sequence[str]) -> str:
    gains = {name: change for name in names if (change := gain(name, without, with_))}
    if not gains:
        return f"{without.label} and {with_.label} have no finished seed in common, so they cannot be compared."
    changes = [f"{MEASURES[name].title} by {number(change, signed=True)}" for name, change in gains.items()]
    variant = "" if with_.label == f"{without.label} + CBA" else f", as {with_.label}"
    n = max(change.n for change in gains.values())
    sentence = f"CBA changed {listed(changes)} for {without.label}{variant} ({_seeds(n)})"
    if n == 1:
        return f"{sentence}; a single seed cannot show whether this is significant."
    verdicts: dict[str, list[str]] = {}
    for name, change in gains.items():
        verdicts.setdefault(_verdict(change, MEASURES[name]), []).append(MEASURES[name].title)
    return f"{sentence}: {'; '.join(verdict.format(listed(them)) for verdict, them in verdicts.items())}."


def listed(items: Sequence[str]) -> str:
    """Join items as in 'a, b and c'."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def _verdict(change: Estimate, measure: Measure) -> str:
    """Return the verdict, which depends on whether the 95% interval contains 0."""
    if change.half is None or abs(change.mean) <= change.half:
        return "the change in {} is not significant"
    return "{} got better" if (change.mean > 0) == measure.higher_is_better else "{} got worse"


def _seeds(n: int) -> str:
    return f"{n} seed" if n == 1 else f"{n} seeds"


def facts(scene: Scene) -> list[tuple[str, str]]:
    """Return what was compared, for the head of a block."""
    data = scene.first.started.data
    seeds = sorted({run.seed for run in scene.runs})
    shown = ", ".join(map(str, seeds)) if len(seeds) <= 12 else f"{len(seeds)} seeds from {seeds[0]} to {seeds[-1]}"
    done = sum(run.ended is not None for run in scene.runs)
    samples = [f"{data[part]} {part}" for part in ("train", "test") if data.get(part) is not None]
    size = [*samples, *([f"{len(scene.class_names)} classes"] if scene.class_names else [])]
    return [
        ("Data set", f"{data.get('name', 'unknown')}" + (f" ({', '.join(size)})" if size else "")),
        ("Scenario", "\n".join(dict.fromkeys(scenario_text(run.started.config.get("scenario")) for run in scene.runs))),
        ("Tasks", str(scene.tasks)),
        ("Seeds", shown),
        (
            "Runs",
            f"{len(scene.runs)}, all finished" if done == len(scene.runs) else f"{done} of {len(scene.runs)} finished",
        ),
    ]


def scenario_text(scenario: Any) -> str:
    """Return the name of a scenario with its settings.

    >>> scenario_text({"name": "blurry", "tasks": 5, "percent": 30})
    'blurry (tasks: 5, percent: 30)'
    """
    if not isinstance(scenario, Mapping):
        return OWN_STREAM if scenario is None else str(scenario)
    settings = [(key, value) for key, value in scenario.items() if key != "name" and value is not None]
    listed = ", ".join(f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in settings)
    return f"{scenario.get('name', 'scenario')} ({listed})" if listed else str(scenario.get("name", "scenario"))


def title(scene: Scene, *, full: bool) -> str:
    """Return data set and scenario, with all settings of the scenario if others share its name."""
    scenario = scene.first.started.config.get("scenario")
    short = scenario.get("name", "scenario") if isinstance(scenario, Mapping) else scenario or OWN_STREAM
    return f"{scene.first.started.data.get('name', 'unknown')}, {scenario_text(scenario) if full else short}"


def comparison(scene: Scene) -> Section:
    names = [name for name in HEADLINE if name in scene.measures] or scene.measures[: len(HEADLINE)]
    columns = ["", *(_arrow(name) for name in names), "seeds"]
    best = {name: _best(scene, name) for name in names}
    rows = []
    for group in scene.groups:
        done = scene.finished.get(group.label)
        n = len(done.runs) if done else 0
        cells = [
            PageCell(number(done.estimate(name) if done else None, expected=n), best=group.label in best[name])
            for name in names
        ]
        rows.append(PageRow(group.label, [*cells, PageCell(_count(group, n))]))
        for without, with_ in scene.pairs:
            if with_.label == group.label:
                changes = [gain(name, without, with_) for name in names]
                paired = max((change.n for change in changes if change), default=0)
                texts = [number(change, signed=True, expected=paired) for change in changes]
                rows.append(PageRow(PAIRED, [*map(PageCell, texts), PageCell(str(paired))], gain=True))
    return Section(
        "Comparison", [PageTable("Mean ± half of the 95% interval, in percent.", columns, rows), *_notes(scene)]
    )


def _notes(scene: Scene) -> list[Note]:
    if scene.shares_classes:
        kind = "Domain-incremental: all tasks have the same classes"
    else:
        kind = "Class-incremental: the outputs of all classes compete"
    notes = [
        f"{kind}, and the task is not given at test time. Arrows show which way is better; the best mean of a column "
        "is bold. Intervals are Student's t over seeds, computed separately and not corrected for multiple "
        "comparisons; a single seed has no interval."
    ]
    if any(group.is_bound for group in scene.groups):
        notes.append(
            "Bounds are references, not methods to use, and never the best. The lower one learns the stream without a "
            "memory; the upper one learns all tasks mixed, so its tests before the last say little."
        )
    partial = [run for group in scene.groups for run in group.runs if run.ended is None]
    if partial:
        listed = ", ".join(f"{run.label} seed {run.seed} (step {_last_step(run)})" for run in partial)
        notes.append(f"Unfinished, and not in the means of any table: {listed}.")
    repeats = len(scene.runs) - sum(len(group.runs) for group in scene.groups)
    if repeats:
        notes.append(f"{repeats} of the runs repeat another with the same config and seed; each seed counts once.")
    return [Note(text) for text in notes]


def _last_step(run: Results) -> str:
    step = run.steps[-1].step if run.steps else 0
    return f"{step} of {run.started.steps}" if run.started.steps else str(step)


def _count(group: Group, finished: int) -> str:
    missing = len(group.runs) - finished
    return f"{finished} ({missing} unfinished)" if missing else str(finished)


def _arrow(name: str) -> str:
    measure = MEASURES[name]
    return f"{measure.title}{measure.arrow}".replace(" ↑", "\u00a0↑").replace(" ↓", "\u00a0↓")


def _best(scene: Scene, name: str) -> set[str]:
    """Return the labels with the best mean; none if all are equal."""
    among = {label: group for label, group in scene.finished.items() if not group.is_bound}
    means = {label: estimate.mean for label, group in among.items() if (estimate := group.estimate(name))}
    if len(set(means.values())) < 2 or MEASURES[name].higher_is_better is None:
        return set()
    top = (max if MEASURES[name].higher_is_better else min)(means.values())
    return {label for label, mean in means.items() if mean == top}


def measures(scene: Scene) -> Section | None:
    """Return every measure with its formula: groups as columns, and a column for each gain."""
    if not scene.finished:
        return None
    gains = {with_.label: (without, with_) for without, with_ in scene.pairs}
    columns = ["measure"]
    for label in scene.finished:
        columns += [label, "gain by CBA"] if label in gains else [label]
    rows = []
    for name in scene.measures:
        top, cells = _best(scene, name), []
        for label, group in scene.finished.items():
            cells.append(PageCell(number(group.estimate(name), expected=len(group.runs)), best=label in top))
            if label in gains:
                cells.append(PageCell(number(gain(name, *gains[label]), signed=True)))
        rows.append(PageRow(_arrow(name), cells, note=MEASURES[name].formula))
    caption = (
        "R[j, i] is the accuracy on task i after task j, in percent, counted from 0; T is the number of tasks. "
        "Mean ± half of the 95% interval over seeds; gains are paired by seed."
    )
    return Section("All measures", PageTable(caption, columns, rows).split())


def cost(scene: Scene) -> Section:
    """Return the time and memory that the processes recorded."""
    rows, untimed = [], 0
    for group in scene.groups:
        timed = [run for run in group.runs if run.sessions]
        untimed += len(group.runs) - len(timed)
        if not timed:
            continue
        sessions = [session for run in timed for session in run.sessions]
        seconds = sum(session.seconds for session in sessions)
        evaluating = sum(session.evaluating for session in sessions)
        steps = sum(session.step - session.from_step for session in sessions)
        learning = seconds - evaluating
        peaks = [session.peak_bytes for session in sessions if session.peak_bytes is not None]
        cells = [
            f"{seconds / len(timed):,.1f}",
            f"{100 * evaluating / seconds:.0f}%" if seconds else ABSENT,
            f"{steps / learning:,.1f}" if learning > 0 else ABSENT,
            f"{max(peaks) / 2**20:,.0f}" if peaks else ABSENT,
            str(len(timed)),
        ]
        rows.append(PageRow(group.label, [PageCell(text) for text in cells]))
    parts: list[PageTable | Note] = []
    if rows:
        columns = ["", "s / run", "evaluating", "steps / s", "peak memory, MiB", "runs"]
        caption = (
            "Times are summed over all processes that worked on a run. Evaluating: the share of time spent on tests, "
            "anytime points and diagnostics, which steps / s leaves out. Peak memory is that of the process, "
            "the highest of the runs."
        )
        parts.append(PageTable(caption, columns, rows))
    if untimed:
        parts.append(Note(f"{untimed} of {len(scene.runs)} runs have no record of time and memory."))
    return Section("Time and memory", parts)


def every_run(scene: Scene) -> Section:
    """Return what it takes to repeat each run."""
    details = []
    for group in scene.groups:
        details += [_details(run, group.label, first=run is group.runs[0]) for run in group.runs]
    return Section("Every run", details)


def _details(run: Results, label: str, *, first: bool) -> RunDetails:
    started = run.started
    state = "finished" if run.ended else f"unfinished: step {_last_step(run)}"
    known: list[tuple[str, str | None]] = [
        ("Files", str(run.path) if run.path else None),
        ("Command", "\n".join(dict.fromkeys(session.command for session in run.sessions)) or None),
        ("Versions", ", ".join(f"{name} {version}" for name, version in started.versions.items())),
        ("Threads", str(started.threads)),
        ("Task ends", "reported to the learner" if started.boundaries else "not reported to the learner"),
        ("Data digest", started.data.get("digest")),
        ("Stream digest", started.stream),
    ]
    present = [(name, text) for name, text in known if text]
    code = tomli_w.dumps(_without_none(started.config))
    return RunDetails(f"{label}, seed {run.seed}: {state}", present, code, printed=first)


def _without_none(value: Any) -> Any:
    """Drop values that are not set, as TOML has no null."""
    if isinstance(value, Mapping):
        return {str(key): _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_none(item) for item in value if item is not None]
    return value
