"""Services of one's own models: a learner of a notebook, a network of one's own, an encoder in front."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import evenkeel as ek
from evenkeel.config.own import import_modules
from evenkeel.errors import SettingsError
from evenkeel.learning.probes import differences, snapshot
from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from tests.helpers.commands import call
from tests.helpers.own_parts import own_module
from tests.helpers.processes import wait_for
from tests.helpers.services import examples, learner_of, settle

__all__ = ["own_module"]

GIVEN = examples(24, own="e")
ASKED = examples(6, seed=5)


def arrays(part: Sequence[Example]) -> NDArray[np.float32]:
    return np.stack([np.frombuffer(each.x, dtype=np.float32) for each in part])


def texts(part: Sequence[Example]) -> list[str]:
    return [each.x.decode() for each in part]


def as_texts(part: Sequence[Example]) -> list[Example]:
    """Return examples with texts in place of vectors."""
    said = {"cat": "die Katze miaut {}", "dog": "le chien aboie {}"}
    return [
        Example(said[str(each.label)].format(place % 5).encode(), each.label, each.id)
        for place, each in enumerate(part)
    ]


def learn(learner: ek.Learner, part: Sequence[Example], of_texts: bool = False) -> None:
    x = texts(part) if of_texts else arrays(part)
    learner.learn(x, [each.label for each in part], key=[each.id for each in part])


def taught(net: ek.Net, given: Sequence[Example] = GIVEN, **parts: object) -> ek.Learner:
    """Return a learner that has learned the first eight examples, as in a notebook."""
    learner = ek.Learner(net, parts.pop("method", ek.ER()), memory=10, replay=4, **parts)  # type: ignore[arg-type]
    for first in (0, 4):
        learn(learner, given[first : first + 4], of_texts=given is not GIVEN)
    return learner


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    threads, services = torch.get_num_threads(), list[Service]()

    def serve(*settings: str, **how: object) -> Service:
        service = Service(tmp_path / "model", None, ["batches.size=4", *settings], **how)  # type: ignore[arg-type]
        services.append(service)
        service.start()
        return service

    yield serve
    for service in services:
        service.close()
    torch.set_num_threads(threads)


def way(name: str, module: str) -> tuple[ek.Learner, list[str]]:
    """Return a learner of a notebook, and what names its own parts."""
    import_modules([f"{module}:build"])
    own = sys.modules[module]
    build = [f"net.name={module}:build"]
    encoded = [f"net.name={module}:encoded"]
    ways: dict[str, Callable[[], tuple[ek.Learner, list[str]]]] = {
        "ours": lambda: (taught(ek.mlp(features=4, classes=2, hidden=(5,)), adaptor=ek.CBA(every=1)), []),
        "own net": lambda: (taught(own.build(classes=2, features=4)), build),
        "own method": lambda: (
            taught(ek.mlp(features=4, classes=2), method=own.Cautious(share=0.3)),
            [f"method.name={module}:Cautious", "method.share=0.3"],
        ),
        "encoder": lambda: (taught(own.encoded(classes=2, features=4), average=0.9), encoded),
        "texts": lambda: (taught(own.of_texts(classes=2), as_texts(GIVEN)), [f"net.name={module}:of_texts"]),
    }
    return ways[name]()


def changed(one: ek.Learner, other: ek.Learner) -> list[str]:
    """Return what differs but the names of parts, which a notebook does not know."""
    paths = differences(snapshot(one), snapshot(other))
    return [path for path in paths if not path.startswith(("/0/net", "/0/method"))]


ENCODED = """
def encoded(*, classes, features):
    torch.manual_seed(3)
    front = nn.Sequential(nn.Linear(features, 7), nn.BatchNorm1d(7), nn.ReLU())
    return ek.Net(nn.Linear(7, 5), nn.Linear(5, classes), encoder=front)
