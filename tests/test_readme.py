"""The README's Python, run as it is, block after block in one session."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import evenkeel as ek
from evenkeel.grids.grid_file import read_grid
from tests.helpers.streams import images


class Whole(nn.Sequential):
    """A typical model, whose last linear layer is called `fc`."""

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
    assert len(blocks) == 6
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {
        "stream": images(batches=4, classes=4),
        "x_test": torch.cat([x for x, _ in images(batches=4, classes=4)]),
        "y_test": [label for _, labels in images(batches=4, classes=4) for label in labels],
        "backbone": nn.Flatten(),
        "head": nn.Linear(64, 10),
        "model": Whole(),
    }
    for block in blocks:
        exec(block, session)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4 + 6 + 1  # a prediction for each batch, a test before and after each task, an accuracy
    assert printed[4].startswith("after task 0: [")
    assert 0 <= float(printed[-1]) <= 100
    assert isinstance(session["learner"], ek.Learner)
    assert session["learner"].step == 4
    assert (tmp_path / "model.ek").is_file()


def test_the_config_of_the_readme(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text()
    block, grid = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mine.toml").write_text(block)
    (tmp_path / "grid.toml").write_text(grid)
    assert len(read_grid(tmp_path / "grid.toml")) == 2 * 2 * 2 * 5
    config = ek.load_config(tmp_path / "mine.toml")
    assert config.name == "DER++ + CBA"
    assert config.optimizer.lr == 0.03  # from the preset that it extends
    assert config.scenario is not None
    assert config.scenario["percent"] == 10
