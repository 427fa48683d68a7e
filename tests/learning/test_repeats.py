"""Several updates for each incoming batch, with any method."""

from pathlib import Path

import pytest

import evenkeel as ek
from evenkeel.learning.probes import differences, snapshot
from tests.helpers.streams import ADAPTORS, METHODS, images, learn_all, learner, pairs

TRAINED = [(method, adaptor) for method, adaptor in pairs("none", "cba") if METHODS[method]().trains]


@pytest.mark.parametrize(("method", "adaptor"), TRAINED)
def test_every_method_can_be_repeated_and_resumed(method: str, adaptor: str, tmp_path: Path) -> None:
    stream = images(batches=4)
    straight = learner(METHODS[method](), ADAPTORS[adaptor](), repeats=3)
    # Nine updates end within the cycle of an adaptor that acts at every second.
    records = learn_all(straight, stream[:3])
    straight.save(tmp_path / "learner")
    again = ek.Learner.load(tmp_path / "learner")
    assert again.repeats == 3
    records += learn_all(straight, stream[3:])
    assert {record.updates for record in records} == {3}
    assert learn_all(again, stream[3:]) == records[3:]
    assert differences(snapshot(straight), snapshot(again)) == []


def test_one_repeat_is_the_default() -> None:
    one, other = learner(ek.ER()), learner(ek.ER(), repeats=1)
    assert learn_all(one, images()) == learn_all(other, images())


def test_repeats_are_counted_from_one() -> None:
    with pytest.raises(ek.SettingsError, match="repeats=0 must be a whole number of at least 1"):
        learner(ek.ER(), repeats=0)


def test_what_was_rar_says_how_it_is_written_now() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'RAR'\. .*Learner\(net, method, repeats=10\)"):
        ek.RAR  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ek.SettingsError, match=r"method.name = 'rar': .* learner.repeats = 10"):
        ek.load_config({"method": {"name": "rar"}})


@pytest.mark.parametrize("in_class", [True, False])
def test_a_method_that_sets_repeats_is_told_where_they_went(in_class: bool) -> None:
    class Mine(ek.ER):
        pass

    method = Mine()
    if in_class:
        Mine.repeats = 3  # type: ignore[attr-defined]
    else:
        method.repeats = 3  # type: ignore[assignment]
    with pytest.raises(ek.SettingsError, match=r"Mine sets `repeats`, .* Learner\(\.\.\., repeats=10\)"):
        learner(method)
