"""Completion after TAB, by the protocol that shells speak with typer."""

import subprocess
import sys

import pytest

from tests.helpers.commands import call

COMPLETED: dict[str, tuple[str, list[str]]] = {  # a line up to the cursor, and what the shell offers
    "a command": ("evenkeel rep", ["report", "reproduce"]),
    "a command of a group": ("evenkeel ledger ex", ["export"]),
    "an option": ("evenkeel grid grid.toml --wo", ["--workers"]),
    "a topic": ("evenkeel list me", ["methods", "measures"]),
    "presets": ("evenkeel run ", ["clinc150", "digits", "digits-cba", "keel/", "paper/"]),
    "a preset": ("evenkeel run cl", ["clinc150"]),
    "composed presets": ("evenkeel run paper/", ["paper/cifar10", "paper/cifar100", "paper/tiny-imagenet"]),
    "the next part": ("evenkeel run paper/cifar10-b", ["paper/cifar10-blurry", "paper/cifar10-bic"]),
    "the last part": ("evenkeel run paper/cifar10-er-cba-6", ["paper/cifar10-er-cba-64"]),
    "a file": ("evenkeel run mine.t", []),  # with no answer, shells offer the names of files
    "a method": ("evenkeel reproduce table1 --methods der", ["derpp"]),
    "another method": ("evenkeel reproduce table1 --methods er,bi", ["er,bic"]),
}


@pytest.mark.parametrize(("line", "offered"), COMPLETED.values(), ids=COMPLETED)
def test_a_shell_completes(
    line: str, offered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "", raising=False)  # or it is called python -m pytest
    monkeypatch.setenv("_EVENKEEL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    _, out, errors = call(capsys)
    assert errors == ""
    assert sorted(out.split()) == sorted(offered)


def test_completion_imports_nothing_heavy() -> None:
    code = "import sys, evenkeel.cli; print([m for m in ('torch', 'numpy', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
