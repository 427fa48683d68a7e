"""The contract that every method must meet, ours and yours. `check_method(Mine)` runs all checks within seconds."""

import copy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from evenkeel.errors import CheckpointError, MethodError
from evenkeel.learning.adaptors import ADAPTORS, Adaptor
from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import settings
from evenkeel.learning.rng import global_seed
from evenkeel.learning.types import StepRecord, View

MakeMethod = Callable[[], Method]
LabelledBatch = tuple[Tensor, list[int]]


def check_method(make: MakeMethod) -> list[str]:
    """Run every check on methods created by `make` (a class, or a function without arguments).

    Return the names of the checks that passed; raise one MethodError with a sentence for each that failed.

    >>> from evenkeel.learning.methods import ER
    >>> len(check_method(ER)) == len(CHECKS)
    True
    """
    failures: dict[str, list[str]] = {}  # sentence -> checks that failed with it
    make()  # if the method cannot be created, Python's own error is raised once instead of by every check
    for check in CHECKS:
        try:
            check(make)
        except MethodError as error:
            failures.setdefault(str(error), []).append(check.__name__)
        except Exception as error:  # a user's method may raise anything
            failures.setdefault(f"it raised {type(error).__name__}: {error}", []).append(check.__name__)
    if failures:
        lines = [f"- {', '.join(checks)}: {sentence}" for sentence, checks in failures.items()]
        raise MethodError("The method breaks its contract:\n" + "\n".join(lines))
    return [check.__name__ for check in CHECKS]


