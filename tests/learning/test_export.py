"""Exported files: they predict like the learner, without it, and list their labels."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import evenkeel as ek
from evenkeel.errors import CheckpointError, DivergenceError, SettingsError
from evenkeel.learning import export, torch_utils
from evenkeel.learning.classifier import Classifier
from tests.helpers.streams import ADAPTORS, images, learn_all
from tests.helpers.streams import METHODS as KNOWN

METHODS: dict[str, Callable[[], ek.Method]] = {
    **{name: KNOWN[name] for name in ek.METHODS},
    "clser-stable": partial(ek.CLSER, predictor="stable"),
    "clser-plastic": partial(ek.CLSER, predictor="plastic"),
}


class Own(nn.Module):
    """A user's model: it writes into its input, caches a table at its first call, has dropout, uses len."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.body = nn.Linear(4, 6)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(6, 6)
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.arange(4.0)
        x = self.body(self.act(x) + self.table).reshape(len(x), 6)
        out: Tensor = self.fc(self.drop(x))
        return out


class Branching(nn.Module):
    """A model whose control flow depends on the values, so that no single graph can express it."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def vectors(batches: int = 8) -> list[tuple[Tensor, list[str]]]:
    """Return two tasks of two named classes."""
    generator = torch.Generator().manual_seed(0)
    tasks = (["a cat"] * 3 + ["dögs"] * 3, ["3"] * 3 + ["bird"] * 3)
    return [(torch.randn(6, 4, generator=generator), tasks[2 * place // batches]) for place in range(batches)]


def learned(net: ek.Net, method: ek.Method, stream: Sequence[tuple[Tensor, Any]], **settings: Any) -> ek.Learner:
    adaptor = None if method.no_adaptor else ADAPTORS["cba"]()
    learner = ek.Learner(net, method, adaptor=adaptor, memory=10, replay=6, **settings)
    half = len(stream) // 2
    learn_all(learner, stream[:half])
    learner.boundary()
    learn_all(learner, stream[half:])
    learner.boundary()
    return learner


def on_vectors(method: ek.Method, net: ek.Net | None = None) -> ek.Learner:
    """Return a learner whose head of five outputs has one to spare."""
    net = net or ek.mlp(features=4, classes=5, hidden=(8,))
    return learned(net, method, vectors(), normalize=([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]))


def on_images(method: ek.Method, net: ek.Net) -> ek.Learner:
    """Return a learner whose head grows class by class."""
    return learned(net, method, images(), normalize=([0.5], [0.25]))


def opened(path: Path) -> Callable[[Tensor], tuple[NDArray[Any], NDArray[Any]]]:
    """Return a function that runs the file: probabilities and indices."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        return lambda x: tuple(session.run(["probabilities", "index"], {"x": x.numpy()}))
    module = torch.export.load(path).module()

    def ask(x: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
        answer = module(x)
        return answer["probabilities"].numpy(), answer["index"].numpy()

    return ask


def assert_answers(learner: ek.Learner, probabilities: NDArray[Any], index: NDArray[Any], x: Tensor) -> None:
    assert probabilities.dtype == np.float32
    assert index.dtype == np.int64
    np.testing.assert_allclose(probabilities, learner.predict_proba(x), atol=1e-5, rtol=0)
    assert [learner.classes[place] for place in index] == learner.predict(x).tolist()


def assert_same(learner: ek.Learner, path: Path, x: Tensor) -> None:
    ask = opened(path)
    for samples in (1, 2, 7, 30):
        batch = x[:samples].clone()
        assert_answers(learner, *ask(batch), batch)
        assert torch.equal(batch, x[:samples])


def inputs(learner: ek.Learner) -> Tensor:
    stream: list[Tensor] = [x for x, _ in (images() if learner.snapshot().inputs.dtype == torch.uint8 else vectors())]
    return torch.cat(stream[::-1])


OFTEN = ("er", "icarl", "bic")  # by the head, by class means, with a correction of its own


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow]) for name in METHODS]
)
def test_every_exported_method_predicts_the_same(name: str, tmp_path: Path) -> None:
    learner = on_vectors(METHODS[name]())
    path = tmp_path / "model.pt2"
    export.export(learner.snapshot(), path)
    assert_same(learner, path, inputs(learner))
    with zipfile.ZipFile(path) as archive:
        weights = [each.file_size for each in archive.infolist() if "/weight_" in each.filename]
    held = sum(each.nbytes for each in learner.net.state_dict().values())
    assert sum(weights) <= held + 64, "more than one network is in the file"


