"""The plan of the package: its rooms, its public names, and what may be loaded when."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import evenkeel as ek
from evenkeel.cli import console, grids
from evenkeel.grids.paper import VARIANTS, WIDTHS, published
from evenkeel.results.formats import FORMATS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "evenkeel"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = {"learning", "data", "config", "experiment", "results", "report", "grids", "service", "cli"}


def imported_names(python: str) -> set[str]:
    """Modules that are loaded after this code."""
    code = f"import sys\n{python}\nprint(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_folder_list_is_the_plan() -> None:
    files = {"__init__.py", "__main__.py", "errors.py", "files.py", "py.typed"}
    assert {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"} == ROOMS | files


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not imported_names("import evenkeel") & {"torch", "numpy", "pydantic", "typer", "rich"}


def test_the_command_line_loads_no_room_until_a_command_needs_it() -> None:
    loaded = imported_names("import evenkeel.cli")
    assert not loaded & {"torch", "numpy", "pydantic", "scipy", "matplotlib"}


def test_tables_of_results_need_no_torch() -> None:
    loaded = imported_names("import evenkeel.results.overview, evenkeel.results.significance, evenkeel.report.page")
    assert "torch" not in loaded


def test_type_checkers_see_the_public_names() -> None:
    (block,) = (
        node
        for node in ast.parse((PACKAGE / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = set()
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name  # a re-export, by the rules of type checkers
            seen.add((str(statement.module).removeprefix("evenkeel."), alias.name))
    assert seen == {(module, name) for module, names in ek.PUBLIC.items() for name in names}


def test_every_public_name_is_there() -> None:
    names: dict[str, object] = {}
    exec("from evenkeel import *", names)
    assert set(ek.__all__) <= names.keys()
    assert set(ek.__all__) <= set(dir(ek))
    for module, public in ek.PUBLIC.items():
        for name in public:
            value = getattr(ek, name)
            assert value is getattr(sys.modules[f"evenkeel.{module}"], name)
            assert getattr(value, "__module__", "evenkeel.").startswith("evenkeel.") or isinstance(value, dict)


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Lerner'\. Did you mean 'Learner'\?"):
        ek.Lerner  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_written_once() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    done = subprocess.run([sys.executable, "-m", "evenkeel", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"evenkeel {ek.__version__}\n"


def test_learning_may_import_no_dependency_but_torch_and_numpy() -> None:
    """The contract must name every package that the project installs."""
    (contract,) = (each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if "torch and numpy" in each["name"])
    project = PYPROJECT["project"]
    tools = ("dev", "dev-all", "docs", "release")  # of those who work on the project, not of its users
    extras = [line for name, extra in project["optional-dependencies"].items() if name not in tools for line in extra]
    packages = {re.split(r"[>=<;\[ ]", line)[0].replace("-", "_") for line in [*project["dependencies"], *extras]}
    modules = {"pillow": "PIL", "scikit_learn": "sklearn", "python_multipart": "multipart"}
    allowed = {"torch", "numpy", "onnx", "onnxscript"}  # the last two inside a function
    assert {modules.get(name, name) for name in packages} - allowed == set(contract["forbidden_modules"])


def test_help_texts_name_what_there_is() -> None:
    """They are written out, because the registries are slow to import."""
    hints = grids.reproduce_command.__annotations__
    assert set(re.findall(r"\w+\d", hints["what"].__metadata__[0].help)) == set(published())
    assert all(name in hints["net"].__metadata__[0].help for name in WIDTHS)
    assert all(name in hints["cba"].__metadata__[0].help for name in VARIANTS)
    formats = get_args(console.Format)[1].help
    assert all(name in formats for name in FORMATS)


@pytest.mark.slow
def test_an_unknown_name_is_an_error_for_mypy(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import evenkeel as ek\n\nek.Learner\nek.NoSuchName\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(tmp_path / "program.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Module has no attribute "NoSuchName"' in done.stdout
    assert "Learner" not in done.stdout


def test_test_files_are_short_modules_that_import_no_other_test() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        assert not re.search(r"^\s*(from|import) tests\.(?!helpers\b)", text, re.M), path
        assert text.count("\n") <= 600, path
        assert (path.parent / "__init__.py").exists(), path


def test_what_only_test_all_runs_is_listed(has_slow: dict[str, bool]) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = {f"tests/{name}" for name in re.findall(r"^\| `([\w/]+\.py)` \|", text, re.M)}
    assert listed & has_slow.keys() == {file for file, slow in has_slow.items() if slow}


def test_tests_mirror_the_rooms() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == ROOMS | {"compatibility", "helpers"}