def snapshot(learner: Learner) -> dict[str, Any]:
    """Return a copy of the whole state of a learner, flattened: path -> tensor or plain value."""
    return dict(_flat("", copy.deepcopy(learner.state())))


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Return the paths at which two snapshots are not bit-identical."""
    return [
        path for path in sorted(a.keys() | b.keys()) if path not in a or path not in b or not _same(a[path], b[path])
    ]


def settings_are_kept(make: MakeMethod) -> None:
    try:
        settings(make())
    except AttributeError as error:
        raise MethodError(f"Keep every constructor argument under its own name: {error}.") from None


def loss_is_pure(make: MakeMethod) -> None:
    """Check that the same views give the same loss and nothing changes: an adaptor may call `loss` once more."""
    for adaptor in _adaptors(make):
        learner = _learner(make(), adaptor)
        method, loss = learner.method, learner.method.loss

        def twice(
            new: View, old: Sequence[View], method: Method = method, loss: Callable[..., Tensor] = loss
        ) -> Tensor:
            before = copy.deepcopy((method.state_dict(), *map(_contents, (new, *old))))
            first, second = loss(new, old), loss(new, old)
            if not isinstance(first, Tensor) or first.dim() or not first.requires_grad:
                raise MethodError("`loss` must return a scalar tensor that depends on the network.")
            if not _same(first.detach(), second.detach()):
                raise MethodError(
                    "`loss` returned two values for the same views; keep randomness and counters out of it."
                )
            after = (method.state_dict(), *map(_contents, (new, *old)))
            if [path for path, value in _flat("", before) if not _same(value, dict(_flat("", after))[path])]:
                raise MethodError("`loss` changed a view or the method's own state; use `after_step` or `remember`.")
            return first

        method.loss = twice  # type: ignore[method-assign]
        _learn(learner, _stream())


def same_seed_same_bits(make: MakeMethod) -> None:
    runs = []
    for global_state in (1, 2):  # the state of torch's global generator must not matter
        with global_seed(global_state):
            learner = _learner(make(), _adaptors(make)[-1])
            runs.append((_learn(learner, _stream()), snapshot(learner)))
    if runs[0][0] != runs[1][0] or differences(runs[0][1], runs[1][1]):
        raise MethodError(
            "Two runs with the same seed differ. Draw from the generator passed to `prepare`, not torch's own."
        )


def global_generator_is_left_alone(make: MakeMethod) -> None:
    before = torch.get_rng_state()
    learner = _learner(make(), _adaptors(make)[-1])
    _learn(learner, _stream())
    learner.predict(_stream()[0][0])
    if not _same(before, torch.get_rng_state()):
        raise MethodError("torch's global generator was used; draw from the one passed to `prepare`.")


def silent_adaptor_changes_nothing(make: MakeMethod) -> None:
    """Check that with a correction of zero the method equals the method without an adaptor, bit for bit."""
    if make().no_adaptor:
        return
    plain, silent = _learner(make(), None), _learner(make(), _Silent())
    if _learn(plain, _stream()) != _learn(silent, _stream()) or not _same(_weights(plain), _weights(silent)):
        raise MethodError("An adaptor that corrects nothing changes the result.")


def adaptor_has_something_to_correct(make: MakeMethod) -> None:
    """Check that the loss depends on `view.adapted`, unless `no_adaptor` says why the method takes no adaptor."""
    if make().no_adaptor:
        return
    learner = _learner(make(), _cba())
    if not learner.method.rehearses:
        raise MethodError("It keeps no memory, so CBA has nothing to learn from; say so in `no_adaptor`.")
    if all(record.outer_loss is None for record in _learn(learner, _stream())):
        raise MethodError("CBA was never trained, although memory held old classes.")


def offsets_are_not_stored(make: MakeMethod) -> None:
    """Check that what is stored does not depend on an offset of the adaptor, which will be another at replay."""
    if make().no_adaptor:
        return
    stored = []
    for size in (0.0, 1.0):
        learner = _learner(make(), _Offset(size=size))
        _learn(learner, _stream()[:1])
        names = learner.memory.extra_columns or ()
        stored.append({name: learner.memory.column(name) for name in names})
    changed = [name for name, column in stored[0].items() if not _same(column, stored[1].get(name))]
    if changed or stored[0].keys() != stored[1].keys():
        raise MethodError(
            f"`remember` stores view.adapted in {', '.join(changed) or 'its columns'}. Its offset (of a prior, say) is "
            "another when the samples are replayed; store view.comparable."
        )


def offsets_are_not_distilled(make: MakeMethod) -> None:
    """Check that no column with an entry per output, stored or recalled, is compared with `view.adapted`.

    If it were, other columns would turn the gradient with respect to `adapted`. (It may become longer: a column may
    weigh a sample's cross-entropy.)
    """
    if make().no_adaptor:
        return
    learner = _learner(make(), _Offset(size=1.0))
    loss = learner.method.loss

    def probed(new: View, old: Sequence[View]) -> Tensor:
        directions = []
        for views in ((new, *old), tuple(map(_with_other_columns, (new, *old)))):
            leaves = [replace(view, adapted=view.adapted.detach().requires_grad_()) for view in views]
            adapted = [view.adapted for view in leaves]
            slopes = torch.autograd.grad(loss(leaves[0], leaves[1:]), adapted, materialize_grads=True)
            directions.append(nn.functional.normalize(torch.cat(slopes), dim=1))
        if not torch.allclose(directions[0], directions[1], atol=1e-3):
            raise MethodError(
                "`loss` compares view.adapted with a stored or recalled column. Its offset (of a prior, say) was "
                "another, or none, when the column was computed; compare view.comparable or view.logits."
            )
        return loss(new, old)

    learner.method.loss = probed  # type: ignore[method-assign]
    _learn(learner, _stream())


def prediction_changes_nothing(make: MakeMethod) -> None:
    learner = _learner(make(), None)
    _learn(learner, _stream())
    before = snapshot(learner)
    x = torch.cat([x for x, _ in _stream()])
    scores = learner.logits(x)
    if scores.shape != (len(x), learner.net.outputs):
        raise MethodError(f"`classify` must return the shape (samples, outputs), but returned {tuple(scores.shape)}.")
    if not _same(learner.predict_proba(x), learner.predict_proba(x)) or differences(before, snapshot(learner)):
        raise MethodError("Predicting changed the learner.")
    kept = learner.snapshot()
    _learn(learner, _stream(), start=1)
    if not _same(kept.logits(x), scores):
        raise MethodError(
            "A snapshot predicts differently from the learner. If `classify` reads memory, set asks_memory = True."
        )


def resume_is_exact(make: MakeMethod) -> None:
    """Check that saving after any step and resuming gives the records and weights of an uninterrupted run."""
    stream = _stream()
    for place in range(len(_adaptors(make))):
        straight = _learner(make(), _adaptors(make)[place])
        records = _learn(straight, stream)
        for cut in (1, len(stream) // 2, len(stream) - 1):
            first = _learner(make(), _adaptors(make)[place])
            _learn(first, stream[:cut])
            with tempfile.TemporaryDirectory() as folder:
                first.save(Path(folder) / "learner")
                second = Learner.load(Path(folder) / "learner", net=_net(), method=make())
            again = _learn(second, stream[cut:], start=cut)
            wrong = differences(snapshot(straight), snapshot(second))
            if again != records[cut:] or wrong:
                raise MethodError(
                    f"Saved after step {cut} of {len(stream)} and loaded, it does not resume exactly"
                    f" (different: {', '.join(wrong[:3]) or 'its records'})."
                    " Keep all state in parameters, buffers or submodules created by `__init__` or `prepare`."
                )


def head_can_grow(make: MakeMethod) -> None:
    """Check that with more labels than outputs the old logits keep every bit and learning continues."""
    for adaptor in _adaptors(make):
        learner = _learner(make(), adaptor, outputs=2)
        _learn(learner, _stream()[:3])
        x = _stream()[0][0]
        before = learner.logits(x)
        learner.grow(5)
        if not _same(before, learner.logits(x)[:, : before.shape[1]]):
            raise MethodError("Old logits changed when an output was added.")
        with tempfile.TemporaryDirectory() as folder:
            learner.save(Path(folder) / "learner")
            try:
                Learner.load(Path(folder) / "learner", net=_net(outputs=2), method=make())
            except CheckpointError as error:
                raise MethodError(
                    f"Saved just after growth, it cannot be loaded; widen buffers in `grow`. {error}"
                ) from None
        try:
            _learn(learner, _stream())
        except (RuntimeError, Warning) as error:  # torch warns about different shapes before it rejects them
            raise MethodError(
                f"It fails after growth ({error}). List remembered columns of logits in `logit_columns`, and widen "
                "buffers with an entry per output in `grow`."
            ) from None
        if learner.logits(x).shape[1] != 5:
            raise MethodError("`classify` returns no scores for the new outputs.")


def odd_batches_are_learned(make: MakeMethod) -> None:
    """Check a batch of one sample, a memory smaller than a draw, and a batch of one class."""
    for adaptor in _adaptors(make):
        learner = _learner(make(), adaptor, memory=3)
        for x, y in _stream():
            learner.learn(x[:1], y[:1])
            learner.learn(x, [y[0]] * len(y))
        if learner.method.rehearses and len(learner.memory) != learner.memory.slots:
            raise MethodError("A full memory must stay full.")


def boundaries_are_welcome(make: MakeMethod) -> None:
    """Check that boundaries never break learning: before the first batch, twice in a row, in inference mode."""
    for adaptor in _adaptors(make):
        learner = _learner(make(), adaptor)
        learner.boundary()
        for x, y in _stream():
            learner.learn(x, y)
            learner.boundary()
            with torch.inference_mode():
                learner.boundary()


CHECKS: list[Callable[[MakeMethod], None]] = [
    settings_are_kept,
    loss_is_pure,
    same_seed_same_bits,
    global_generator_is_left_alone,
    silent_adaptor_changes_nothing,
    adaptor_has_something_to_correct,
    offsets_are_not_stored,
    offsets_are_not_distilled,
    prediction_changes_nothing,
    resume_is_exact,
    head_can_grow,
    odd_batches_are_learned,
    boundaries_are_welcome,
]


def _net(outputs: int = 4) -> Net:
    with global_seed(0):
        return Net(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, outputs))


class _Silent(Adaptor):
    """An adaptor that corrects nothing."""

    def correct(self, view: View, *, learning: bool = False) -> View:
        same = view.logits + torch.zeros_like(view.logits)
        return replace(view, adapted=same, comparable=same)


class _Offset(Adaptor):
    """An adaptor that adds a constant to the logits of each class, as a prior does."""

    def __init__(self, *, size: float) -> None:
        self.size = size

    def correct(self, view: View, *, learning: bool = False) -> View:
        offset = self.size * torch.arange(1.0, 1 + view.logits.shape[1])
        return replace(view, adapted=view.logits + offset)


def _cba() -> Adaptor:
    make: Callable[..., Adaptor] = ADAPTORS["cba"]
    return make(hidden=(8,), every=2, lr=1e-2)


def _adaptors(make: MakeMethod) -> list[Adaptor | None]:
    """Return None, and a new CBA if the method can be combined with one."""
    return [None] if make().no_adaptor else [None, _cba()]


def _learner(method: Method, adaptor: Adaptor | None, *, outputs: int = 4, memory: int = 8) -> Learner:
    optimizer = partial(SGD, lr=0.1, momentum=0.5)
    return Learner(_net(outputs), method, adaptor=adaptor, memory=memory, replay=4, optimizer=optimizer)


def _stream() -> list[LabelledBatch]:
    """Return ten batches of five samples: classes 0 and 1, then 2 and 3."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 6, generator=generator)
    batches = []
    for task in (0, 0, 0, 0, 0, 1, 1, 1, 1, 1):
        y = torch.randint(2, (5,), generator=generator) + 2 * task
        batches.append((centres[y] + 0.3 * torch.randn(5, 6, generator=generator), y.tolist()))
    return batches


def _learn(learner: Learner, batches: Sequence[LabelledBatch], *, start: int = 0) -> list[StepRecord]:
    """Learn the batches, with a boundary after the fifth batch of the stream."""
    records = []
    for place, (x, y) in enumerate(batches, start):
        records.append(learner.learn(x, y))
        if place == 4:
            learner.boundary()
    return records


def _weights(learner: Learner) -> Tensor:
    return nn.utils.parameters_to_vector(learner.net.parameters()).detach()


def _contents(view: View) -> dict[str, Any]:
    tensors = {"x": view.x, "y": view.y, "features": view.features, "logits": view.logits, "adapted": view.adapted}
    tensors["comparable"] = view.comparable
    return {name: value.detach() for name, value in {**tensors, **view.stored}.items()}


def _with_other_columns(view: View) -> View:
    """Return the view with other numbers in the columns that have an entry per output."""
    generator = torch.Generator().manual_seed(0)
    columns = {
        name: torch.randn(column.shape, generator=generator)
        for name, column in view.stored.items()
        if column.shape == view.logits.shape and column.is_floating_point()
    }
    return replace(view, stored={**view.stored, **columns})


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{path}/{name}", inner)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _flat(f"{path}/{place}", inner)
    else:
        yield path, value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) & (a.signbit() == b.signbit())).all())
    same = a == b
    return bool(same.all()) if not isinstance(same, bool) else same
