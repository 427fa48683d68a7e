"""Texts behind an encoder of texts: a learner equals one that is given the encoder's outputs."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import evenkeel as ek
from evenkeel.errors import CheckpointError, InputError, SettingsError
from evenkeel.learning import export
from evenkeel.learning.probes import differences, snapshot
from evenkeel.learning.texts import TEXT_BYTES, packed, unpacked

TEXTS = ["play a song", "ü ö", "pay my bill", "another song please", "💳", "transfer it"]
LABELS = ["music", "bank"] * 3


class Words(ek.TextModule):
    """The mean of random vectors of words; its weights make it slow enough to count how often it runs."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weights, self.read = nn.Embedding(32, width), 0

    def forward(self, texts: list[str]) -> Tensor:
        self.read += len(texts)
        rows = [torch.tensor([zlib.crc32(word.encode()) % 32 for word in text.split()] or [0]) for text in texts]
        return torch.stack([self.weights(row).mean(dim=0) for row in rows])


def net(front: nn.Module | None = None, *, frozen: bool = False) -> ek.Net:
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(5, 6), nn.ReLU())
    return ek.Net(body, nn.Linear(6, 2), encoder=front, frozen=frozen)


def learner(front: nn.Module | None, **how: Any) -> ek.Learner:
    return ek.Learner(net(front), ek.DERpp(), adaptor=ek.CBA(every=1), memory=4, replay=3, **how)


def test_a_learner_of_texts_equals_one_of_vectors_and_reads_each_once() -> None:
    words = Words()
    one, other = learner(words), learner(None)
    for place in range(5):
        texts, labels = TEXTS[place % 2 :: 2], LABELS[place % 2 :: 2]
        words.read = 0
        assert one.learn(texts, labels) == other.learn(words(texts), labels)
        assert words.read == 2 * len(texts) + (3 if place == 0 else 0)  # ours, the twin's, and the first check
    assert one.memory.column("x").equal(other.memory.column("x"))
    assert one.logits(TEXTS).equal(other.logits(words(TEXTS)))


def test_all_ways_to_give_texts_are_the_same() -> None:
    one = learner(Words())
    one.learn(TEXTS, LABELS)
    expected = one.logits(TEXTS)
    for x in (np.array(TEXTS), np.array(TEXTS, dtype=object), tuple(TEXTS), packed(TEXTS), torch.tensor(packed(TEXTS))):
        assert one.logits(x).equal(expected)
    assert one.predict(TEXTS).shape == (6,)


def test_bytes_are_texts_again_and_long_ones_are_cut() -> None:
    assert unpacked(packed(TEXTS)) == TEXTS
    assert unpacked(torch.from_numpy(packed(TEXTS))) == TEXTS
    (text,) = unpacked(packed(["é" * TEXT_BYTES]))
    assert text == "é" * (TEXT_BYTES // 2)
    (text,) = unpacked(packed(["a" + "é" * TEXT_BYTES]))  # half a letter is left out
    assert text == "a" + "é" * (TEXT_BYTES // 2 - 1)


WRONG: dict[str, Any] = {
    "numbers": torch.zeros(2, 5),
    "an image": torch.zeros(2, 1, 8, 8, dtype=torch.uint8),
    "one text": "play a song",
    "mixed": ["play", 3],
}


@pytest.mark.parametrize("x", WRONG.values(), ids=WRONG)
def test_what_is_no_list_of_texts_is_refused(x: Any) -> None:
    with pytest.raises(InputError, match=r"takes texts\. Give a list of them, not"):
        learner(Words()).learn(x, ["music", "bank"])


@pytest.mark.parametrize("nothing", [[], (), np.array([], dtype=str)], ids=["list", "tuple", "array"])
def test_no_texts_have_no_predictions_and_are_an_empty_batch(nothing: Any) -> None:
    one = learner(Words())
    with pytest.raises(InputError, match="The batch is empty"):
        one.learn(nothing, [])
    one.learn(TEXTS, LABELS)
    assert one.predict(nothing).shape == (0,)
    assert one.predict_proba(nothing).shape == (0, len(one.classes))


def test_a_learner_without_an_encoder_says_that_texts_need_one() -> None:
    with pytest.raises(InputError, match=r"Texts need an encoder .* encoder=ek.TextEncoder"):
        learner(None).learn(TEXTS, LABELS)
    with pytest.raises(SettingsError, match="normalize is for numbers"):
        learner(Words(), normalize=([0.5], [0.5]))


def test_a_learner_of_texts_resumes_exactly_with_the_same_encoder(tmp_path: Path) -> None:
    one = learner(Words())
    one.learn(TEXTS, LABELS)
    one.save(tmp_path / "one.ek")
    other = ek.Learner.load(tmp_path / "one.ek", net=net(Words()))
    assert one.learn(["short"], ["bank"]) == other.learn(["short"], ["bank"])
    assert not differences(snapshot(one), snapshot(other))
    changed = Words()
    changed.weights = nn.Embedding(32, 5)
    with pytest.raises(CheckpointError, match="encoder"):
        ek.Learner.load(tmp_path / "one.ek", net=net(changed))


def test_a_frozen_backbone_behind_texts_is_part_of_the_encoder() -> None:
    one = ek.Learner(net(Words(), frozen=True), ek.ER(), memory=4)
    one.learn(TEXTS, LABELS)
    assert one.memory.column("x").shape == (4, 6)


def test_a_run_takes_a_stream_of_texts() -> None:
    batches = [(TEXTS, LABELS), (TEXTS[::-1], LABELS[::-1])]
    config = {"method": {"name": "er"}, "memory": {"capacity": 4}}
    records = [*ek.run(config, net=net(Words()), stream=batches, test=(TEXTS, LABELS))]
    last = [record for record in records if isinstance(record, ek.Tested)][-1]
    assert (len(last.accuracy), last.step) == (1, 2)
    one = learner(Words())
    one.learn(TEXTS, LABELS)
    assert 0 <= ek.accuracy(one, (TEXTS, LABELS)) <= 100


def test_an_exported_file_takes_what_the_encoder_returns(tmp_path: Path) -> None:
    one = learner(Words())
    one.learn(TEXTS, LABELS)
    export.export(one.snapshot(), tmp_path / "one.pt2")
    assert export.described(tmp_path / "one.pt2")["input"] == {"shape": [5], "dtype": "float32"}
    program = torch.export.load(tmp_path / "one.pt2").module()
    out = program(Words()(TEXTS).detach())
    assert np.allclose(out["probabilities"].numpy(), one.predict_proba(TEXTS), atol=1e-6)
