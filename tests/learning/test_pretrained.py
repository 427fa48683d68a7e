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


@pytest.mark.slow
def test_texts_become_vectors_in_one_line(tmp_path: Path, offline: Any) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "transfer", "money", "play", "music", "please"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    offline.BertModel(offline.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(tmp_path / "bert")
    offline.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    x = ek.TextEncoder(str(tmp_path / "bert"))(["transfer money please", "play music"] * 20)
    assert x.shape == (40, 8)
    assert torch.allclose(torch.from_numpy(x[1]), torch.from_numpy(x[39]), atol=1e-5)
    alone = ek.TextEncoder(str(tmp_path / "bert"), batch=1)(["play music"])  # padding does not count
    assert torch.allclose(torch.from_numpy(alone[0]), torch.from_numpy(x[1]), atol=1e-5)


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
