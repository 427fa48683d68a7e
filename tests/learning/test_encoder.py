"""Frozen encoders: a learner behind one equals a learner that is given its outputs, and the encoder runs once."""

import copy
import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import evenkeel as ek
from evenkeel.errors import CheckpointError, SettingsError
from evenkeel.learning.encoder import Encoder
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.worker import pipe
from tests.helpers.streams import images

STREAM = images(batches=6, size=5, tasks=2, seed=0)
NORMALIZE = ([0.5], [0.25])


def encoder(seed: int = 0) -> nn.Module:
    """Return a net with batch statistics and dropout, which must both be left alone."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(144, 6)
    )


def body() -> tuple[nn.Module, nn.Linear]:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8, 4)


def make(
    method: str = "er", adaptor: str = "none", *, front: bool = True, memory: int | str = 8, seed: int = 0
) -> ek.Learner:
    net = ek.Net(*body(), encoder=encoder(seed) if front else None)
    kind = None if adaptor == "none" else ek.ADAPTORS[adaptor]()
    normalize = NORMALIZE if front else None
    return ek.Learner(net, ek.METHODS[method](), adaptor=kind, memory=memory, replay=4, normalize=normalize)


def features(x: Tensor) -> Tensor:
    """Return what the encoder makes of images, slowly: one by one."""
    module = encoder().eval()
    with torch.no_grad():
        return torch.cat([module((each[None] / 255 - 0.5) / 0.25) for each in x])


@pytest.mark.parametrize("adaptor", ["none", "cba", "prior"])
@pytest.mark.parametrize("method", ["er", "derpp", "icarl", "lucir", "clser", "scr"])  # BiC looks at the samples given
def test_a_learner_behind_an_encoder_equals_one_that_is_given_its_outputs(method: str, adaptor: str) -> None:
    if adaptor != "none" and ek.METHODS[method]().no_adaptor:
        pytest.skip("the method takes no adaptor")
    one, other = make(method, adaptor), make(method, adaptor, front=False)
    for place, (x, y) in enumerate(STREAM):
        stored = one._inputs.encode(x)
        assert torch.allclose(stored, features(x), atol=1e-6)
        assert one.learn(x, y) == other.learn(stored, y)
        if place == 2:
            one.boundary()
            other.boundary()
    x = torch.cat([x for x, _ in STREAM])
    assert one.logits(x).equal(other.logits(one._inputs.encode(x)))
    assert one.memory.column("x").shape[1:] == (6,)
    x, y = STREAM[-1]
    assert one.alignment(x, y) == other.alignment(one._inputs.encode(x), y)


def test_bic_holds_out_the_same_samples_in_batches_of_any_size() -> None:
    """The last bits of an encoder's outputs depend on the size of the batch."""
    x = torch.randint(256, (120, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    y = torch.arange(len(x)) % 4
    one, sides = make("bic", memory=400), list[set[int]]()
    for size in (10, 7, 1):
        for part, labels in zip(x.split(size), y.split(size), strict=True):
            one.learn(part, labels, key=[f"{place}" for place in part.flatten(1).long().sum(dim=1).tolist()])
        assert one.method.held is not None
        sides.append(set(one.method.held.column("key").tolist()))
    assert len(sides[0]) > 5
    assert sides[0] == sides[1] == sides[2]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.samples = encoder(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.samples += len(x)
        out: Tensor = self.inner(x)
        return out


def test_it_runs_once_for_each_sample_and_does_not_move() -> None:
    counting = Counting()
    before = copy.deepcopy(counting.state_dict())
    learner = ek.Learner(ek.Net(*body(), encoder=counting), ek.ER(), adaptor=ek.CBA(every=1), memory=8, repeats=3)
    learner.learn(*STREAM[0])
    counting.samples = 0  # the first batch is tried before it is learned
    for x, y in STREAM[1:]:
        learner.learn(x, y)
    assert counting.samples == sum(len(y) for _, y in STREAM[1:])
    learner.net.train()
    assert not any(part.training for part in counting.modules())
    assert all(value.equal(counting.state_dict()[name]) for name, value in before.items())
    assert not any(weight.requires_grad for weight in counting.parameters())
    assert len(list(learner.net.parameters())) == 4


def test_a_frozen_backbone_is_an_encoder() -> None:
    torch.manual_seed(2)
    head = nn.Linear(6, 4)
    one = ek.Net(encoder(), copy.deepcopy(head), frozen=True)
    other = ek.Net(nn.Identity(), head, encoder=encoder())
    learners = [ek.Learner(net, ek.ER(), memory=8, replay=4) for net in (one, other)]
    for x, y in STREAM:
        assert learners[0].learn(x, y) == learners[1].learn(x, y)
    split = ek.Net.split(nn.Sequential(encoder(), nn.Linear(6, 3)), head="1", frozen=True)
    ek.Learner(split, ek.ER(), memory=8).learn(*STREAM[0])
    assert [name for name, _ in split.named_parameters()] == ["head.weight", "head.bias"]


def test_a_saved_learner_resumes_exactly_with_the_same_encoder_and_no_other(tmp_path: Path) -> None:
    straight, cut = make("derpp", "cba"), make("derpp", "cba")
    for x, y in STREAM[:3]:
        straight.learn(x, y), cut.learn(x, y)
    cut.save(tmp_path / "learner.ek")
    assert (tmp_path / "learner.ek").stat().st_size < 60_000  # the encoder is not in it
    again = ek.Learner.load(tmp_path / "learner.ek", net=ek.Net(*body(), encoder=encoder()))
    for x, y in STREAM[3:]:
        assert straight.learn(x, y) == again.learn(x, y)
    assert not differences(snapshot(straight), snapshot(again))
    for wrong in (encoder(seed=5), None):
        with pytest.raises(CheckpointError, match="differ in structure or weights"):
            ek.Learner.load(tmp_path / "learner.ek", net=ek.Net(*body(), encoder=wrong))


def test_a_byte_budget_counts_features_not_images() -> None:
    learner = make(memory="2KB")
    for x, y in STREAM:
        learner.learn(x, y)
    assert len(learner.memory) == sum(len(y) for _, y in STREAM)  # 30 vectors of 24 bytes, or 20 images would fit
    assert learner.memory.nbytes <= 2_000


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "augment": (
        lambda: ek.Learner(ek.Net(*body(), encoder=encoder()), ek.ER(), augment=ek.CropFlip()),
        "cannot be combined with an encoder: memory stores",
    ),
    "no module": (lambda: ek.Net(*body(), encoder=lambda x: x), "encoder is a function; give an nn.Module"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "sentence"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_refused_with_the_reason(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        call()


def test_an_exported_file_has_the_encoder(tmp_path: Path) -> None:
    from evenkeel.learning.export import export

    learner = make()
    for x, y in STREAM:
        learner.learn(x, y)
    export(learner.snapshot(), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    x = STREAM[0][0]
    expected = torch.from_numpy(learner.predict_proba(x)).float()
    assert torch.allclose(program(x)["probabilities"], expected, atol=1e-5)


def test_a_service_sends_its_snapshots_without_the_encoder() -> None:
    large = nn.Sequential(encoder(), nn.Linear(6, 50_000), nn.Linear(50_000, 6))
    learner = ek.Learner(ek.Net(*body(), encoder=large), ek.ER(), memory=8)
    learner.learn(*STREAM[0])
    published = pipe.Published.of(learner, 1)
    sent = io.BytesIO()
    pipe._Pickler(sent, protocol=5).dump(published)
    assert len(sent.getvalue()) < 100_000
    received = pipe._Unpickler(io.BytesIO(sent.getvalue())).load()
    assert isinstance(received.classifier.inputs.encoder, Encoder)
    x = STREAM[0][0]
    assert (received.classifier.predict_proba(x) == published.classifier.predict_proba(x)).all()
