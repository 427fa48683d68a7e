"""A setting that is added later, with a default, never changes what was made without it.

The package is copied, a setting is added to a method, to CBA and to the learner, and the copy reads what was there.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

import evenkeel as ek
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from tests.helpers.processes import run_python

ROOT = Path(__file__).parents[2]
OLD = Path(__file__).parent / "0.1"
ADDED = {  # in each file, after what a line is added
    "learning/methods/er.py": ("def __init__(self, *, joint_forward: bool = False", ", zeal: float = 0.5"),
    "learning/methods/derpp.py": ("def __init__(self, *, alpha: float = 0.2", ", zeal: float = 0.5"),
    "learning/adaptors/cba.py": ('        training: str = "bilevel",\n', "        zeal: float = 0.5,\n"),
    "learning/learner.py": ('        ] = "all",\n', '        zeal: Annotated[float, "How eager"] = 0.5,\n'),
}
KEPT = {  # where the setting is kept under its name, as the house asks of every part
    "learning/methods/er.py": ("self.joint_forward = joint_forward\n", "        self.zeal = zeal\n"),
    "learning/methods/derpp.py": ("self.alpha = alpha\n", "        self.zeal = zeal\n"),
    "learning/adaptors/cba.py": ("self.training = training\n", "        self.zeal = zeal\n"),
    "learning/learner.py": ("self.statistics = statistics\n", "        self.zeal = zeal\n"),
}
HEAD = """
import json, sys
from pathlib import Path

root, work, versions = Path("{root}"), Path("{work}"), {versions}
for module in [name for name in sys.modules if name.partition(".")[0] == "evenkeel"]:
    del sys.modules[module]  # the package itself, which the process had imported before
sys.path.insert(0, str(work / "src"))
"""
PROGRAM = """
import evenkeel as ek
from evenkeel.experiment import run
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.results.groups import groups
from evenkeel.results.run_files import started_of
from evenkeel.service.service import Service
from evenkeel.config.build import make_learner
from evenkeel.cli import app
from typer import testing as runner

run._versions = lambda: versions
assert work in Path(ek.__file__).parents
settings = ["limits.train=20", "limits.test=20", "net.width=4", "evaluation.every=4", "evaluation.alignment=5"]
half = ek.load_config("digits-cba", [*settings, "method.name=derpp"])
made = {"keys": {}}
for name in ("digits", "slim"):
    ledger = Ledger(root / "results" / name)
    for path in map(ledger.place, ledger.runs()):
        made["keys"][str(path)] = run_key(ek.load_config(started_of(path).config))
made["resumed"] = [record.step for record in ek.run(half, out=work / "run") if isinstance(record, ek.Stepped)]
service = Service(work / "service")
made["waiting"] = service.waiting
service.close()
unwatched = ["evaluation.every=0", "evaluation.alignment=0", "evaluation.prequential=false"]
old = Ledger(root / "results" / "digits").results([run_key(ek.load_config("digits", unwatched))])
new = ek.Results.of([next(ek.run(ek.load_config(old[0].started.config, ["seed=77"])))])
made["groups"] = [len(group.runs) for group in groups([*old, new])]
made["written"] = "zeal" in json.dumps(new.started.config)
made["others"] = [
    run_key(ek.load_config("digits-cba", [setting]))
    for setting in ("seed=0", "method.zeal=0.5", "adaptor.zeal=0.5", "learner.zeal=0.5")
], [
    run_key(ek.load_config("digits-cba", [setting]))
    for setting in ("method.zeal=1", "adaptor.zeal=1", "learner.zeal=1")
]
eager = make_learner(ek.load_config("digits", ["learner.zeal=0.75"]), (1, 8, 8), None)
eager.save(work / "eager.ek")
made["kept"] = ek.Learner.load(work / "eager.ek").zeal
made["listed"] = runner.CliRunner().invoke(app, ["list", "settings"], env={"COLUMNS": "200"}).output
(work / "answer.json").write_text(json.dumps(made))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What a package with the new settings makes of what an older one left."""
    work = tmp_path_factory.mktemp("later")
    shutil.copytree(ROOT / "src" / "evenkeel", work / "src" / "evenkeel")
    for additions in (ADDED, KEPT):
        for name, (anchor, addition) in additions.items():
            path = work / "src" / "evenkeel" / name
            before, found, after = path.read_text().partition(anchor)
            assert found, f"{anchor!r} is not in {name} any more; let this test add its setting elsewhere"
            path.write_text(before + anchor + addition + after)
    shutil.copytree(OLD / "run", work / "run")
    shutil.copytree(OLD / "service", work / "service")
    first = json.loads((OLD / "run" / "records.jsonl").read_text().splitlines()[0])
    code = HEAD.format(root=ROOT, work=work, versions=first["versions"]) + PROGRAM
    assert run_python(code, work, work / "log") == 0, (work / "log").read_text()
    answer: dict[str, object] = json.loads((work / "answer.json").read_text())
    return answer


def test_the_keys_of_all_runs_stay(made: dict[str, object]) -> None:
    ledgers = [Ledger(ROOT / "results" / name) for name in ("digits", "slim")]
    assert made["keys"] == {str(ledger.place(key)): key for ledger in ledgers for key in ledger.runs()}


def test_an_old_run_folder_is_resumed(made: dict[str, object]) -> None:
    assert made["resumed"] == list(range(1, 21))


def test_an_old_service_folder_is_opened(made: dict[str, object]) -> None:
    assert made["waiting"] == 11


def test_old_and_new_seeds_are_one_group(made: dict[str, object]) -> None:
    assert made["groups"] == [2]
    assert made["written"] is False


def test_a_setting_counts_once_it_differs_from_its_default(made: dict[str, object]) -> None:
    same, others = made["others"]  # type: ignore[misc]
    assert set(same) == {run_key(ek.load_config("digits-cba"))}  # type: ignore[has-type]
    assert len({*same, *others}) == 4  # type: ignore[has-type]


def test_a_setting_of_the_learner_reaches_config_checkpoint_and_list_from_its_signature(
    made: dict[str, object],
) -> None:
    assert made["kept"] == 0.75
    assert re.search(r"learner\.zeal\s+0\.5\s+How eager", str(made["listed"]))
