"""The blocks of a page, run as a reader would: each in a process of its own, in which nothing is defined before it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.processes import run_python

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(?P<language>python|sh)\n(?P<code>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"\d+\.\d+")


class Block(NamedTuple):
    language: str
    code: str
    output: str | None  # shown right below it, if it is


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page in these languages, python or sh."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(*block.groups()) for block in BLOCK.finditer(text) if block["language"] in languages]


def run_block(block: Block, folder: Path, *, fresh: bool = False) -> None:
    """Run a block in a folder and compare what it prints with the output shown.

    Python runs in a process that has imported torch and evenkeel before, unless it is to be a `fresh` interpreter.
    """
    if block.language == "python" and not fresh:
        log = folder.with_name(f"{folder.name}.log")
        log.unlink(missing_ok=True)
        code, printed = run_python(block.code, folder, log), log.read_text()
        assert code == 0, printed
    else:
        command = [sys.executable, "-c"] if block.language == "python" else ["bash", "-ec"]
        done = subprocess.run(
            [*command, block.code], cwd=folder, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    if block.output is not None:
        # Another processor may round otherwise, which can change a prediction.
        assert NUMBER.sub("*", printed) == NUMBER.sub("*", block.output)
        assert _numbers(printed) == pytest.approx(_numbers(block.output), abs=5)


def run_command(command: str, folder: Path) -> None:
    """Run a command of evenkeel in a folder, by a process that has imported torch and evenkeel before."""
    log = folder.with_name(f"{folder.name}.log")
    code = f"import sys\nfrom evenkeel.cli import main\nsys.argv = {shlex.split(command)!r}\nmain()"
    assert run_python(code, folder, log) == 0, log.read_text()


def environment() -> dict[str, str]:
    """Return the environment of an activated .venv."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def _numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]