class NearestSample(ek.Method):
    """A user's own: it predicts the class of the most similar sample in memory."""

    asks_memory = True

    def loss(self, new: ek.View, old: Sequence[ek.View]) -> Tensor:
        return ek.cross_entropy(new)

    def classify(self, net: ek.Net, memory: ek.Memory, x: Tensor) -> Tensor:
        if not len(memory):
            logits: Tensor = net(x)
            return logits
        known = memory.samples()
        return similarities(x, known.x, known.y, net.outputs)


def similarities(x: Tensor, known: Tensor, y: Tensor, outputs: int) -> Tensor:
    """Return (n, outputs) the highest product with a known sample of each class."""
    return torch.stack([(x @ known.T).masked_fill(y != output, -9.0).amax(dim=1) for output in range(outputs)], dim=1)


class Exportable(NearestSample):
    def exported(self, net: ek.Net, memory: ek.Memory) -> nn.Module:
        return Compared(memory.samples(), net.outputs)


class Compared(nn.Module):
    known: Tensor
    y: Tensor

    def __init__(self, samples: ek.Draw, outputs: int) -> None:
        super().__init__()
        self.register_buffer("known", samples.x)
        self.register_buffer("y", samples.y)
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        return similarities(x, self.known, self.y, self.outputs)


class Halved(ek.ER):
    """A user's own: it predicts by another rule, without memory."""

    def classify(self, net: ek.Net, memory: ek.Memory, x: Tensor) -> Tensor:
        logits: Tensor = net(x)
        return logits * torch.tensor([0.1, 1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize("method", [Exportable, Halved])
def test_a_method_of_your_own_predicts_the_same(method: Callable[[], ek.Method], tmp_path: Path) -> None:
    learner = on_vectors(method())
    plain = learner.net.eval()(inputs(learner)).argmax(dim=1)
    assert not torch.equal(learner.logits(inputs(learner)).argmax(dim=1), plain)  # it has a rule of its own
    export.export(learner.snapshot(), tmp_path / "model.pt2")
    assert_same(learner, tmp_path / "model.pt2", inputs(learner))


def test_a_method_that_predicts_from_memory_must_say_how_to_export_it(older: Path) -> None:
    with pytest.raises(SettingsError, match=r"NearestSample\(\) predicts from its memory, .* Implement `exported`"):
        export.export(on_vectors(NearestSample()).snapshot(), older)
    assert_older(older)


def test_icarl_without_samples_is_exported_with_its_head(tmp_path: Path) -> None:
    learner = ek.Learner(ek.mlp(features=4, classes=4, hidden=(8,)), ek.ICaRL(), memory=20)
    learner.learn(*vectors()[0], key="all")
    learner.forget("all")
    export.export(learner.snapshot(), tmp_path / "model.pt2")
    assert_same(learner, tmp_path / "model.pt2", inputs(learner))


def forgetful(net: ek.Net) -> ek.Learner:
    """Return a learner whose memory no longer holds samples of one class."""
    learner = ek.Learner(net, ek.ICaRL(), memory=12)
    for x, y in vectors():
        learner.learn(x, y, key=y)
    assert learner.forget("bird")
    return learner


NETS: dict[str, tuple[str, Callable[[], ek.Learner]]] = {
    "icarl, own in double": (".onnx", lambda: forgetful(ek.Net.split(Own().double()))),
    "bic, own": (".pt2", lambda: learned(ek.Net.split(Own()), ek.BiC(), vectors())),
    "lucir, grown convnet": (".onnx", lambda: on_images(ek.LUCIR(), ek.convnet(classes=1, width=4))),
}


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_an_encoder_of_another_dtype_is_exported(dtype: torch.dtype, suffix: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(4, 6), nn.ReLU()).to(dtype)
    learner = ek.Learner(ek.Net(nn.Identity(), nn.Linear(6, 3), encoder=encoder), ek.ER(), memory=12)
    for x, y in vectors():
        learner.learn(x, y)
    path = tmp_path / f"model{suffix}"
    export.export(learner.snapshot(), path)
    x = inputs(learner)
    probabilities, _ = opened(path)(x)
    rounding = 0.02 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(
        torch.as_tensor(probabilities).double(), torch.tensor(learner.predict_proba(x)), atol=rounding, rtol=0
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "lucir" in name else []) for name in NETS]
)
def test_every_exported_net_predicts_the_same(name: str, tmp_path: Path) -> None:
    suffix, make = NETS[name]
    learner = make()
    path = tmp_path / f"model{suffix}"
    export.export(learner.snapshot(), path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name], "one file and nothing else"
    assert_same(learner, path, inputs(learner))
    uint8 = learner.snapshot().inputs.dtype == torch.uint8
    assert export.described(path) == {
        "labels": learner.classes,
        "input": {"shape": [1, 8, 8] if uint8 else [4], "dtype": "uint8" if uint8 else "float32"},
        "version": ek.__version__,
    }
    if suffix == ".onnx":
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        (note,) = [each.value for each in model.metadata_props if each.key == "evenkeel"]
        assert json.loads(note)["labels"] == learner.classes
        content = path.read_bytes()
    else:
        with zipfile.ZipFile(path) as archive:
            content = b"".join(map(archive.read, archive.namelist()))
    assert str(Path(ek.__file__).parent).encode() not in content, "paths of this machine are in the file"