"""


@pytest.mark.parametrize("name", ["ours", "own net", "own method", "encoder", "texts"])
@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["here", "apart"])
def test_a_service_continues_a_learner_with_its_memory_and_survives(
    own_module: str, tmp_path: Path, served: Callable[..., Service], name: str, apart: bool
) -> None:
    file = tmp_path / f"{own_module}.py"
    file.write_text(file.read_text() + ENCODED)
    learner, settings = way(name, own_module)
    learner.save(tmp_path / "learner.ek")
    of_texts = name == "texts"
    given, asked = (as_texts(GIVEN), as_texts(ASKED)) if of_texts else (GIVEN, ASKED)
    x = texts(asked) if of_texts else arrays(asked)
    service = served(*settings, learner=tmp_path / "learner.ek", apart=apart)
    assert not changed(learner_of(service), learner)
    for first in (8, 12, 16):
        service.learn(given[first : first + 4]).result()
        settle(service)  # before the twin learns: in one process, both would draw from torch's global generator at once
        learn(learner, given[first : first + 4], of_texts)
    assert not changed(learner_of(service), learner)
    _, answers = service.predict([each.x for each in asked])
    assert [answer.label for answer in answers] == learner.predict(x).tolist()
    version = service.save().result().number
    assert service.forget("e9").result()
    service.close()
    again = served(*settings, apart=apart)
    if apart:  # killed, it comes back with all it acknowledged
        wait_for(lambda: again.supervisor is not None and again.supervisor.process)
        assert again.supervisor is not None
        os.kill(again.supervisor.process or 0, signal.SIGKILL)
    again.learn(given[20:]).result()
    settle(again)
    again.rollback(version).result()
    _, answers = again.predict([each.x for each in asked])
    assert [answer.label for answer in answers] == learner.predict(x).tolist()


def test_what_a_learner_names_is_imported_only_if_the_command_says_so(
    own_module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner, _ = way("own net", own_module)  # (it has been imported here)
    learner.save(tmp_path / "learner.ek")
    with pytest.raises(SettingsError, match=r"is your own Net, which .* Name what makes it: --net"):
        Service(tmp_path / "model", learner=tmp_path / "learner.ek")
    assert not (tmp_path / "model").exists()
    data = tmp_path / "data.jsonl"
    rows = [{"x": arrays([each])[0].tolist(), "label": each.label} for each in GIVEN]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--set", "input.features=4", "--net", f"{own_module}:build"]
    assert call(capsys, "learn", "model", str(data), *options)[0] == 0
    ek.NETS.pop(f"{own_module}:build")  # as in another process
    code, _, err = call(capsys, "predict", "model", str(data))
    assert (code, "not imported because a file names it" in err) == (1, True)
    known = ["--import", f"{own_module}:build"]
    code, out, err = call(capsys, "predict", "model", str(data), *known)
    assert (code, len(out.splitlines())) == (0, 24), err
    assert call(capsys, "evaluate", "model", str(data), *known)[0] == 0
    assert call(capsys, "export", "model", "-o", "model.pt2", *known)[0] == 0


def test_a_folder_that_holds_a_learner_takes_no_other(tmp_path: Path) -> None:
    taught(ek.mlp(features=4, classes=2)).save(tmp_path / "learner.ek")
    Service(tmp_path / "model", learner=tmp_path / "learner.ek").close()
    with pytest.raises(SettingsError, match="holds a learner already; --from starts a new folder"):
        Service(tmp_path / "model", learner=tmp_path / "learner.ek")


def test_a_learner_that_a_service_cannot_serve_is_refused(tmp_path: Path) -> None:
    ek.Learner(ek.mlp(features=4, classes=2), ek.ER()).save(tmp_path / "empty.ek")
    with pytest.raises(SettingsError, match="has learned nothing yet"):
        Service(tmp_path / "model", learner=tmp_path / "empty.ek")
    learner = ek.Learner(ek.mlp(features=4, classes=2), ek.ER())
    learner.learn(torch.zeros(2, 4), [("a", 1), ("b", 2)])
    learner.save(tmp_path / "tuples.ek")
    with pytest.raises(SettingsError, match="labels that a service cannot name"):
        Service(tmp_path / "model", learner=tmp_path / "tuples.ek")
    assert not (tmp_path / "model").exists()
