"""The contract that every method must meet, ours and yours. `check_method(Mine)` runs all checks within seconds."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from evenkeel.errors import CheckpointError, MethodError
from evenkeel.learning import probes, trial
from evenkeel.learning.learner import Learner
from evenkeel.learning.methods import Method
from evenkeel.learning.registry import settings
from evenkeel.learning.rng import global_seed
from evenkeel.learning.trial import MakeMethod
from evenkeel.learning.types import View

Check = Callable[[MakeMethod], None]


def check_method(make: MakeMethod) -> list[str]:
    """Run every check on methods created by `make` (a class, or a function without arguments).

    Return the names of the checks that passed; raise one MethodError with a sentence for each cause of a failure.

    >>> from evenkeel.learning.methods import ER
    >>> len(check_method(ER)) == len(CHECKS)
    True
    """
    failures: dict[str, list[Check]] = {}  # sentence -> checks that failed with it
    make()  # if the method cannot be created, Python's own error is raised once instead of by every check
    for check in CHECKS:
        try:
            check(make)
        except MethodError as error:
            failures.setdefault(str(error), []).append(check)
        except Exception as error:  # a user's method may raise anything
            failures.setdefault(f"it raised {type(error).__name__}: {error}", []).append(check)
    if failures:
        lines = [f"- {', '.join(each.__name__ for each in checks)}: {why}" for why, checks in _causes(failures)]
        raise MethodError("The method breaks its contract:\n" + "\n".join(lines))
    return [check.__name__ for check in CHECKS]


def _causes(failures: dict[str, list[Check]]) -> list[tuple[str, list[Check]]]:
    """Return the failures that no other one explains: a method whose loss is random, say, cannot resume exactly."""
    failed = {check for checks in failures.values() for check in checks}
    explained = {each for check in failed for each in EXPLAINS.get(check, ())}
    return [(why, checks) for why, checks in failures.items() if not explained.issuperset(checks)]


def settings_are_kept(make: MakeMethod) -> None:
    try:
        settings(make())
    except AttributeError as error:
        raise MethodError(f"Keep every constructor argument under its own name: {error}.") from None


def loss_is_pure(make: MakeMethod) -> None:
    """Check that the same views give the same loss and nothing changes: an adaptor may call `loss` once more."""
    for adaptor in trial.adaptors(make):
        learner = trial.learner(make(), adaptor)
        method, loss = learner.method, learner.method.loss

        def twice(
            new: View, old: Sequence[View], method: Method = method, loss: Callable[..., Tensor] = loss
        ) -> Tensor:
            before = copy.deepcopy((method.state_dict(), *map(trial.contents, (new, *old))))
            first, second = loss(new, old), loss(new, old)
            if not isinstance(first, Tensor) or first.dim() or not first.requires_grad:
                raise MethodError("`loss` must return a scalar tensor that depends on the network.")
            if not probes.same(first.detach(), second.detach()):
                raise MethodError(
                    "`loss` returned two values for the same views; keep randomness and counters out of it."
                )
            after = (method.state_dict(), *map(trial.contents, (new, *old)))
            if [
                path
                for path, value in probes.flat("", before)
                if not probes.same(value, dict(probes.flat("", after))[path])
            ]:
                raise MethodError("`loss` changed a view or the method's own state; use `after_step` or `remember`.")
            return first

        method.loss = twice  # type: ignore[method-assign]
        trial.learn(learner, trial.stream())


def same_seed_same_bits(make: MakeMethod) -> None:
    runs = []
    for global_state in (1, 2):  # the state of torch's global generator must not matter
        with global_seed(global_state):
            learner, records = trial.taught(make(), trial.adaptors(make)[-1])
            runs.append((records, probes.snapshot(learner)))
    if runs[0][0] != runs[1][0] or probes.differences(runs[0][1], runs[1][1]):
        raise MethodError(
            "Two runs with the same seed differ. Draw from the generator passed to `prepare`, not torch's own."
        )


def global_generators_are_left_alone(make: MakeMethod) -> None:
    """Check that neither the constructor nor a hook draws from a generator of torch, numpy or Python, or seeds it."""
    with probes.odd_generators():
        method = probes.leaving_generators_alone(make, "The constructor")()
        probes.watch_generators(method)
        learner, _ = trial.taught(method, trial.adaptors(make)[-1])
        learner.predict(trial.stream()[0][0])
        learner.grow(5)


def silent_adaptor_changes_nothing(make: MakeMethod) -> None:
    """Check that with a correction of zero the method equals the method without an adaptor, bit for bit."""
    if make().no_adaptor:
        return
    (plain, records), (silent, others) = (trial.taught(make(), each) for each in (None, trial.Silent()))
    if records != others or not probes.same(trial.weights(plain), trial.weights(silent)):
        raise MethodError("An adaptor that corrects nothing changes the result.")


def adaptor_has_something_to_correct(make: MakeMethod) -> None:
    """Check that the loss depends on `view.adapted`, unless `no_adaptor` says why the method takes no adaptor."""
    if make().no_adaptor:
        return
    learner = trial.learner(make(), trial.cba())
    if not learner.method.rehearses:
        raise MethodError("It keeps no memory, so CBA has nothing to learn from; say so in `no_adaptor`.")
    if all(record.outer_loss is None for record in trial.learn(learner, trial.stream())):
        raise MethodError("CBA was never trained, although memory held old classes.")


def offsets_are_not_stored(make: MakeMethod) -> None:
    """Check that what is stored does not depend on an offset of the adaptor, which will be another at replay."""
    if make().no_adaptor:
        return
    stored = []
    for size in (0.0, 1.0):
        learner = trial.learner(make(), trial.Offset(size=size))
        trial.learn(learner, trial.stream()[:1])
        names = learner.memory.extra_columns or ()
        stored.append({name: learner.memory.column(name) for name in names})
    changed = [name for name, column in stored[0].items() if not probes.same(column, stored[1].get(name))]
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
    learner = trial.learner(make(), trial.Offset(size=1.0))
    loss = learner.method.loss

    def probed(new: View, old: Sequence[View]) -> Tensor:
        directions = []
        for views in ((new, *old), tuple(map(trial.with_other_columns, (new, *old)))):
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
    trial.learn(learner, trial.stream())


def prediction_changes_nothing(make: MakeMethod) -> None:
    learner, _ = trial.taught(make(), None)
    before = probes.snapshot(learner)
    x = torch.cat([x for x, _ in trial.stream()])
    scores = learner.logits(x)
    if scores.shape != (len(x), learner.net.outputs):
        raise MethodError(f"`classify` must return the shape (samples, outputs), but returned {tuple(scores.shape)}.")
    if not probes.same(learner.predict_proba(x), learner.predict_proba(x)) or probes.differences(
        before, probes.snapshot(learner)
    ):
        raise MethodError("Predicting changed the learner.")
    kept = learner.snapshot()
    trial.learn(learner, trial.stream(), start=1)
    if not probes.same(kept.logits(x), scores):
        raise MethodError(
            "A snapshot predicts differently from the learner. If `classify` reads memory, set asks_memory = True."
        )


def resume_is_exact(make: MakeMethod) -> None:
    """Check that saving after any step and resuming gives the records and weights of an uninterrupted run."""
    stream = trial.stream()
    for place in range(len(trial.adaptors(make))):
        of_classes = probes.hidden_state(make())
        straight, records = trial.taught(make(), trial.adaptors(make)[place])
        probes.require_nothing_hidden(of_classes, probes.hidden_state(make()))
        for cut in (1, len(stream) // 2, len(stream) - 1):
            first = trial.learner(make(), trial.adaptors(make)[place])
            trial.learn(first, stream[:cut])
            with tempfile.TemporaryDirectory() as folder:
                first.save(Path(folder) / "learner")
                second = Learner.load(Path(folder) / "learner", net=trial.net(), method=make())
            again = trial.learn(second, stream[cut:], start=cut)
            probes.require_nothing_hidden(probes.hidden_state(straight.method), probes.hidden_state(second.method))
            wrong = probes.differences(probes.snapshot(straight), probes.snapshot(second))
            if again != records[cut:] or wrong:
                raise MethodError(
                    f"Saved after step {cut} of {len(stream)} and loaded, it does not resume exactly"
                    f" (different: {', '.join(wrong[:3]) or 'its records'})."
                    " Keep all state in parameters, buffers or submodules created by `__init__` or `prepare`."
                )


def head_can_grow(make: MakeMethod) -> None:
    """Check that with more labels than outputs the old logits keep every bit and learning continues."""
    for adaptor in trial.adaptors(make):
        learner = trial.learner(make(), adaptor, outputs=2)
        trial.learn(learner, trial.stream()[:3])
        x = trial.stream()[0][0]
        before = learner.logits(x)
        learner.grow(5)
        if not probes.same(before, learner.logits(x)[:, : before.shape[1]]):
            raise MethodError("Old logits changed when an output was added.")
        with tempfile.TemporaryDirectory() as folder:
            learner.save(Path(folder) / "learner")
            try:
                Learner.load(Path(folder) / "learner", net=trial.net(outputs=2), method=make())
            except CheckpointError as error:
                raise MethodError(
                    f"Saved just after growth, it cannot be loaded; widen buffers in `grow`. {error}"
                ) from None
        try:
            trial.learn(learner, trial.stream())
        except (RuntimeError, Warning) as error:  # torch warns about different shapes before it rejects them
            raise MethodError(
                f"It fails after growth ({error}). List remembered columns of logits in `logit_columns`, and widen "
                "buffers with an entry per output in `grow`."
            ) from None
        if learner.logits(x).shape[1] != 5:
            raise MethodError("`classify` returns no scores for the new outputs.")


def odd_batches_are_learned(make: MakeMethod) -> None:
    """Check a batch of one sample, a memory smaller than a draw, and a batch of one class."""
    for adaptor in trial.adaptors(make):
        learner = trial.learner(make(), adaptor, memory=3)
        for x, y in trial.stream():
            learner.learn(x[:1], y[:1])
            learner.learn(x, [y[0]] * len(y))
        if learner.method.rehearses and len(learner.memory) != learner.memory.slots:
            raise MethodError("A full memory must stay full.")


def boundaries_are_welcome(make: MakeMethod) -> None:
    """Check that boundaries never break learning: before the first batch, twice in a row, in inference mode."""
    for adaptor in trial.adaptors(make):
        learner = trial.learner(make(), adaptor)
        learner.boundary()
        for x, y in trial.stream():
            learner.learn(x, y)
            learner.boundary()
            with torch.inference_mode():
                learner.boundary()


CHECKS: list[Check] = [
    settings_are_kept,
    global_generators_are_left_alone,
    loss_is_pure,
    same_seed_same_bits,
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

_COMPARING = (silent_adaptor_changes_nothing, offsets_are_not_stored, offsets_are_not_distilled, resume_is_exact)
EXPLAINS: dict[Check, Sequence[Check]] = {  # a check -> those that fail for the same cause
    global_generators_are_left_alone: (loss_is_pure, same_seed_same_bits, *_COMPARING),
    loss_is_pure: CHECKS[CHECKS.index(loss_is_pure) + 1 :],
    same_seed_same_bits: _COMPARING,
    prediction_changes_nothing: (head_can_grow,),
    resume_is_exact: (head_can_grow,),
}
