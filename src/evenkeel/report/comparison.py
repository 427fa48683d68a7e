"""The text and tables of a report: findings, comparison, measures, cost, and the details of every run."""

from collections.abc import Sequence
from dataclasses import replace

import tomli_w

from evenkeel.report.elements import Note, RunDetails, Section, number, split
from evenkeel.report.scene import Scene
from evenkeel.results.groups import Estimate, Group, gain, paired, scenario_title, seeds_text
from evenkeel.results.measures import HEADLINE, NOTATION, Measure
from evenkeel.results.overview import groups_table
from evenkeel.results.records import without_none
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row


def findings(scene: Scene, measures: Sequence[Measure]) -> list[str]:
    """Return the outcome in plain words: what an adaptor changed in these measures, or else which group is best."""
    if scene.pairs:
        return [_finding(without, with_, measures) for without, with_ in scene.pairs]
    if not scene.finished:
        return ["No run is finished yet, so there is nothing to compare; the figures show the progress of each."]
    if not scene.measures:
        return ["These runs have no measure to compare: nothing was tested."]
    measure = scene.measures[0]
    among = [group for group in scene.finished.values() if not group.is_bound] or list(scene.finished.values())
    reached = [(group, estimate) for group in among if (estimate := group.estimate(measure))]
    group, best = max(reached, key=lambda each: each[1].mean * (1 if measure.higher_is_better else -1))
    sentence = f"{group.label} reached {measure.title} {number(best)} ({seeds_text([best.n])})"
    if len(reached) > 1 and not group.is_bound:
        sentence += f", the best mean of {len(reached)}; no two of them differ only in the adaptor"
    return [sentence + "."]


def _finding(without: Group, with_: Group, measures: Sequence[Measure]) -> str:
    common = paired(without, with_)
    gains = [(measure, change) for measure in measures if (change := gain(measure, common))]
    if not gains:
        return f"{without.label} and {with_.label} have no finished seed in common, so they cannot be compared."
    changes = [f"{measure.title} by {number(change, signed=True)}" for measure, change in gains]
    variant = "" if with_.label == f"{without.label} + {with_.adaptor}" else f", as {with_.label}"
    sentence = f"{with_.adaptor} changed {listed(changes)} for {without.label}{variant} ({seeds_text([len(common)])})"
    if len(common) == 1:
        return f"{sentence}; a single seed cannot show whether this is significant."
    verdicts: dict[str, list[str]] = {}
    for measure, change in gains:
        verdicts.setdefault(_verdict(change, measure), []).append(measure.title)
    return f"{sentence}: {'; '.join(verdict.format(listed(them)) for verdict, them in verdicts.items())}."


def listed(items: Sequence[str]) -> str:
    """Join items as in 'a, b and c'."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def _verdict(change: Estimate, measure: Measure) -> str:
    """Return the verdict, which depends on whether the 95% interval contains 0."""
    if change.half is None or abs(change.mean) <= change.half:
        return "the change in {} is not significant"
    return "{} got better" if (change.mean > 0) == measure.higher_is_better else "{} got worse"


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
        ("Scenario", "\n".join(dict.fromkeys(map(scenario_title, scene.runs)))),
        ("Tasks", str(scene.tasks)),
        ("Seeds", shown),
        (
            "Runs",
            f"{len(scene.runs)}, all finished" if done == len(scene.runs) else f"{done} of {len(scene.runs)} finished",
        ),
    ]


def comparison(scene: Scene) -> Section:
    shown = scene.headline or scene.measures[: len(HEADLINE)]
    return Section("Comparison", [replace(groups_table(scene.groups, shown, count=True), notes=_notes(scene))])


def _notes(scene: Scene) -> list[str]:
    if scene.shares_classes:
        kind = "Domain-incremental: all tasks have the same classes"
    else:
        kind = "Class-incremental: the outputs of all classes compete"
    notes = [
        f"{kind}, and the task is not given at test time. Arrows show which way is better; the best mean of a column "
        "is bold. Gains are paired by seed. Intervals are Student's t over seeds, computed separately and not "
        "corrected for multiple comparisons; a single seed has no interval."
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
    return notes


def _last_step(run: Results) -> str:
    step = run.steps[-1].step if run.steps else 0
    return f"{step} of {run.started.steps}" if run.started.steps else str(step)


def measures(scene: Scene) -> Section | None:
    """Return every measure with its formula: groups as columns, and a column for each gain."""
    if not scene.finished:
        return None
    title = f"{NOTATION} Mean ± half of the 95% interval over seeds; gains are paired by seed."
    table = groups_table(list(scene.finished.values()), scene.measures, title).transposed("measure")
    rows = [replace(row, note=each.formula) for row, each in zip(table.rows, scene.measures, strict=True)]
    return Section("All measures", split(replace(table, rows=rows)))


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
        rows.append(
            Row.of(
                group.label,
                _figure(seconds / len(timed), ",.1f"),
                _figure(evaluating / seconds, ".0%") if seconds else None,
                _figure(steps / learning, ",.1f") if learning > 0 else None,
                _figure(max(peaks) / 2**20, ",.0f") if peaks else None,
                len(timed),
            )
        )
    parts: list[ResultTable | Note] = []
    if rows:
        columns = ["", "s / run", "evaluating", "steps / s", "peak memory, MiB", "runs"]
        title = (
            "Times are summed over all processes that worked on a run. Evaluating: the share of time spent on tests, "
            "anytime points and diagnostics, which steps / s leaves out. Peak memory is that of the process, "
            "the highest of the runs."
        )
        parts.append(ResultTable(title, columns, rows))
    if untimed:
        parts.append(Note(f"{untimed} of {len(scene.runs)} runs have no record of time and memory."))
    return Section("Time and memory", parts)


def _figure(value: float, format: str) -> Cell:
    return Cell(value, f"{value:{format}}")


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
    code = tomli_w.dumps(without_none(started.config))
    return RunDetails(f"{label}, seed {run.seed}: {state}", present, code, printed=first)
