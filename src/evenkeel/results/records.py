"""Records of a run: what happened, as JSON lines. Everything that comes after a run reads these, never a model."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np

LIBRARIES = ("evenkeel", "python", "torch", "numpy")  # whose versions are recorded


@dataclass(frozen=True)
class Started:
    """The first record: everything that determines the others."""

    kind: ClassVar[str] = "start"
    config: Mapping[str, Any]  # complete: every default is written out
    versions: Mapping[str, str]  # of LIBRARIES, and of parts of the user's own: by name, a digest of their file
    threads: int
    data: Mapping[str, Any]  # name, digest, train and test (numbers of samples), classes (names)
    tasks: list[Mapping[str, Any]]  # of each: name, classes (indices), samples, steps; one dummy task for a bare stream
    steps: int | None  # None if the length of the stream is unknown
    stream: str | None  # digest of which sample comes when; None for the user's own stream
    boundaries: bool  # whether the end of each task is reported to the learner
    step: int = 0
    device: str = "cpu"
    memory_device: str = "auto"  # where samples were kept: with the network, or on the "cpu"
    bound: str = ""  # "lower" or "upper" for a method that is no method to use, but a bound to compare others with


@dataclass(frozen=True)
class Stepped:
    """One incoming batch was learned."""

    kind: ClassVar[str] = "step"
    step: int  # from 1
    task: int  # from 0
    samples: int
    loss: float | None  # None if the method held out the whole batch
    outer_loss: float | None  # of the adaptor, if it was trained in this step
    replayed: int  # samples drawn from memory
    stored: int  # samples in memory afterwards
    classes: int  # labels known afterwards
    correct: int | None  # prequential: how many of the batch were predicted right before they were learned


@dataclass(frozen=True)
class Anytime:
    """A point of the accuracy curve, on a fixed sample of the test data."""

    kind: ClassVar[str] = "anytime"
    step: int
    task: int
    accuracy: list[float]  # on each task so far, `task` + 1 of them, in percent
    predicted: list[float]  # percent of the predictions for samples of seen tasks that fall on each task, for all
    # tasks; empty if tasks share their classes

    @property
    def mean(self) -> float:
        """Return the mean over the tasks seen so far: the value of the curve in the CBA paper."""
        return float(np.mean(self.accuracy))


@dataclass(frozen=True)
class Tested:
    """The whole test data, at the end of a task; `task` is -1 before the first."""

    kind: ClassVar[str] = "test"
    step: int
    task: int
    accuracy: list[float]  # on each task, in percent: class-incremental, all outputs compete
    seen: list[float]  # the same, but only outputs of classes seen so far compete
    masked: list[float]  # task-incremental: only outputs of the sample's own task compete
    predicted: list[float]  # as in `Anytime`
    confusion: list[list[int]]  # [true class][predicted class], counts; other predictions are in no column
    recall: list[float]  # by class, in percent
    memory: list[int]  # samples in memory by class


@dataclass(frozen=True)
class Aligned:
    """Gradient alignment (Theorem 1 of the CBA paper) at this step, before it was learned."""

    kind: ClassVar[str] = "alignment"
    step: int
    task: int
    cosine: float  # between the two gradients
    training_norm: float  # of the training loss, with the adaptor
    memory_norm: float  # of the memory loss, without


@dataclass(frozen=True)
class Ended:
    """The last record."""

    kind: ClassVar[str] = "end"
    step: int
    metrics: Mapping[str, float | None]  # by name, see `evenkeel.results.measures.MEASURES`
    batches: str | None = None  # digest of the batches of the user's own stream; others are known by Started.stream


Record = Started | Stepped | Anytime | Tested | Aligned | Ended
KINDS: dict[str, type[Record]] = {each.kind: each for each in (Started, Stepped, Anytime, Tested, Aligned, Ended)}
FIELDS = {each: frozenset(field.name for field in fields(each)) for each in KINDS.values()}


LATER = {
    "batches": None,
    "bound": "",
    "device": "cpu",
    "memory_device": "auto",
}  # fields that older records lack: written only where they differ from this default
OLD_BOUNDS = {"finetune": "lower", "joint": "upper"}  # bounds whose older records do not say so


def to_line(record: Record) -> str:
    """Return the record as a line of JSON."""
    content = {name: value for name, value in asdict(record).items() if name not in LATER or value != LATER[name]}
    return json.dumps({"kind": record.kind, **content}, separators=(",", ":"), allow_nan=False) + "\n"


def from_line(line: str | bytes) -> Record:
    """Return the record of a line of JSON; raise ValueError if it is not a whole record of this version."""
    content = json.loads(line)
    try:
        kind = KINDS[content.pop("kind")]
        if kind is Started:
            content["config"] = without_rar(content["config"])
        return kind(**{name: value for name, value in content.items() if name in FIELDS[kind]})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a record: {error}") from None


def without_rar(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a config of version 0.1 with RAR, a method around another, as that method and the learner's repeats."""
    method = config.get("method")
    if not isinstance(method, Mapping) or method.get("name") != "rar":
        return config
    base, repeats = method.get("base") or {"name": "er"}, method.get("repeats", 10)
    return {**config, "method": base, "learner": {**config.get("learner", {}), "repeats": repeats}}


def with_rar(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write the learner's repeats as version 0.1 did: the keys of runs are made of that form."""
    learner = dict(config["learner"])
    repeats = learner.pop("repeats", 1)
    if repeats == 1:
        return config
    base = config["method"]
    inner = {} if base == {"name": "er", "joint_forward": False} else {"base": base}  # its default was not written
    return {**config, "method": {"name": "rar", **inner, "repeats": repeats}, "learner": learner}


def is_rar(config: Mapping[str, Any]) -> bool:
    """Return whether a run repeats its updates: Repeated Augmented Rehearsal, in the paper's tables a method."""
    return bool(config.get("learner", {}).get("repeats", 1) > 1)


def without_none(value: Any) -> Any:
    """Return a table without the settings that are none, at any depth: run keys leave them out, and TOML lacks null."""
    if isinstance(value, Mapping):
        return {name: without_none(each) for name, each in value.items() if each is not None}
    return value


def bound_of(started: Started) -> str:
    """Return "lower" or "upper" if the method of a run is a bound, else an empty string."""
    return started.bound or OLD_BOUNDS.get(str(started.config["method"].get("name")), "")


@dataclass(frozen=True)
class Session:
    """One process that worked on a run, as it was at its last sign of life."""

    command: str
    started: str  # UTC, ISO 8601
    from_step: int
    step: int
    seconds: float  # in all
    evaluating: float  # of these in tests, anytime points and diagnostics
    peak_bytes: int | None  # most memory the process held at once; None if the system does not report it
    learning_cpu: float | None = None  # seconds of all cores spent on learning alone; None in older files
    machine: str | None = None  # its kind; None in older files
