"""Invalid checkpoints: each raises one sentence, and nothing in an untrusted file is ever executed."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import evenkeel as ek
from evenkeel.learning import checkpoint
from tests.helpers.streams import images, learn_all, learner


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    one = learner(ek.DERpp(), ek.CBA())
    learn_all(one, images()[:3])
    one.save(tmp_path / "learner")
    return tmp_path / "learner"


class Bomb:
    """An object whose unpickling creates a file, so that the test detects whether it was executed."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    """Flip one bit in the middle of the weights."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def text(path: Path) -> None:
    path.write_text("not a checkpoint")


def other_torch_file(path: Path) -> None:
    torch.save({"weights": torch.zeros(3)}, path)


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb(path.parent / "executed")))


def torch_pickled(path: Path) -> None:
    torch.save({"kind": checkpoint.KIND, "format": 1, "facts": "{}", "tensors": Bomb(path.parent / "executed")}, path)


def newer(path: Path) -> None:
    content = torch.load(path, weights_only=True)
    torch.save({**content, "format": checkpoint.FORMAT + 1}, path)


def missing(path: Path) -> None:
    path.unlink()


DAMAGES: dict[Callable[[Path], None], str] = {
    truncated: "truncated, damaged, or another kind of file",
    empty: "truncated, damaged, or another kind of file",
    flipped: "damaged",
    text: "truncated, damaged, or another kind of file",
    pickled: "truncated, damaged, or another kind of file",
    torch_pickled: "truncated, damaged, or another kind of file",
    other_torch_file: "not a checkpoint of an evenkeel learner",
    newer: "format 3, but this version of evenkeel reads formats 1 to 2. Upgrade evenkeel",
    missing: "There is no file",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_bad_file_raises_a_sentence(damage: Callable[[Path], None], saved: Path) -> None:
    ek.Learner.load(saved)
    damage(saved)
    with pytest.raises(ek.CheckpointError, match=DAMAGES[damage]) as caught:
        ek.Learner.load(saved)
    assert str(saved) in str(caught.value)
    assert not (saved.parent / "executed").exists()


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ek.CheckpointError, match=r"folder .* does not exist"):
        learner(ek.ER()).save(tmp_path / "nowhere" / "learner")


def test_a_checkpoint_can_be_read_with_torch_alone(saved: Path) -> None:
    content = torch.load(saved, weights_only=True)
    facts = json.loads(content["facts"])
    assert facts["method"] == {"name": "derpp", "alpha": 0.2, "beta": 0.5}
    assert facts["step"] == 3
    assert content["tensors"]["memory"]["seen"] == 18


def test_parts_that_do_not_match(saved: Path) -> None:
    with pytest.raises(ek.CheckpointError, match=r"does not match the parts given.*size mismatch"):
        ek.Learner.load(saved, net=ek.convnet(classes=4, width=8))
    with pytest.raises(ek.CheckpointError, match=r"has no parameter 'backbone.0.weight'"):
        ek.Learner.load(saved, net=ek.mlp(features=64, classes=4))


PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": ek.ER()}, "method is DERpp, but method= is ER"),
    "augment": ({"augment": ek.RandAugment()}, "augment is CropFlip, but augment= is RandAugment"),
    "adaptor": ({"adaptor": ek.CBA(hidden=(8, 8))}, "does not match the parts given"),
    "memory": ({"memory": ek.Memory(99)}, "has 99 slots, but that of the checkpoint has 10"),
}


@pytest.mark.parametrize("part", PARTS)
def test_other_parts_than_the_checkpoints_are_refused(part: str, saved: Path) -> None:
    given, message = PARTS[part]
    with pytest.raises(ek.CheckpointError, match=message):
        ek.Learner.load(saved, **given)


def test_a_file_of_our_kind_without_a_format(saved: Path) -> None:
    for change in ({"format": "1"}, {"kind": checkpoint.KIND}):
        torch.save(change, saved)
        with pytest.raises(ek.CheckpointError, match="not a checkpoint of an evenkeel learner"):
            ek.Learner.load(saved)


