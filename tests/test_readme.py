"""The README's Python, run as it stands, block after block in one session."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import evenkeel as ek
from tests.streams import images


class Whole(nn.Sequential):
    """A model as people have them: its last linear layer is called `fc`."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8))
        self.fc = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.fc(self.body(x))
        return logits


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {
        "stream": images(batches=4, classes=4),
        "backbone": nn.Flatten(),
        "head": nn.Linear(64, 10),
        "model": Whole(),
    }
    for block in blocks:
        exec(block, session)
    assert len(capsys.readouterr().out.splitlines()) == 4  # a prediction for each batch
    assert isinstance(session["learner"], ek.Learner)
    assert session["learner"].step == 4
    assert (tmp_path / "model.ek").is_file()
