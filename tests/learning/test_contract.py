"""The contract suite: every method passes, and every violation is detected."""

import copy
import random as python_random
import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evenkeel import (
    CLSER,
    ER,
    METHODS,
    DERpp,
    Learner,
    Memory,
    Method,
    Net,
    cross_entropy,
)
from evenkeel.errors import MethodError
from evenkeel.learning import contract
from evenkeel.learning.contract import CHECKS, check_method
from evenkeel.learning.types import View
from tests.helpers.methods import (
    FEATURES,
    MakeMethod,
    linear_net,
    random,
    seeded,
    shake,
    state_of,
)


def test_the_default_alpha_is_a_plain_mean_for_the_first_thousand_steps() -> None:
    net = linear_net()
    method = CLSER(p_stable=1.0)
    method.prepare(net, seeded())
    seen = [state_of(net)]
    for step in range(1, 6):
        shake(net, step)
        method.after_step(net)
        seen.append(state_of(net))
        for name, value in state_of(method.stable).items():
            np.testing.assert_allclose(value, np.mean([one[name] for one in seen], axis=0), rtol=1e-12, atol=1e-14)


# ---- the contract suite ----


class Mine(Method):
    """A method as a user would write it."""

    def __init__(self, *, weight: float = 0.5) -> None:
        super().__init__()
        self.weight = weight

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return torch.stack([cross_entropy(new), *(self.weight * cross_entropy(view) for view in old)]).sum()


class WeighsByConfidence(Mine):
    """A column with an entry per output that weighs samples, but is compared with nothing."""

    logit_columns = ("before",)

    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"before": new.comparable}

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return sum((self._weighed(view) for view in old), cross_entropy(new))

    def _weighed(self, view: View) -> Tensor:
        confidence = view.stored["before"].softmax(dim=1).gather(1, view.y[:, None]).flatten()
        return (confidence * F.cross_entropy(view.adapted, view.y, reduction="none")).mean()


GOOD: dict[str, MakeMethod] = {
    **METHODS,
    "a-users-own": Mine,
    "another": WeighsByConfidence,
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_every_method_keeps_the_contract(make: MakeMethod) -> None:
    assert check_method(make) == [check.__name__ for check in CHECKS]


class KeepsTheNet(Mine):
    """An easy mistake: the net becomes one of the method's modules."""

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        self.net = net


def test_a_method_may_keep_the_net() -> None:
    learner = Learner(linear_net(outputs=2), KeepsTheNet(), memory=8, replay=4)
    learner.learn(random(3, FEATURES, seed=0), ["a", "b", "c"])
    assert learner.net.outputs == 3


class CountsItsCalls(Mine):
    calls = 0

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        self.calls += 1
        return super().loss(new, old) * self.calls


class RollsDice(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) * torch.rand(())


class WritesInItsLoss(Mine):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(()))

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = super().loss(new, old)
        self.last = loss.detach().clone()
        return loss


class WritesInAView(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = super().loss(new, old)
        new.x.zero_()
        return loss


class TakesTheGlobalGenerator(Mine):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"noise": torch.rand(len(new.y))}

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        noise = sum((view.stored["noise"].mean() for view in old), torch.zeros(()))
        return super().loss(new, old) * (1 + noise)


class TakesNumpysGenerator(Mine):
    def after_step(self, net: Net) -> None:
        with torch.no_grad():
            next(net.parameters()).mul_(1 + 0.01 * float(np.random.default_rng().random()))


class IgnoresTheAdaptor(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return torch.stack([F.cross_entropy(view.logits, view.y) for view in (new, *old)]).sum()


class LooksForTheAdaptor(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) * (1 if new.adapted is new.logits else 2)


class KeepsItsStateToItself(Mine):
    def __init__(self) -> None:
        super().__init__()
        self._steps = 0

    def after_step(self, net: Net) -> None:
        self._steps += 1

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) / (1 + self._steps)


class RemembersOneRow(Mine):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"mean": new.logits.mean(dim=0, keepdim=True)}


class RemembersTooMany(Mine):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"twice": torch.cat([new.logits, new.logits]).sum(dim=1)}


class RemembersNowAndThen(Mine):
    times = 0

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.times += 1
        return {} if self.times == 1 else {"extra": torch.zeros(len(new.y))}


class ForgetsToRemember(Mine):
    times = 0

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.times += 1
        return {} if self.times > 1 else {"extra": torch.zeros(len(new.y))}


class ScoresTooFew(Mine):
    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        logits: Tensor = net(x)
        return logits[:, :-1]


class LearnsFromPredictions(Mine):
    questions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("questions", torch.zeros((), dtype=torch.int64))

    def classify(self, net: Net, memory: Memory, x: Tensor) -> Tensor:
        self.questions += len(x)
        return super().classify(net, memory, x)


