"""The tables of a report: comparison, measures, cost, and the details of every run."""

from dataclasses import replace

import tomli_w

from evenkeel.report.elements import Facts, Note, RunDetails, Section, split
from evenkeel.report.scene import Scene
from evenkeel.results.groups import ENOUGH, scenario_title
from evenkeel.results.labels import value_text
from evenkeel.results.measures import HEADLINE, NOTATION
from evenkeel.results.overview import caption, groups_table
from evenkeel.results.records import without_none
from evenkeel.results.run_files import Results
from evenkeel.results.table import Cell, ResultTable, Row

PARTS = {"Network": "net", "Memory": "memory"}  # by title, what runs may share besides data and scenario


def what_was_compared(scene: Scene) -> Section:
    data = scene.first.started.data
    seeds = sorted({run.seed for run in scene.runs})
    shown = ", ".join(map(str, seeds)) if len(seeds) <= 12 else f"{len(seeds)} seeds from {seeds[0]} to {seeds[-1]}"
    done = sum(run.ended is not None for run in scene.runs)
    samples = [f"{data[part]} {part}" for part in ("train", "test") if data.get(part) is not None]
    size = [*samples, *([f"{len(scene.class_names)} classes"] if scene.class_names else [])]
    items = [
        ("Data set", f"{data.get('name', 'unknown')}" + (f" ({', '.join(size)})" if size else "")),
        ("Scenario", "\n".join(dict.fromkeys(map(scenario_title, scene.runs)))),
        ("Tasks", str(scene.tasks)),
        *((title, used) for title, part in PARTS.items() if (used := _used(scene, part))),
        ("Seeds", shown),
        (
            "Runs",
            f"{len(scene.runs)}, all finished" if done == len(scene.runs) else f"{done} of {len(scene.runs)} finished",
        ),
    ]
    return Section("What was compared", [Facts(items)])


def _used(scene: Scene, part: str) -> str:
    """Return each network, say, that the runs have, with its settings."""
    return "\n".join(dict.fromkeys(value_text(used) for run in scene.runs if (used := run.started.config.get(part))))


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
        f"corrected for multiple comparisons; fewer than {ENOUGH} seeds have none, and of two both values are shown."
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
    members = list(scene.finished.values())
    title = f"{NOTATION} {caption(members)}; gains are paired by seed."
    table = groups_table(members, scene.measures, title).transposed("measure")
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
