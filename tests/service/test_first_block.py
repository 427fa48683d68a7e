"""The first block of docs/service.md, pasted into a shell."""

import json
import re
import shutil
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


@pytest.mark.skipif(not shutil.which("bash") or not shutil.which("curl"), reason="needs bash and curl")
def test_the_section_can_be_pasted(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## Try it")[2].partition("\n## ")[0]
    block = re.findall(r"```\n(.*?)```", section, re.DOTALL)[0]
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    commands = block.replace("evenkeel serve", f"{sys.executable} -m evenkeel serve").replace("8000", str(port))
    script = re.sub(r"^curl .*$", r"\g<0> >> answers; echo >> answers", commands, flags=re.MULTILINE)
    done = subprocess.run(["bash", "-c", f"{script}\nwait"], cwd=tmp_path, capture_output=True, text=True, check=False)
    ready, taught, predicted, forgotten, again, status = [
        json.loads(line) for line in (tmp_path / "answers").read_text().splitlines() if line
    ]
    assert ready == again == {"status": "ready"}, done.stderr
    assert (taught["accepted"], taught["ids"]) == (2, ["a1", "a2"])
    assert {each["label"] for each in predicted["predictions"][0]["probabilities"]} == {"cat", "dog"}
    assert forgotten["memory"] == 1
    assert status["examples"]["learned"] == 2
    assert status["memory"]["samples"] == 1
