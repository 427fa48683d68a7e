"""The kind of machine that a run names, by which times are compared."""

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import evenkeel as ek
from evenkeel.experiment import machine
from evenkeel.results.run_files import sessions_of

TWO_CORES = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
cpu MHz\t\t: 2596.096
cache size\t: 1024 KB

processor\t: 1
model name\t: another
"""


@pytest.fixture(autouse=True)
def _asked_again() -> Iterator[None]:
    machine._processor.cache_clear()
    yield
    machine._processor.cache_clear()


def test_it_names_the_processor_and_its_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processors = tmp_path / "cpuinfo"
    processors.write_text(TWO_CORES)
    monkeypatch.setattr(machine, "PROCESSORS", processors)
    cpu = "AMD EPYC, cpu family 26, model 2, cache size 1024 KB"
    assert machine.machine_kind(torch.device("cpu")) == cpu
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    assert machine.machine_kind(torch.device("cuda", 1)) == f"{cpu}, card 1"


@pytest.mark.parametrize("content", [None, "", "Serial : 0\n"])
def test_elsewhere_it_is_what_the_system_says(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors = tmp_path / "cpuinfo"
    if content is not None:
        processors.write_text(content)
    monkeypatch.setattr(machine, "PROCESSORS", processors)
    assert machine.machine_kind(torch.device("cpu")) == (platform.processor() or platform.machine()) != ""


def test_a_run_records_it(tmp_path: Path) -> None:
    list(ek.run({"extends": "digits", "limits": {"train": 3, "test": 2}, "device": "cpu"}, out=tmp_path))
    (session,) = sessions_of(tmp_path)
    assert session.machine == machine.machine_kind(torch.device("cpu"))
