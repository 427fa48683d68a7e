"""Models of Hugging Face and timm, as networks and as encoders, with random weights in a folder."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import evenkeel as ek
from evenkeel.errors import SettingsError
from evenkeel.experiment.run_folder import MODEL
from evenkeel.learning.encoder import Encoder

SMALL: dict[str, Any] = {
    "scenario": {"name": "disjoint", "tasks": 2},
    "limits": {"train": 3, "test": 3},
    "evaluation": {"every": 0, "alignment": 0},
    "memory": {"capacity": 8},
    "threads": 1,
}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("transformers")


@pytest.fixture
def vision(tmp_path: Path, offline: Any) -> str:
    """A folder with a small model for images, with weights."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = offline.ViTConfig(**sizes, image_size=8, patch_size=4, num_channels=1)
    torch.manual_seed(0)
    offline.ViTModel(config).save_pretrained(tmp_path / "vit")
    return str(tmp_path / "vit")


WAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "trained": lambda model: {"name": "huggingface", "model": model},
    "frozen": lambda model: {"name": "huggingface", "model": model, "frozen": True},
    "random": lambda model: {"name": "huggingface", "model": model, "pretrained": False},
    "encoder": lambda model: {"name": "mlp", "hidden": [4], "encoder": {"name": "huggingface", "model": model}},
}


@pytest.mark.slow  # it imports transformers
@pytest.mark.parametrize("way", WAYS)
def test_a_model_of_hugging_face_is_a_net_or_an_encoder(vision: str, tmp_path: Path, way: str) -> None:
    config = ek.load_config({**SMALL, "net": WAYS[way](vision)})
    *whole, last = ek.run(config, out=tmp_path / "whole")
    for record in ek.run(config, out=tmp_path / "cut", save_every=0):
        if isinstance(record, ek.Stepped):
            break
    assert [*ek.run(config, out=tmp_path / "cut")] == [*whole, last]
    learner = ek.Learner.load(tmp_path / "cut" / MODEL)
    assert (learner.net.encoder is None) == (way in ("trained", "random"))
    assert learner.memory.column("x").shape[1:] == ((8,) if way in ("frozen", "encoder") else (1, 8, 8))


@pytest.fixture
def bert(tmp_path: Path, offline: Any) -> str:
    """A folder with a small model for texts and its tokenizer, with weights."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "transfer", "money", "play", "music", "please"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    offline.BertModel(offline.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(tmp_path / "bert")
    offline.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    return str(tmp_path / "bert")


@pytest.mark.slow
def test_texts_become_vectors_in_one_line(bert: str) -> None:
    x = ek.TextEncoder(bert)(["transfer money please", "play music"] * 20)
    assert x.shape == (40, 8)
    assert torch.allclose(x[1], x[39], atol=1e-5)
    alone = ek.TextEncoder(bert)(["play music"])  # padding does not count
    assert torch.allclose(alone[0], x[1], atol=1e-5)


@pytest.mark.slow
def test_a_run_on_texts_names_its_encoder_and_resumes(bert: str, tmp_path: Path) -> None:
    rows = [("play music", "music"), ("please play", "music"), ("transfer money", "bank"), ("money please", "bank")] * 5
    (tmp_path / "intents.csv").write_text("text,intent\n" + "".join(f"{text},{label}\n" for text, label in rows))
    net = {"name": "mlp", "hidden": [4], "encoder": {"name": "text", "model": bert}}
    config = ek.load_config({**SMALL, "net": net, "data": {"name": "csv", "path": str(tmp_path / "intents.csv")}})
    *whole, last = ek.run(config, out=tmp_path / "whole")
    for record in ek.run(config, out=tmp_path / "cut", save_every=0):
        if isinstance(record, ek.Stepped):
            break
    assert [*ek.run(config, out=tmp_path / "cut")] == [*whole, last]
    learner = ek.Learner.load(tmp_path / "cut" / MODEL)
    assert learner.memory.column("x").shape[1:] == (8,)
    stored = ek.TextEncoder(bert)(["play music", "money please"])
    assert learner.logits(["play music", "money please"]).equal(learner.logits_of_stored(stored))


@pytest.mark.slow
def test_the_digest_of_a_text_encoder_covers_words_and_length(bert: str, tmp_path: Path) -> None:
    before = {Encoder(ek.TextEncoder(bert, length=length)).digest for length in (4, 8, 8)}
    assert len(before) == 2
    file = tmp_path / "bert" / "tokenizer.json"
    file.write_text(file.read_text().replace("music", "songs"))
    assert Encoder(ek.TextEncoder(bert, length=8)).digest not in before


@pytest.mark.slow
def test_a_model_that_is_not_there_is_named(offline: Any) -> None:
    assert offline
    with pytest.raises(SettingsError, match="'nobody/nothing' of Hugging Face cannot be loaded"):
        ek.run({**SMALL, "net": {"name": "huggingface", "model": "nobody/nothing"}})


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, name in (("transformers", "huggingface"), ("timm", "timm")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(SettingsError, match=f"needs the package {package}"):
            ek.run({**SMALL, "net": {"name": name, "model": "resnet18"}})


@pytest.mark.slow
def test_a_model_of_timm_is_a_net_or_an_encoder() -> None:
    try:
        import_module("timm")
    except Exception:
        pytest.skip("timm cannot be imported")
    model = {"name": "timm", "model": "resnet10t", "pretrained": False}
    for net in (model, {"name": "mlp", "hidden": [4], "encoder": model}):
        *_, last = ek.run({**SMALL, "net": net, "limits": {"train": 2, "test": 2}})
        assert isinstance(last, ek.Ended)
