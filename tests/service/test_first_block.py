"""The first block of docs/service.md: its commands one by one, and pasted into a shell."""

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.helpers.processes import send, start, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
SIGNALS = {"kill -9 $!": signal.SIGKILL, "kill $!": signal.SIGTERM}
pytestmark = pytest.mark.skipif(not shutil.which("bash") or not shutil.which("curl"), reason="needs bash and curl")


def block() -> str:
    """Return the commands, with a port that is free."""
    section = PAGE.read_text().partition("## Try it")[2].partition("\n## ")[0]
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    commands: str = re.findall(r"```\n(.*?)```", section, re.DOTALL)[0]
    return commands.replace("8000", str(port))


def test_each_command_does_what_the_page_says(tmp_path: Path) -> None:
    """Services come from a process that has torch, and are asked again at once, not after a second."""
    answers, services = list[str](), list[BaseProcess]()
    try:
        for command in block().splitlines():
            if command in SIGNALS:
                send(services[-1], SIGNALS[command])
                services[-1].join()
            elif command.startswith("curl "):
                wait_for(partial(answered, command, answers))
            else:
                _, verb, model, *options, last = shlex.split(command)
                assert (verb, model, last) == ("serve", "model", "&")
                services.append(start([verb, str(tmp_path / model), *options], tmp_path / "log"))
        require(answers)
    finally:
        for service in services:
            service.kill()


def answered(command: str, answers: list[str]) -> bool:
    """Call curl once; if it succeeds, add what it prints to the answers."""
    once = re.sub(r"--retry\S* (\d+ )?", "", command)
    done = subprocess.run(["bash", "-c", once], capture_output=True, text=True, check=False)
    answers += [done.stdout] if done.returncode == 0 else []
    return done.returncode == 0


@pytest.mark.slow
def test_the_section_can_be_pasted(tmp_path: Path) -> None:
    commands = block().replace("evenkeel serve", f"{sys.executable} -m evenkeel serve")
    script = re.sub(r"^curl .*$", r"\g<0> >> answers; echo >> answers", commands, flags=re.MULTILINE)
    done = subprocess.run(["bash", "-c", f"{script}\nwait"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (tmp_path / "answers").exists(), done.stderr
    require([line for line in (tmp_path / "answers").read_text().splitlines() if line])


def require(answers: list[str]) -> None:
    """Compare the answers with what the page says."""
    ready, taught, predicted, forgotten, again, status = map(json.loads, answers)
    assert ready == again == {"status": "ready"}
    assert (taught["accepted"], taught["ids"]) == (2, ["a1", "a2"])
    assert {each["label"] for each in predicted["predictions"][0]["probabilities"]} == {"cat", "dog"}
    assert forgotten["memory"] == 1
    assert status["examples"]["learned"] == 2
    assert status["memory"]["samples"] == 1
