"""Build the documentation site: `make site`.

The pages are copied in the layout of the repository, so the links that work on GitHub work on the site, too. The
reference is made from the docstrings of the public names and from the help of the command line.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from evenkeel import PUBLIC

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
REFERENCE = {  # pages, each with its title and the modules whose public names it describes
    "learner": (
        "Learner",
        ["learning.learner", "config.keel", "learning.classifier", "learning.memory", "learning.types"],
    ),
    "methods": ("Methods and adaptors", ["learning.methods", "learning.contract", "learning.adaptors"]),
    "networks": (
        "Networks",
        [
            "learning.nets",
            "learning.zoo",
            "learning.heads",
            "learning.pretrained",
            "learning.texts",
            "learning.augment",
        ],
    ),
    "data": ("Data", ["experiment.quickstart", "data.dataset", "data.sources", "data.scenarios"]),
    "runs": ("Runs and results", ["experiment.config", "experiment.run", "results.run_files", "results.records"]),
    "errors": ("Errors", ["errors"]),
}
COMMANDS = ("-m", "typer", "evenkeel.cli", "utils", "docs", "--name", "evenkeel", "--title", "Command line")
OVERVIEW = re.compile(r"\*\*Commands\*\*:.*?(?=\n##)", re.DOTALL)  # cut off after 45 characters; the contents have them


def build(folder: Path) -> Path:
    """Build the site in a folder and return that of its HTML; exit with the generator's status if it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder / "pages")
    config = (HERE / "zensical.toml").read_text(encoding="utf-8")
    config = config.replace("SRC", str(ROOT / "src")).replace("DOCSTRINGS", str(HERE / "docstrings.py"))
    (folder / "zensical.toml").write_text(config, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return folder / "html"


def stage(pages: Path) -> None:
    """Copy the pages and what they link to, and write the reference."""
    shutil.copytree(ROOT / "docs", pages / "docs", ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__"))
    for file in (*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "CITATION.cff"):
        shutil.copy(file, pages)
    reference = pages / "docs" / "reference"
    reference.mkdir()
    for page, (title, modules) in REFERENCE.items():
        (reference / f"{page}.md").write_text(_names(title, modules), encoding="utf-8")
    commands = subprocess.run([sys.executable, *COMMANDS], capture_output=True, text=True, check=True).stdout
    commands = OVERVIEW.sub("", commands)
    (reference / "commands.md").write_text(commands, encoding="utf-8")


def _names(title: str, modules: list[str]) -> str:
    """Return a page on the public names of some modules, which mkdocstrings fills."""
    names = [name for module in modules for name in PUBLIC[module]]
    return "\n\n".join([f"# {title}", *(f"::: evenkeel.{name}" for name in names)])


if __name__ == "__main__":
    html = build(ROOT / "build" / "site")
    print(f"Read it at {html / 'index.html'}, or with `python -m http.server --directory {html}`, which can search.")
