"""Runs killed by real signals at any moment: no record is lost or repeated."""

import json
import multiprocessing
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from evenkeel.results.run_files import RECORDS
from tests.helpers.grids import same_runs

COMMAND = ["run", "digits-cba", "--set", "method.name=derpp", "--set", "limits.train=50", "--save-every", "0.1"]


def command_line(folder: str) -> None:
    """Do what the installed command does, in a process that has already imported everything."""
    from evenkeel.cli import main

    sys.argv = ["evenkeel", *COMMAND, "--out", folder]
    main()


def undisturbed(folder: Path) -> Path:
    done = subprocess.run(
        [Path(sys.executable).parent / "evenkeel", *COMMAND, "--out", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_run_survives_twenty_kills_at_random_moments(tmp_path: Path) -> None:
    whole, folder = undisturbed(tmp_path / "whole"), tmp_path / "killed"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["evenkeel.cli", "sklearn.datasets", "sklearn.model_selection"])
    chance = random.Random(0)
    kills, moments = 0, set[int]()
    while kills < 20 or not finished(folder):
        process = context.Process(target=command_line, args=(str(folder),))
        begin = size(folder)
        process.start()
        if kills < 20:
            # Mostly while it learns and writes, sometimes while it still reads data or the last checkpoint.
            early = chance.random() < 0.2
            while not early and process.is_alive() and size(folder) == begin:
                time.sleep(0.005)
            process.join(chance.uniform(0, 0.3))
            process.kill()
        process.join()
        if process.exitcode == 0:  # it finished; another run has to take the remaining kills
            folder = tmp_path / f"killed {kills}" if kills < 20 else folder
            continue
        assert process.exitcode == -signal.SIGKILL
        kills += 1
        moments.add(size(folder))
    runs = list(tmp_path.glob("killed*"))
    for each in runs:
        same_runs(each, whole)
    assert runs
    assert len(moments) > 5  # the kills did come at different moments


def test_the_command_resumes_after_each_signal(tmp_path: Path) -> None:
    whole, folder = undisturbed(tmp_path / "whole"), tmp_path / "stopped"
    command = [str(Path(sys.executable).parent / "evenkeel"), *COMMAND, "--out", str(folder)]
    for place, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), 1):
        code, errors = stopped(command, number, folder, 12 * place)
        assert code in (-number, 130, 143)
        if number == signal.SIGINT:
            assert "Repeat the command to resume" in errors
            assert "Traceback" not in errors
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DER++ + CBA" in done.stdout
    same_runs(folder, whole)
    sessions = [json.loads(line) for line in (folder / "usage.jsonl").read_text().splitlines()]
    assert len({session["started"] for session in sessions}) >= 2
    assert sessions[-1]["command"].startswith("evenkeel run digits-cba")


def stopped(command: list[str], number: int, folder: Path, after: int) -> tuple[int, str]:
    """Send a signal to a run after so many steps; return its exit code and what it wrote to stderr."""
    for _ in range(10):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals)  # noqa: PLW1509
        while process.poll() is None and steps(folder) < after:
            time.sleep(0.005)
        process.send_signal(number)
        _, errors = process.communicate()
        if process.returncode != 0:
            return process.returncode, errors
        shutil.rmtree(folder)  # on a busy machine it may end before the signal comes: start it over
    raise AssertionError(f"It ended before the signal {number}, ten times.")


def hear_signals() -> None:
    """Undo what a shell does to a job in the background, whose children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def text(folder: Path) -> bytes:
    path = folder / RECORDS
    return path.read_bytes() if path.exists() else b""


def size(folder: Path) -> int:
    return len(text(folder))


def steps(folder: Path) -> int:
    return text(folder).count(b'"kind":"step"')


def finished(folder: Path) -> bool:
    return b'"kind":"end"' in text(folder)