ALONE = """
import sys, torch
path, given, answer = sys.argv[1:]
extra = {"evenkeel.json": ""}
ask = torch.export.load(path, extra_files=extra).module()
assert not any(name.split(".")[0] == "evenkeel" for name in sys.modules)
torch.save({"answers": [ask(x) for x in torch.load(given)], "note": extra["evenkeel.json"]}, answer)
"""


def on_small_images() -> ek.Learner:
    return on_images(ek.CLSER(predictor="stable"), ek.convnet(classes=1, width=16, channels=1))


def test_a_file_needs_only_torch_and_exporting_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = on_small_images()
    asked = learner.snapshot()
    before = watched(asked)
    export.export(asked, tmp_path / "model.pt2")
    assert watched(asked) == before
    batches = [inputs(learner)[:samples] for samples in (1, 2, 7)]
    extra = {"evenkeel.json": ""}
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] == "evenkeel"]:
            patch.setitem(sys.modules, name, None)  # importing it, as unpickling does, fails
        ask = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
        answers = [ask(batch) for batch in batches]
    for answer, batch in zip(answers, batches, strict=True):
        assert_answers(learner, answer["probabilities"].numpy(), answer["index"].numpy(), batch)
    assert json.loads(extra["evenkeel.json"])["labels"] == learner.classes


@pytest.mark.slow
def test_another_process_needs_only_torch(tmp_path: Path) -> None:
    learner = on_small_images()
    export.export(learner.snapshot(), tmp_path / "model.pt2")
    batches = [inputs(learner)[:samples] for samples in (1, 2, 7)]
    torch.save(batches, tmp_path / "given")
    paths = [str(tmp_path / name) for name in ("model.pt2", "given", "answer")]
    python = [sys.executable, "-I", "-c", ALONE, *paths]
    subprocess.run(python, check=True, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    found = torch.load(tmp_path / "answer")
    for answer, batch in zip(found["answers"], batches, strict=True):
        assert_answers(learner, answer["probabilities"].numpy(), answer["index"].numpy(), batch)
    assert json.loads(found["note"])["labels"] == learner.classes


def watched(classifier: Classifier) -> list[object]:
    parts = [*classifier.net.modules(), *classifier.method.modules()]
    flags = [each.requires_grad for part in parts for each in part.parameters()]
    names = [set(part.__dict__) for part in parts]
    return [
        torch_utils.version(classifier.net),
        torch_utils.version(classifier.method),
        [part.training for part in parts],
        flags,
        names,
    ]


def ready(labels: Sequence[Hashable] = ("a", "b"), net: ek.Net | None = None) -> Classifier:
    learner = ek.Learner(net or ek.mlp(features=4, classes=2, hidden=()), ek.ER(), memory=4)
    learner.learn(torch.ones(len(labels), 4), labels)
    return learner.snapshot()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"older")
    return path


