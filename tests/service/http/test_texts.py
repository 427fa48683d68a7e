"""A service of texts: JSON in, an encoder of one's own in front, late labels, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.learning.texts import TEXT_BYTES
from tests.helpers.own_parts import own_module
from tests.helpers.serving import Hosted

__all__ = ["own_module"]

SAID = {"bank": "pay my bill", "music": "play ♫ a song"}


@pytest.fixture
def server(own_module: str, tmp_path: Path) -> Iterator[Hosted]:
    net = f'net={{name="mlp", hidden=[8], encoder={{name="{own_module}:words"}}}}'
    with Hosted(
        tmp_path / "model", ["input.text=true", net, "batches.size=2", "optimizer.lr=0.5", "memory.capacity=20"]
    ) as one:
        yield one


def test_texts_are_taught_predicted_labelled_and_forgotten(server: Hosted) -> None:
    examples = [
        {"text": text, "label": label, "id": f"{label}{place}"} for place in range(8) for label, text in SAID.items()
    ]
    assert server.post("/v1/learn", {"examples": examples})["accepted"] == 16
    assert server.post("/v1/learn", {"examples": examples})["repeated"] == 16
    assert server.settled()["input"] == {"kind": "text"}
    body = {"examples": [{"text": text} for text in SAID.values()], "top": 2}
    answers = server.post("/v1/predict", body)["predictions"]
    assert [answer["label"] for answer in answers] == list(SAID)
    assert server.post("/v1/label", {"id": answers[0]["id"], "label": "bank"})["accepted"] == 1
    status = server.settled()
    assert status["accuracy"]["answered"]["right"] == 1
    assert status["memory"]["samples"] == 17
    assert server.post("/v1/forget", {"ids": ["bank0", answers[0]["id"]]})["unknown"] == []
    assert server.settled()["memory"]["samples"] == 15
    assert server.post("/v1/predict", {"text": "a" * 3 * TEXT_BYTES})["predictions"]  # the rest is not read


WRONG: dict[str, tuple[Any, int]] = {
    "empty": ({"text": "", "label": "bank"}, 422),
    "blank": ({"text": " \n", "label": "bank"}, 422),
    "a number": ({"text": 3, "label": "bank"}, 422),
    "a list": ({"text": ["a"], "label": "bank"}, 422),
    "a vector": ({"x": [1.0, 2.0], "label": "bank"}, 422),
    "no label": ({"text": "pay"}, 422),
    "half a letter": (b'{"text": "\\ud800", "label": "bank"}', 422),
}


def test_what_is_no_text_is_refused_and_nothing_is_taught(server: Hosted) -> None:
    for name, (body, status) in WRONG.items():
        sent: Any = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = server.client.post("/v1/learn", headers={"content-type": "application/json"}, **sent)
        assert answer.status_code == status, (name, answer.text)
    form = server.client.post("/v1/learn", files={"text": b"pay"}, data={"label": "bank"})
    assert (form.status_code, form.json()["error"]) == (415, "Texts are sent as application/json.")
    assert server.get("/v1/status")["examples"]["accepted"] == 0
    described = server.get("/openapi.json")["paths"]["/v1/learn"]["post"]["requestBody"]["content"]
    assert list(described) == ["application/json"]
