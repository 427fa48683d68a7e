"""Every accepted example is learned, waits, is set aside or withdrawn, whatever happens."""

import struct
from pathlib import Path
from typing import Any, Literal

import pytest

from evenkeel.service.examples import Example
from evenkeel.service.service import Service
from evenkeel.service.store import queries
from evenkeel.service.store.check import check
from evenkeel.service.store.counters import Counters
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.moments import Moments
from tests.helpers.processes import wait_for
from tests.helpers.services import Open, adds_up, examples, report, settle, teach

SETTINGS = ("batches.size=4", "batches.wait=3600", "checkpoints.seconds=3600")


def refused_examples() -> list[Example]:
    """Return a batch whose logits are not finite."""
    huge = struct.pack("4f", *[3e38] * 4)
    return [Example(huge, label, f"bad{place}") for place, label in enumerate(["cat", "dog"] * 2)]


def set_aside(service: Service) -> int:
    return sum(each.examples for each in service.list_aside().result())


def test_what_was_refused_and_is_forgotten_before_the_next_checkpoint_is_withdrawn(opened: Open) -> None:
    service = opened(*SETTINGS)
    teach(service, examples(4))
    service.learn(refused_examples()).result()
    wait_for(lambda: not service.waiting)
    service.forget_all(["bad0", "bad1"]).result()
    assert (report(service).refused, set_aside(service)) == (2, 2)
    assert service.counts().result()["withdrawn"] == 2
    assert adds_up(service)


def test_a_rollback_at_the_start_keeps_the_counts_as_one_over_http_does(opened: Open) -> None:
    service = opened(*SETTINGS)
    teach(service, examples(4))
    first = service.save().result().number
    teach(service, examples(4, seed=1))
    teach(service, refused_examples())
    before = report(service)
    service.close()
    again = opened(rollback=first)
    settle(again)
    assert (report(again).learned, report(again).refused) == (8, 4)
    assert report(again).counts == before.counts
    assert again.settle_aside("drop").result() == 4
    assert report(again).refused == 0
    assert adds_up(again)


def test_with_a_new_journal_nothing_is_set_aside_and_learning_continues(opened: Open) -> None:
    service = opened(*SETTINGS, "limits.queue=4")
    teach(service, examples(4))
    teach(service, refused_examples())
    assert "4 examples are set aside" in (service.problem or "")
    service.close()
    service.model_folder.journal.unlink()
    again = opened(new_journal=True)
    assert again.problem is None
    teach(again, examples(4, seed=1))
    assert (report(again).learned, report(again).refused) == (8, 0)
    assert adds_up(again)


@pytest.mark.parametrize("command", ["retry", "drop"])
def test_a_kill_while_something_set_aside_is_settled_leaves_nothing_unaccounted(
    opened: Open, tmp_path: Path, command: Literal["retry", "drop"]
) -> None:
    service = opened(*SETTINGS)
    teach(service, examples(4))
    teach(service, refused_examples())
    service.close()
    moments = Moments(tmp_path / "model", tmp_path / "copies")
    with pytest.MonkeyPatch.context() as patch:
        moments.watch(patch)
        again = opened()
        begun = len(moments.left)
        assert again.settle_aside(command).result() == 4
    assert len(moments.left) > begun
    for copy, _ in moments.left[begun:]:
        assert not list(check(ModelFolder(copy))), copy


def test_what_an_earlier_version_refused_and_did_not_keep_counts_as_withdrawn(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Counters.state

    def older_state(self: Counters) -> dict[str, Any]:
        return {**state(self), "refused": 3}

    service = opened(*SETTINGS)
    assert service.journal is not None
    service.journal.do(lambda db: queries.add(db, "accepted", 3))
    with monkeypatch.context() as patch:
        patch.setattr(Counters, "state", older_state)
        teach(service, examples(4))
        service.close()
    for _ in range(2):  # once, although the version is still the same
        again = opened(start=False)
        assert again.counts().result()["withdrawn"] == 3
        assert adds_up(again)
        again.close()


def test_what_was_set_aside_since_an_older_version_waits_until_it_is_replayed(opened: Open) -> None:
    service = opened(*SETTINGS)
    teach(service, examples(4))
    teach(service, refused_examples())
    service.close()
    newest = service.model_folder.versions()[-1]
    service.model_folder.version(newest).write_bytes(b"")
    again = opened(start=False)
    assert (report(again).refused, again.waiting) == (0, 4)
    assert adds_up(again)
    again.start()
    settle(again)
    assert (report(again).refused, set_aside(again)) == (4, 4)
    assert adds_up(again)