def assert_older(path: Path) -> None:
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == b"older"


def test_a_network_that_cannot_be_traced_leaves_the_older_file(older: Path) -> None:
    net = ek.Net(Branching(), nn.Linear(4, 2))
    with pytest.raises(SettingsError, match="cannot be written as a graph"):
        export.export(ready(net=net), older)
    assert_older(older)


def test_a_full_disk_leaves_the_older_file(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(export.FORMATS, ".pt2", (lambda *_: b"new", export.FORMATS[".pt2"][1]))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            export.export(ready(), older)
    assert_older(older)
    export.export(ready(), older)
    assert older.read_bytes() == b"new"


def test_a_network_that_diverged_is_not_exported(older: Path) -> None:
    asked = ready()
    asked.net.head.get_parameter("weight").fill_(torch.nan)
    with pytest.raises(DivergenceError, match="NaN or infinite"):
        export.export(asked, older)
    assert_older(older)


@pytest.mark.parametrize("name", ["model.onx", "model.pt", "model", "model.ek"])
def test_the_suffix_determines_the_format(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"must end in \.onnx or \.pt2") as caught:
        export.export(ready(), tmp_path / name)
    assert ("Did you mean '.onnx'" in str(caught.value)) == (name == "model.onx")
    assert ("Did you mean '.pt2'" in str(caught.value)) == (name == "model.pt")
    with pytest.raises(SettingsError, match="must end in"):
        export.described(tmp_path / name)


def test_an_impossible_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "folder.pt2").mkdir()
    with pytest.raises(SettingsError, match="it is a folder"):
        export.export(ready(), tmp_path / "folder.pt2")
    with pytest.raises(SettingsError, match="does not exist"):
        export.export(ready(), tmp_path / "none" / "model.pt2")


@pytest.mark.parametrize("classes", [None, ["a", "b"]])
def test_nothing_learned_is_nothing_to_export(classes: list[str] | None, tmp_path: Path) -> None:
    learner = ek.Learner(ek.mlp(features=4, classes=2), ek.ER(), classes=classes)
    with pytest.raises(SettingsError, match="Nothing has been learned yet"):
        export.export(learner.snapshot(), tmp_path / "model.pt2")


@pytest.mark.parametrize("missing", ["onnx", "onnxscript"])
def test_without_onnx(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        SettingsError, match=re.escape(f"{missing!r}, which is not installed: pip install 'evenkeel[export]'")
    ):
        export.export(ready(), tmp_path / "model.onnx")


def test_labels_of_any_kind_that_json_holds(tmp_path: Path) -> None:
    labels: list[Hashable] = ["ü\n", 7, 2.0, ("a", (1.5, None, "b")), 2**70]
    export.export(ready(labels), tmp_path / "model.pt2")
    assert export.described(tmp_path / "model.pt2")["labels"] == labels


@pytest.mark.parametrize("label", [b"bytes", frozenset("ab"), (float("inf"),), ("a", b"b"), Path("p")])
def test_labels_that_json_cannot_hold(label: Hashable, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"The label {re.escape(repr(label))} cannot be written"):
        export.export(ready(["a", label]), tmp_path / "model.pt2")


def test_other_files_are_recognised(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no file"):
        export.described(tmp_path / "none.onnx")
    for suffix in export.FORMATS:
        path = tmp_path / f"broken{suffix}"
        path.write_bytes(b"\xff\x00 nothing of the kind")
        with pytest.raises(CheckpointError, match="damaged, or another kind"):
            export.described(path)
    with zipfile.ZipFile(tmp_path / "foreign.pt2", "w") as archive:
        archive.writestr("archive/data", "x")
    graph = onnx.helper.make_graph([], "none", [], [])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "foreign.onnx")
    for suffix in export.FORMATS:
        with pytest.raises(CheckpointError, match="not exported by evenkeel"):
            export.described(tmp_path / f"foreign{suffix}")