def test_every_damaged_byte_raises_a_checkpoint_error(saved: Path) -> None:
    """Flip bytes all over the file: it either loads unchanged or raises CheckpointError."""
    whole = saved.read_bytes()
    weights = ek.Learner.load(saved).net.state_dict()
    for place in range(0, len(whole), len(whole) // 150):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = ek.Learner.load(saved).net.state_dict()
        except ek.CheckpointError:
            continue
        assert all(torch.equal(loaded[name], value) for name, value in weights.items())


def _with_numpy(make: Callable[..., Any], **given: Any) -> Any:
    return make(**given)


NUMPY: dict[str, dict[str, Any]] = {
    "learning rate": {"optimizer": lambda p: torch.optim.SGD(p, lr=np.logspace(-3, -1, 3)[1])},
    "normalize, numpy": {"normalize": (np.array([0.5], np.float32), np.array([0.2], np.float32))},
    "normalize, torch": {"normalize": (torch.tensor([0.5]), torch.tensor([0.2]))},
    "normalize, one number": {"normalize": (0.5, 0.2)},
    "seed and replay": {"seed": np.int64(3), "replay": np.int32(4)},
    "adaptor": {"adaptor": _with_numpy(ek.CBA, lr=np.float32(1e-3), hidden=np.array([16]), every=np.int64(2))},
    "method": {"method": _with_numpy(ek.DERpp, alpha=np.float32(0.2))},
    "memory": {"memory": np.int64(7)},
}


@pytest.mark.parametrize("given", NUMPY)
def test_numbers_of_numpy_survive_a_save(given: str, tmp_path: Path) -> None:
    parts: dict[str, Any] = {"method": ek.ER(), **NUMPY[given]}
    one = ek.Learner(ek.convnet(classes=4, width=4), **parts)
    learn_all(one, images()[:3])
    one.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner")
    assert learn_all(one, images()[3:]) == learn_all(again, images()[3:])
    assert len(again.memory) > 0


def test_an_unreadable_file_does_not_replace_a_readable_one(saved: Path) -> None:
    one = ek.Learner.load(saved)
    one.optimizer.param_groups[0]["own"] = Bomb(saved.parent / "executed")
    with pytest.raises(Exception, match="Weights only load failed"):
        one.save(saved)
    assert ek.Learner.load(saved).step == 3
    assert os.listdir(saved.parent) == ["learner"]


def test_others_may_read_the_file_as_the_umask_says(saved: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert saved.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ek.CheckpointError, match="it is a folder"):
        learner(ek.ER()).save(tmp_path)


def test_a_method_of_ones_own_must_be_passed(tmp_path: Path) -> None:
    class Mine(ek.ER):
        pass

    learner(Mine()).save(tmp_path / "learner")
    with pytest.raises(ek.CheckpointError, match=r"your own class Mine.*Pass method="):
        ek.Learner.load(tmp_path / "learner")
    assert isinstance(ek.Learner.load(tmp_path / "learner", method=Mine()).method, Mine)


def test_an_augmentation_of_ones_own_must_be_passed(tmp_path: Path) -> None:
    own = ek.PerSample(lambda image: image.flip(-1))
    one = ek.Learner(ek.convnet(classes=4), ek.ER(), augment=own)
    one.save(tmp_path / "learner")
    with pytest.raises(ek.CheckpointError, match="Pass augment="):
        ek.Learner.load(tmp_path / "learner")
    assert ek.Learner.load(tmp_path / "learner", augment=own).augment is own


def test_labels_that_json_cannot_hold(tmp_path: Path) -> None:
    first, second = frozenset({"a"}), frozenset({"b"})
    one = learner(ek.ER())
    one.learn(images()[0][0][:2], [first, second])
    one.save(tmp_path / "learner")
    with pytest.raises(ek.CheckpointError, match="Pass labels="):
        ek.Learner.load(tmp_path / "learner")
    assert ek.Learner.load(tmp_path / "learner", labels=[first, second]).classes == [first, second]


def test_saving_twice_gives_the_same_content_and_no_other_files(saved: Path) -> None:
    one = ek.Learner.load(saved)
    one.save(saved)
    one.save(saved)
    assert os.listdir(saved.parent) == ["learner"]