class LosesASetting(Method):
    def __init__(self, *, alpha: float = 0.5) -> None:
        super().__init__()
        self.share = alpha

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return self.share * ER().loss(new, old)


class ForgetsItsLogitColumns(DERpp):
    logit_columns = ()  # type: ignore[assignment]


class GivesANumber(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old).item()  # type: ignore[return-value]


class GivesAVector(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return F.cross_entropy(new.adapted, new.y, reduction="none")


class CannotEndATaskTwice(Mine):
    def boundary(self, net: Net, memory: Memory) -> None:
        if "teacher" in self._modules:
            raise RuntimeError("one task only")
        self.teacher = copy.deepcopy(net)


class BecomesNotANumber(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) / 0


class AssertsTooMuch(Mine):
    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        assert len(new.y) > 1, "a batch of one"
        return super().loss(new, old)


class StoresAdapted(DERpp):
    def remember(self, new: View) -> Mapping[str, Tensor]:
        return {"logits": new.logits, "adapted": new.adapted}


class DistilsAdapted(DERpp):
    """It stores what it should, but draws `adapted` toward it."""

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(replace(new, comparable=new.adapted), [replace(one, comparable=one.adapted) for one in old])


class FollowsItsTeacher(CLSER):
    """The cross-entropy of `adapted` to a teacher's probabilities."""

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        soft = (F.cross_entropy(one.adapted, one.stored["teacher"].softmax(dim=1)) for one in old)
        return sum(soft, cross_entropy(new))


BROKEN: dict[str, tuple[MakeMethod, str, str]] = {
    "impure-counter": (CountsItsCalls, "loss_is_pure", "two values for the same views"),
    "impure-chance": (RollsDice, "loss_is_pure", "two values for the same views; keep randomness"),
    "impure-buffer": (WritesInItsLoss, "loss_is_pure", "changed a view or the method's own state"),
    "impure-view": (WritesInAView, "loss_is_pure", "changed a view"),
    "global-generator": (
        TakesTheGlobalGenerator,
        "global_generators_are_left_alone",
        "`remember` draws from torch's global generator, or seeds it",
    ),
    "unseeded-generator": (TakesNumpysGenerator, "same_seed_same_bits", "Two runs with the same seed differ"),
    "ignores-the-adaptor": (
        IgnoresTheAdaptor,
        "adaptor_has_something_to_correct",
        "the loss of IgnoresTheAdaptor does not depend on view.adapted",
    ),
    "looks-for-the-adaptor": (
        LooksForTheAdaptor,
        "silent_adaptor_changes_nothing",
        "An adaptor that corrects nothing changes the result",
    ),
    "stores-the-prior": (StoresAdapted, "offsets_are_not_stored", "`remember` stores view.adapted in adapted"),
    "distils-the-prior": (DistilsAdapted, "offsets_are_not_distilled", "compare view.comparable or view.logits"),
    "follows-its-teacher": (FollowsItsTeacher, "offsets_are_not_distilled", "compares view.adapted with a stored"),
    "state-outside-buffers": (
        KeepsItsStateToItself,
        "resume_is_exact",
        "Keep all state in parameters, buffers or submodules",
    ),
    "remembers-one-row": (
        RemembersOneRow,
        "loss_is_pure",
        "`remember` returned 1 rows of 'mean' for 5 samples",
    ),
    "remembers-too-many-rows": (
        RemembersTooMany,
        "loss_is_pure",
        "`remember` returned 10 rows of 'twice' for 5 samples",
    ),
    "new-column-later": (RemembersNowAndThen, "loss_is_pure", "`remember` must always return the same columns"),
    "column-gone-later": (ForgetsToRemember, "loss_is_pure", "`remember` must always return the same columns"),
    "scores-too-few": (
        ScoresTooFew,
        "prediction_changes_nothing",
        "`classify` must return the shape (samples, outputs)",
    ),
    "learns-from-questions": (LearnsFromPredictions, "prediction_changes_nothing", "Predicting changed"),
    "loses-a-setting": (
        LosesASetting,
        "settings_are_kept",
        "Keep every constructor argument under its own name: 'LosesASetting' object has no attribute 'alpha'",
    ),
    "gives-a-number": (GivesANumber, "loss_is_pure", "must return a scalar tensor"),
    "gives-a-vector": (GivesAVector, "loss_is_pure", "must return a scalar tensor"),
    "one-task-only": (CannotEndATaskTwice, "boundaries_are_welcome", "it raised RuntimeError: one task only"),
    "not-a-number": (BecomesNotANumber, "loss_is_pure", "The loss is NaN or infinite"),
    "assertion": (AssertsTooMuch, "odd_batches_are_learned", "it raised AssertionError: a batch of one"),
}


def report_on(make: MakeMethod, *names: str) -> dict[str, str]:
    """Return the sentence of each check that failed, of the named ones (all of them take a second) or of all."""
    chosen = [check for check in CHECKS if not names or check.__name__ in names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "CHECKS", chosen)
        with pytest.raises(MethodError, match="breaks its contract:") as caught:
            check_method(make)
    faults = str(caught.value).splitlines()[1:]
    return {name: fault for name, _, fault in (line.removeprefix("- ").partition(": ") for line in faults)}


@pytest.mark.parametrize(("make", "check", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_broken_contract_is_reported(make: MakeMethod, check: str, sentence: str) -> None:
    assert sentence in report_on(make, check)[check]


def test_missing_logit_columns_are_reported() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about different shapes before it rejects them
        assert "logit_columns" in report_on(ForgetsItsLogitColumns, "head_can_grow")["head_can_grow"]


def test_an_error_is_reported_only_by_the_checks_it_concerns() -> None:
    assert set(report_on(LosesASetting)) == {"settings_are_kept"}
    assert set(report_on(LearnsFromPredictions)) == {"prediction_changes_nothing"}
    assert set(report_on(KeepsItsStateToItself)) == {"resume_is_exact"}
    assert set(report_on(DistilsAdapted)) == {"offsets_are_not_distilled"}


class CountsToFifty(Mine):
    """A counter that matters long after the contract's six steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def after_step(self, net: Net) -> None:
        self.steps += 1

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        return super().loss(new, old) * (2 if self.steps > 50 else 1)


class CountsInAnObject(Mine):
    def __init__(self) -> None:
        super().__init__()
        self.seen = {"labels": Counter[int](), "order": deque[int](maxlen=100)}

    def remember(self, new: View) -> Mapping[str, Tensor]:
        self.seen["order"].extend(new.y.tolist())  # type: ignore[attr-defined]
        return {}


class CountsForAll(Mine):
    steps = 0

    def after_step(self, net: Net) -> None:
        type(self).steps += 1


class HasAGenerator(Mine):
    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)

    def after_step(self, net: Net) -> None:
        self.random.random()


HIDDEN: dict[type[Method], str] = {
    CountsToFifty: "self.steps",
    CountsInAnObject: "self.seen",
    CountsForAll: "CountsForAll.steps",
    HasAGenerator: "self.random",
}


@pytest.mark.parametrize(("make", "attribute"), HIDDEN.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_state_outside_the_checkpoint_is_named_even_if_it_does_not_matter_yet(
    make: type[Method], attribute: str
) -> None:
    assert f"What changes in {attribute} while it learns" in report_on(make, "resume_is_exact")["resume_is_exact"]


class KeepsTheLastLoss(Mine):
    """What is written again in each step is no state."""

    last = 0.0

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        loss = super().loss(new, old)
        self.last = loss.item()
        return loss


class CountsInItsState(CountsToFifty):
    def get_extra_state(self) -> dict[str, int]:
        return {"steps": self.steps}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.steps = state["steps"]


@pytest.mark.parametrize("make", [KeepsTheLastLoss, CountsInItsState])
def test_attributes_that_resume_restores_are_allowed(make: MakeMethod) -> None:
    check_method(make)


SEEDS: dict[str, Callable[[], object]] = {
    "torch's": lambda: torch.manual_seed(0),
    "numpy's": lambda: np.random.seed(0),
    "Python's": lambda: python_random.seed(0),
}
DRAWS: dict[str, Callable[[], object]] = {
    "torch's": lambda: torch.rand(1),
    "numpy's": np.random.rand,
    "Python's": python_random.random,
}


HOOKS = ("__init__", "prepare", "loss", "remember", "after_step", "boundary", "classify")
USES = [
    *((hook, whose, DRAWS) for hook, whose in zip(HOOKS, cycle(DRAWS), strict=False)),
    *(("loss", whose, DRAWS) for whose in DRAWS),
    *(("__init__", whose, SEEDS) for whose in SEEDS),
]


@pytest.mark.parametrize(("hook", "whose", "uses"), USES)
def test_global_generators_are_watched_in_every_hook(
    hook: str, whose: str, uses: dict[str, Callable[[], object]]
) -> None:
    def using(self: Method, *args: object) -> object:
        uses[whose]()
        return getattr(Mine, hook)(self, *args)

    make = type("Using", (Mine,), {hook: using})
    found = report_on(make, "global_generators_are_left_alone")["global_generators_are_left_alone"]
    where = "The constructor" if hook == "__init__" else f"`{hook}`"
    assert found.startswith(f"{where} draws from {whose} global generator, or seeds it")


ONE_CAUSE = (CountsItsCalls, WritesInAView, TakesTheGlobalGenerator, TakesNumpysGenerator, GivesANumber, CountsToFifty)


@pytest.mark.parametrize("make", ONE_CAUSE)
def test_one_cause_is_reported_once(make: MakeMethod) -> None:
    assert len(report_on(make)) == 1
