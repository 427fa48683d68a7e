"""Quickstart and tutorials, followed word by word: the blocks of a page in order, in one folder."""

import re
import shutil
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.pages import ROOT, Block, blocks, environment, run_block

PAGES = ("docs/quickstart.md", "docs/tutorials/own-data.md", "docs/tutorials/own-method.md")
ENCODER = "docs/tutorials/encoder.md"  # it starts a server
TEXTS = "docs/tutorials/texts.md"  # so does it
PRODUCTION = "docs/tutorials/production.md"


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_as_pasted(page: str, tmp_path: Path) -> None:
    follow(blocks(page, "python"), tmp_path)


@pytest.mark.slow  # each command is tested elsewhere
@pytest.mark.parametrize("page", [*PAGES, ENCODER])
def test_a_whole_page_runs_as_pasted(page: str, tmp_path: Path) -> None:
    follow([block for block in blocks(page, "python", "sh") if not block.code.startswith("pip install")], tmp_path)


@pytest.mark.slow  # it imports transformers
def test_the_page_of_texts_runs_as_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    follow(blocks(TEXTS, "python", "sh"), tmp_path)


def follow(steps: list[Block], folder: Path) -> None:
    assert steps
    for block in steps:
        file = re.match(r"# (\w+\.py)\n", block.code)  # a block that begins with a name is to be saved as that file
        if file:
            (folder / file[1]).write_text(block.code)
        run_block(block, folder)


@pytest.mark.slow  # similar to tests/service/test_first_block.py
@pytest.mark.skipif(not shutil.which("bash") or not shutil.which("curl"), reason="needs bash and curl")
def test_production_runs_as_pasted(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    script = "".join(block.code for block in blocks(PRODUCTION, "sh")).replace("8000", str(port))
    done = subprocess.run(
        ["bash", "-c", f"{script}\nwait"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    shown = re.findall(r"```json\n(.*?)```", (ROOT / PRODUCTION).read_text(encoding="utf-8"), re.DOTALL)
    assert len(shown) == 5
    assert _without_chance("".join(shown)) == _without_chance(done.stdout), done.stderr


def _without_chance(text: str) -> str:
    """Return a text without ids, probabilities and the line with which a service starts."""
    text = re.sub(r"^Evenkeel on .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r'"[0-9a-f]{32}"', '"id"', re.sub(r'(?<="probability":)[-\d.e]+', "*", text))
