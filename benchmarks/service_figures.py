"""The figures of a service under load, as a table for docs/service.md, from the JSON files next to this one."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OVERLOAD, RATIO, COST, CLASSES = (
    f"python -m benchmarks.{name} --write"
    for name in ("service_overload", "service_ratio", "prediction_cost", "many_classes")
)


def table() -> str:
    """Return a row for each figure, with what is aimed at and the command that measures it."""
    rows = [*_overload(_read("service_overload")), *_ratio(_read("service_ratio"))]
    rows += [*_prediction(_read("prediction_cost")), *_classes(_read("many_classes"))]
    lines = [f"| {what} | {aim} | {measured} | `{command}` |" for what, aim, measured, command in rows]
    return "\n".join(["| what | aim | measured | by |", "|---|---|---|---|", *lines])


def _read(name: str) -> Any:
    """Return what a benchmark wrote; None if it has not."""
    path = HERE / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


Row = tuple[str, str, str, str]
UNKNOWN = "not measured yet"


def _overload(measured: Any) -> list[Row]:
    learned, slowest = UNKNOWN, UNKNOWN
    if measured:
        normal, flooded = measured["capacity"], measured["overload_10"]
        learned = f"{measured['ratio_of_goodput']:.2f} ({flooded['learned_per_second']:,} of "
        learned += f"{normal['learned_per_second']:,} / s; {flooded['offered_per_second']:,} / s offered, "
        learned += f"{measured['offered_times']:.1f} times as many, and {flooded['answered_per_second']:,} answered)"
        slowest = f"{measured['ratio_of_p99']:.2f} ({flooded['ms']['p99']} after {normal['ms']['p99']} ms)"
    return [
        ("learned / s when 10 times the capacity is offered, as a share of before", "at least 0.9", learned, OVERLOAD),
        ("p99 of predictions meanwhile, in times that of before", "at most 3", slowest, OVERLOAD),
    ]


def _ratio(measured: Any) -> list[Row]:
    return [
        (
            f"learned / s as a share of a bare learner's, {title}",
            "at least 0.7",
            f"{measured[body]['ratio']:.2f} (by CPU time of the learner: {measured[body]['ratio_by_cpu']:.2f})"
            if measured
            else UNKNOWN,
            RATIO,
        )
        for body, title in (("json", "JSON"), ("base64", "base64 in JSON"), ("npy", "`.npy`"))
    ]


def _prediction(measured: Any) -> list[Row]:
    return [
        (
            f"CPU time of a prediction, {title}",
            "at most 0.9 ms",
            f"{each['cpu_ms']:.2f} ms ({each['from']:.2f} to {each['to']:.2f})"
            if (each := measured and measured[form])
            else UNKNOWN,
            COST,
        )
        for form, title in (("json", "JSON"), ("npy", "`.npy`"), ("json, not kept", "JSON, not kept"))
    ]


def _classes(measured: Any) -> list[Row]:
    costs = [f"{each['labels']:,}: {each['known_ms']:.1f} and {each['new_ms']:.1f} ms" for each in measured or ()]
    return [("a batch of 32 with so many labels: known ones, and new ones", "", "; ".join(costs) or UNKNOWN, CLASSES)]
