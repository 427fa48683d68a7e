"""What is published: wheel and sdist, and the quickstart in an environment that has nothing but the wheel."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers.pages import ROOT, blocks, run_block

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with wheel and sdist, built from a copy: a build writes into the sources."""
    pytest.importorskip("build", reason="needs the extra release: make package")
    copy, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    _call(sys.executable, "-m", "build", "--outdir", str(dist), str(copy))
    return dist


def test_wheel_and_sdist_hold_every_file_of_the_package(dist: Path) -> None:
    files = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "evenkeel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        assert files - set(opened.namelist()) == set()
    with tarfile.open(sdist) as archive:
        assert files - {name.partition("/src/")[2] for name in archive.getnames()} == set()


def test_wheel_and_sdist_pass_twine(dist: Path) -> None:
    _call(sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir()))


def test_the_quickstart_runs_with_the_wheel_alone(dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python")
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "--constraint", str(ROOT / "constraints.txt"))
    _call(python, *install, str(next(dist.glob("*.whl"))))
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "empty").mkdir()
    run_block(blocks("README.md", "python")[0], tmp_path / "empty")


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
