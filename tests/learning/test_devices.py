"""Devices by name, and what is said if one is not there or has no memory left. `test_simulated` computes on one."""

from functools import partial
from pathlib import Path

import pytest
import torch

import evenkeel as ek
from evenkeel.errors import DeviceError, SettingsError
from evenkeel.learning.devices import ACCELERATORS, computing, find_device, require_name
from tests.helpers.commands import call
from tests.helpers.experiments import DATA, config


def with_devices(monkeypatch: pytest.MonkeyPatch, **counts: int) -> None:
    for kind in ("cuda", "mps"):
        monkeypatch.setitem(ACCELERATORS, kind, partial(counts.get, kind, 0))


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cpu:1", "auto:0", "", None])
def test_a_name_of_no_device_is_refused(name: object) -> None:
    with pytest.raises(SettingsError, match=r"is not one of 'auto', 'cpu', 'cuda', 'mps'.* or 'cuda:1', say"):
        require_name(name)


@pytest.mark.parametrize(
    ("counts", "name", "expected"),
    [
        ({}, "auto", "cpu"),
        ({"cuda": 2}, "auto", "cuda:0"),
        ({"mps": 1}, "auto", "mps:0"),
        ({"cuda": 2}, "cpu", "cpu"),
        ({"cuda": 2}, "cuda:1", "cuda:1"),
        ({"cuda": 2}, torch.device("cuda"), "cuda:0"),
    ],
)
def test_auto_takes_an_accelerator_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], name: str | torch.device, expected: str
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # for the test to leave nothing behind
    with_devices(monkeypatch, **counts)
    assert str(find_device(name)) == expected


@pytest.mark.parametrize(
    ("counts", "name", "there"),
    [
        ({}, "cuda", "none that this torch can use"),
        ({"cuda": 1}, "cuda:1", "only 1 of them"),
        ({"cuda": 8}, "mps", "no"),
    ],
)
def test_a_device_that_is_not_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], name: str, there: str
) -> None:
    with_devices(monkeypatch, **counts)
    with pytest.raises(DeviceError, match=rf"device='{name}' is not available: this machine has {there}.* or 'cpu'\."):
        ek.Learner(ek.mlp(features=4, classes=2), ek.ER(), device=name)


def test_a_command_says_it_in_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, errors = call(capsys, "run", "digits", "--device", "cuda:9", "--out", str(tmp_path / "run"))
    assert (code, (tmp_path / "run").exists()) == (1, False)
    assert "device='cuda:9' is not available" in errors.replace("\n", " ")


def test_exhausted_memory_is_a_sentence_that_says_what_to_do() -> None:
    modes = [torch.are_deterministic_algorithms_enabled()]

    def exhaust() -> None:
        with computing(torch.device("cuda:0")):
            modes.append(torch.are_deterministic_algorithms_enabled())
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with pytest.raises(DeviceError, match=r"memory of 'cuda:0' is exhausted.*batches.*device='cpu'"):
        exhaust()
    assert [*modes, torch.are_deterministic_algorithms_enabled()] == [False, True, False]


def test_a_run_is_resumed_on_another_device(tmp_path: Path) -> None:
    """Its records say where it began."""
    whole = list(ek.run(config("device=cpu"), data=DATA))
    for place, _ in enumerate(ek.run(config(), data=DATA, out=tmp_path, save_every=0)):
        if place == 8:
            break
    elsewhere = config("device=cpu", "memory.device=cpu")
    assert list(ek.run(elsewhere, data=DATA, out=tmp_path))[1:] == whole[1:]
    for run, memory in ((whole, "auto"), (list(ek.run(elsewhere, data=DATA)), "cpu")):
        started = run[0]
        assert isinstance(started, ek.Started)
        assert (started.device, started.memory_device) == ("cpu", memory)
        assert "device" not in started.config  # it is what was chosen, not what there was
        assert "device" not in started.config["memory"]
