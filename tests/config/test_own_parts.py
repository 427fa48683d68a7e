"""Parts of a user's own: in configs, on the command line, as objects, of packages; never because a file says so."""

import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import evenkeel as ek
from evenkeel.config.build import parts_of
from evenkeel.config.own import import_modules, own_parts
from evenkeel.config.schema import PARTS
from evenkeel.data.scenarios import disjoint
from evenkeel.errors import CheckpointError, RunError, SettingsError
from evenkeel.experiment.config import with_parts
from evenkeel.experiment.run_folder import MODEL
from evenkeel.grids.execution import Execution
from evenkeel.grids.job import Job
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid
from evenkeel.learning import checkpoint
from evenkeel.results.run_files import RECORDS
from evenkeel.service.service import Service
from evenkeel.service.store.model_folder import ModelFolder
from tests.helpers.commands import call
from tests.helpers.own_parts import SMALL, own_module

__all__ = ["own_module"]

NAMES = {"data": "patterns", "net": "build", "method": "Cautious", "adaptor": "Half", "augment": "Shift"}


def tables(module: str, **settings: dict[str, Any]) -> dict[str, Any]:
    own = {kind: {"name": f"{module}:{name}", **settings.get(kind, {})} for kind, name in NAMES.items()}
    return {**SMALL, **own}


def test_every_kind_of_part_enters_a_run_by_its_name_and_resumes_exactly(own_module: str, tmp_path: Path) -> None:
    config = ek.load_config(tables(own_module, method={"share": 0.25}))
    assert config.name == "Cautious + Half"
    *whole, last = ek.run(config, out=tmp_path / "whole")
    assert isinstance(last, ek.Ended)
    for record in ek.run(config, out=tmp_path / "cut", save_every=0):  # left after the first step was saved
        if isinstance(record, ek.Stepped) and record.step == 2:
            break
    assert [*ek.run(config, out=tmp_path / "cut")] == [*whole, last]
    learner = ek.Learner.load(tmp_path / "cut" / MODEL)
    assert repr(learner.method) == "Cautious(share=0.25)"


def test_an_encoder_of_ones_own_is_named_within_the_net(own_module: str, tmp_path: Path) -> None:
    net = {"name": "mlp", "hidden": [4], "encoder": {"name": f"{own_module}:encoder", "width": 5}}
    config = ek.load_config({**tables(own_module), "net": net, "augment": None, "evaluation": {"alignment": 1}})
    *whole, last = ek.run(config, out=tmp_path / "whole")
    for record in ek.run(config, out=tmp_path / "cut", save_every=0):
        if isinstance(record, ek.Stepped) and record.step == 2:
            break
    assert [*ek.run(config, out=tmp_path / "cut")] == [*whole, last]
    learner = ek.Learner.load(tmp_path / "cut" / MODEL)
    assert learner.memory.column("x").shape[1:] == (5,)
    grid = Grid(Ledger(tmp_path / "ledger"), [config], Execution(workers=0)).finish()
    assert not grid.failed
    assert [part.kind for part in own_parts(config)] == ["data", "method", "adaptor", "encoder"]
    with pytest.raises(SettingsError, match="cannot be combined with an encoder"):
        ek.run({**tables(own_module), "net": net})


def test_the_file_that_defines_a_part_is_in_records_and_run_key(own_module: str, tmp_path: Path) -> None:
    config = ek.load_config({**SMALL, "method": {"name": f"{own_module}:Cautious"}})
    first, key = next(iter(ek.run(config))), run_key(config)
    assert isinstance(first, ek.Started)
    (part,) = own_parts(config)
    assert first.versions[part.name] == f"sha256 {part.digest} of {own_module}.py"
    file = tmp_path / f"{own_module}.py"
    file.write_text(file.read_text() + "# changed\n")
    assert run_key(config) != key
    assert run_key(ek.load_config(SMALL)) == run_key(ek.load_config(SMALL))


def test_a_run_is_not_resumed_with_another_file(own_module: str, tmp_path: Path) -> None:
    config = ek.load_config(tables(own_module))
    [*ek.run(config, out=tmp_path / "run")]
    file = tmp_path / f"{own_module}.py"
    file.write_text(file.read_text() + "# changed\n")
    with pytest.raises(RunError, match=r"versions.*Cautious is 'sha256"):
        [*ek.run(config, out=tmp_path / "run")]


def test_workers_import_own_parts_by_the_same_names(own_module: str, tmp_path: Path) -> None:
    registered = tmp_path / "registering.py"
    registered.write_text(f"import evenkeel as ek\nfrom {own_module} import Cautious\nek.METHODS['mine'] = Cautious\n")
    import_modules(["registering"])
    configs = [
        ek.load_config({**tables(own_module), "seed": 1}),
        ek.load_config({**tables(own_module), "method": {"name": "mine"}}),
        ek.load_config({**tables(own_module), "method": {"name": f"{own_module}:Fails"}}),
    ]
    grid = Grid(Ledger(tmp_path / "ledger"), configs, Execution(workers=2)).finish()
    assert len(grid.finished) == 2
    (failure,) = grid.failed.values()
    lines = (tmp_path / f"{own_module}.py").read_text().splitlines()
    place = 1 + lines.index("        return new.nothing")
    assert failure.endswith(f"In your own part: {tmp_path / own_module}.py, line {place}, in loss.")
    sys.modules.pop("registering")


def test_a_worker_with_another_file_does_not_run(own_module: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    job: Job = pickle.loads(pickle.dumps(Job.of(ek.load_config(tables(own_module)), ledger, Execution())))
    (tmp_path / f"{own_module}.py").write_text("# another\n" + (tmp_path / f"{own_module}.py").read_text())
    with pytest.raises(RunError, match="is not the one that this run was planned with"):
        job.prepare()


# ---- as objects ----


def objects(module: str) -> dict[str, Callable[[], dict[str, Any]]]:
    own = __import__(module)
    net: Callable[[], ek.Net] = lambda: own.build(classes=10, features=64)  # noqa: E731
    return {
        "instances": lambda: {"method": own.Cautious(share=0.2), "adaptor": own.Half(), "augment": own.Shift(by=2)},
        "classes": lambda: {"method": own.Cautious, "adaptor": own.Half, "augment": own.Shift, "net": own.build},
        "names": lambda: {"method": f"{module}:Cautious", "adaptor": "cba", "net": f"{module}:build"},
        "a network": lambda: {"net": net(), "method": own.Cautious()},
        "data": lambda: {"data": own.patterns(), "method": ek.DERpp(alpha=0.3), "augment": [own.Shift(), own.Shift()]},
    }


@pytest.mark.parametrize("way", ["instances", "classes", "names", "a network", "data"])
def test_parts_are_given_to_a_run_as_objects(own_module: str, tmp_path: Path, way: str) -> None:
    sys.path.append(str(tmp_path))
    parts = objects(own_module)[way]()
    config = {**SMALL, "limits": {"train": 4, "test": 4}, "net": {"name": "mlp", "hidden": [8]}}
    before = {name: each.state_dict() for name, each in parts.items() if isinstance(each, ek.Net)}
    first = [*ek.run(config, out=tmp_path / "run", **parts)]
    assert [*ek.run(config, out=tmp_path / "run", **parts)] == first  # resumed at its end
    assert [*ek.run(config, **parts)] == first
    for name, state in before.items():
        assert all(value.equal(parts[name].state_dict()[key]) for key, value in state.items())


def test_a_part_without_a_file_runs_but_enters_no_ledger(own_module: str, tmp_path: Path) -> None:
    sys.path.append(str(tmp_path))
    own = __import__(own_module)

    class Local(own.Cautious):  # type: ignore[name-defined,misc]
        pass

    for part in ({"method": Local()}, {"net": own.build(classes=10, features=64)}):
        (first, *_) = ek.run({**SMALL, "limits": {"train": 2, "test": 2}}, **part)
        assert isinstance(first, ek.Started)
        config = ek.load_config(dict(first.config))
        with pytest.raises(SettingsError, match="cannot be part of a grid"):
            run_key(config)


def test_settings_that_a_record_cannot_hold_are_refused(own_module: str, tmp_path: Path) -> None:
    sys.path.append(str(tmp_path))
    own = __import__(own_module)
    with pytest.raises(SettingsError, match="has settings that a record cannot hold"):
        ek.run(SMALL, method=own.Cautious(share=torch.ones(3)))


# ---- from packages and the command line ----


def test_a_package_offers_parts_by_entry_points(own_module: str, tmp_path: Path) -> None:
    about = tmp_path / "careful-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: careful\nVersion: 1.0\n")
    points = f"[evenkeel.methods]\ncareful = {own_module}:Cautious\n[evenkeel.encoders]\nfront = {own_module}:encoder\n"
    (about / "entry_points.txt").write_text(points)
    with pytest.raises(SettingsError, match="'careful' is not one of"):
        ek.load_config({"method": {"name": "careful"}})
    sys.path.append(str(tmp_path))
    assert ek.load_config({"method": {"name": "careful", "share": 0.1}}).name == "Cautious"
    net = {"name": "mlp", "encoder": {"name": "front", "width": 3}}
    assert ek.load_config({"net": net}).net["encoder"] == {"name": "front", "width": 3}


def test_the_command_line_imports_what_registers_itself(
    own_module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"{own_module}.py"
    file.write_text(file.read_text() + "\nek.METHODS['mine'] = Cautious\n")
    options = ["--set", "method.name=mine", "--set", "limits.train=2", "--set", "limits.test=2", "--out", "run"]
    code, _, err = call(capsys, "run", "digits", *options)
    assert code == 1
    assert "'mine' is not one of" in err
    code, out, err = call(capsys, "run", "digits", *options, "--import", own_module)
    assert code == 0, err
    assert "Cautious" in out
    assert f"Own part: mine, sha256 {own_parts(ek.load_config({'method': {'name': 'mine'}}))[0].digest}" in err
    code, out, err = call(capsys, "list", "methods", "mine", "--import", own_module)
    assert "share=0.5" in out
    assert call(capsys, "ledger", "adopt", "ledger", "run")[0] == 0


def test_a_run_of_own_parts_is_adopted_with_import(own_module: str, capsys: pytest.CaptureFixture[str]) -> None:
    list(ek.run(ek.load_config(tables(own_module)), out="run"))
    names = [f"{own_module}:{name}" for name in NAMES.values()]
    for kind in PARTS.values():  # as in a new process
        for name in names:
            cast(dict[str, Any], kind.registry).pop(name, None)
    code, _, err = call(capsys, "ledger", "adopt", "ledger", "run")
    assert code == 1
    assert f"or add --import {names[0]}" in err.replace("\n", " ")
    options = [option for name in names for option in ("--import", name)]
    code, _, err = call(capsys, "ledger", "adopt", "ledger", "run", *options)
    assert code == 0, err


WRONG = {
    "no module": ("nowhere:Thing", "There is no module 'nowhere' to import; it is looked for in"),
    "no name": ("{module}:Cautios", "has no 'Cautios'. Did you mean 'Cautious'?"),
    "another kind": ("{module}:Half", "it must be a subclass of ek.Method"),
    "no class": ("{module}:build", "it must be a subclass of ek.Method"),
    "a module": ("os:path", "os:path is a module, not a class or function"),
    "its constructor": ("{module}:CannotBeCreated", "ZeroDivisionError: division by zero ({file}.py, line {line})"),
}


@pytest.mark.parametrize(("name", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_part_is_said(own_module: str, tmp_path: Path, name: str, sentence: str) -> None:
    line = 1 + (tmp_path / f"{own_module}.py").read_text().splitlines().index("        self.share = 1 / 0")
    with pytest.raises(SettingsError) as caught:
        ek.load_config({"method": {"name": name.format(module=own_module)}})
    assert sentence.format(file=tmp_path / own_module, line=line) in str(caught.value)


@pytest.mark.usefixtures("own_module")
def test_a_module_that_cannot_be_imported_is_named_with_the_line(tmp_path: Path) -> None:
    for name, text, sentence in (("bad_name", "\nnothing\n", "NameError"), ("bad_text", "\nclass\n", "SyntaxError")):
        (tmp_path / f"{name}.py").write_text(text)
        with pytest.raises(SettingsError, match=rf"{name} cannot be imported: {sentence}.*{name}\.py, line 2\)"):
            ek.load_config({"method": {"name": f"{name}:Thing"}})


def test_what_a_function_returns_is_checked(own_module: str) -> None:
    with pytest.raises(SettingsError, match="returned a Linear; it must return an ek"):
        ek.run({**SMALL, "net": {"name": f"{own_module}:returns_a_module"}})
    with pytest.raises(SettingsError, match="returned a list, not a DataSet"):
        ek.run({**SMALL, "data": {"name": f"{own_module}:returns_arrays"}})


def test_an_error_in_a_run_keeps_its_kind_and_names_the_line(own_module: str) -> None:
    with pytest.raises(AttributeError) as caught:
        [*ek.run({**SMALL, "method": {"name": f"{own_module}:Fails"}})]
    (note,) = caught.value.__notes__
    assert note.endswith("in loss.")


# ---- nothing is imported because a file names it ----


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a file behind when it is imported; return the path of that file."""
    sprung = tmp_path / "sprung"
    (tmp_path / "trap.py").write_text(f"open({str(sprung)!r}, 'w').close()\ndef build(*settings): raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return sprung


@pytest.mark.parametrize("name", ["trap:build", "os:system"])
@pytest.mark.parametrize("kind", ["net", "method", "adaptor", "augment", "memory", "encoder"])
def test_a_checkpoint_imports_nothing_that_it_names(trap: Path, tmp_path: Path, kind: str, name: str) -> None:
    learner = ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), memory=4)
    learner.learn(torch.zeros(2, 2), [0, 1])
    facts, tensors = learner.state()
    change = {"net": {**facts["net"], "encoder": {"name": name}}} if kind == "encoder" else {kind: {"name": name}}
    checkpoint.write(tmp_path / "learner.ek", {**facts, **change}, tensors)
    with pytest.raises(CheckpointError, match="a file imports nothing"):
        ek.Learner.load(tmp_path / "learner.ek")
    assert not trap.exists()


@pytest.mark.parametrize("table", ["net", "method", "adaptor", "augment"])
def test_a_model_folder_imports_nothing_that_it_names(
    trap: Path, tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "service.toml").write_text(f'input.features = 2\n{table}.name = "trap:build"\n')
    with pytest.raises(SettingsError, match="not imported because a file names it"):
        ModelFolder(tmp_path / "model").read()
    for command in ("learn", "predict"):
        (tmp_path / "data.jsonl").write_text('{"vector": [1, 2], "label": "a"}\n')
        assert call(capsys, command, "model", "data.jsonl")[0] == 1
    assert call(capsys, "export", "model", "-o", "model.pt2")[0] == 1
    assert not trap.exists()


def test_a_ledger_imports_nothing_that_it_names(trap: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ek.load_config("digits", ["limits.train=2", "limits.test=2", "threads=1"])
    [*ek.run(config, out=tmp_path / "run")]
    file = tmp_path / "run" / RECORDS
    first, *others = file.read_text().splitlines(keepends=True)
    content = json.loads(first)
    for kind in ("net", "method", "data"):
        content["config"][kind] = {"name": "trap:build"}
    file.write_text(json.dumps(content) + "\n" + "".join(others))
    code, _, err = call(capsys, "ledger", "adopt", "ledger", "run")
    assert (code, "not imported because a file names it" in err) == (1, True)
    key = "0" * 16
    (tmp_path / "ledger").mkdir(exist_ok=True)
    (tmp_path / "run").rename(tmp_path / "ledger" / key)
    for command in (["ledger", "list"], ["ledger", "rebuild"], ["table"], ["report"], ["ledger", "pack"]):
        assert call(capsys, *command, "ledger", *["-o", "report.html"] * (command == ["report"]))[0] == 0
    grid = tmp_path / "grid.toml"
    grid.write_text('[[blocks]]\nbase = "digits"\nset = { limits = { train = 2, test = 2 } }\n')
    assert call(capsys, "grid", "grid.toml", "--out", "ledger", "--list")[0] == 0  # estimates from finished runs
    assert not trap.exists()


@pytest.mark.parametrize("kind", ["net", "method", "adaptor", "augment", "encoder"])
def test_a_service_imports_nothing_that_the_learner_it_starts_from_names(trap: Path, tmp_path: Path, kind: str) -> None:
    learner = ek.Learner(ek.mlp(features=2, classes=2), ek.ER(), memory=4)
    learner.learn(torch.zeros(2, 2), [0, 1])
    facts, tensors = learner.state()
    named = {"name": "trap:build"}
    change = {"net": {**facts["net"], "encoder": named}} if kind == "encoder" else {kind: named}
    checkpoint.write(tmp_path / "learner.ek", {**facts, **change}, tensors)
    with pytest.raises(SettingsError, match="not imported because a file names it"):
        Service(tmp_path / "model", learner=tmp_path / "learner.ek")
    assert not trap.exists()
    assert not (tmp_path / "model").exists()


def test_all_parts_that_a_file_may_not_import_are_named_at_once(own_module: str, tmp_path: Path) -> None:
    net = {"name": f"{own_module}:build", "encoder": {"name": f"{own_module}:encoder"}}
    config = ek.load_config({**tables(own_module), "net": net, "augment": None, "adaptor": None})
    [*ek.run(config, out=tmp_path / "run")]
    names = [f"{own_module}:{name}" for name in ("build", "encoder", "Cautious")]
    for kind in PARTS.values():
        for name in names:
            cast(dict[str, Any], kind.registry).pop(name, None)
    with pytest.raises(SettingsError) as caught:
        Service(tmp_path / "model", learner=tmp_path / "run" / MODEL)
    assert all(f"or add --import {name}." in str(caught.value) for name in names)
    import_modules(names)
    Service(tmp_path / "model", learner=tmp_path / "run" / MODEL).close()


# ---- what reads ledgers, and searches ----

RUN = """
data = { name = "MODULE:patterns" }
net = { name = "mlp", hidden = [4], encoder = { name = "MODULE:encoder" } }
method = { name = "MODULE:Cautious" }
scenario = { name = "disjoint", tasks = 2 }
batches = { size = 8 }
memory = { capacity = 8 }
evaluation = { every = 0, alignment = 0 }
threads = 1
"""


def test_commands_read_a_ledger_of_own_parts_without_importing_them(
    own_module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("base.toml").write_text(RUN.replace("MODULE", own_module))
    vary = f'{{ "adaptor.name" = ["none", "{own_module}:Half"] }}'
    Path("grid.toml").write_text(f'seeds = 2\n[[blocks]]\nbase = "base.toml"\nvary = {vary}\n')
    code, _, err = call(capsys, "grid", "grid.toml", "--out", "ledger", "--workers", "0")
    assert code == 0, err
    (tmp_path / f"{own_module}.py").write_text("raise SystemExit('imported')\n")
    sys.modules.pop(own_module)
    for kind in PARTS.values():
        for name in [name for name in kind.registry if name.startswith(own_module)]:
            cast(dict[str, Any], kind.registry).pop(name)
    commands = {
        "table": (["table", "ledger"], "Cautious + Half"),
        "compare": (["compare", "ledger"], "Cautious against Cautious + Half"),
        "report": (["report", "ledger", "-o", "report.html"], "report.html"),
        "export": (["ledger", "export", "ledger", "-o", "runs.csv"], "runs.csv"),
        "list": (["ledger", "list", "ledger"], "finished"),
        "pack": (["ledger", "pack", "ledger"], "MB freed"),
        "table again": (["table", "ledger"], "Cautious + Half"),
    }
    for name, (command, shown) in commands.items():
        code, out, err = call(capsys, *command)
        assert (code, shown in out) == (0, True), (name, out, err)
    report = (tmp_path / "report.html").read_text()
    assert f"{own_module}:Cautious" in report
    assert "sha256" in report
    assert own_module not in sys.modules


def test_a_search_tries_settings_of_own_parts(own_module: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("base.toml").write_text(RUN.replace("MODULE", own_module))
    space = '"method.name" = ["er", "MODULE:Cautious"]\n"net.encoder.width" = [4, 5]\n'
    search = f'base = "base.toml"\ntasks = 1\nheld_out = 0.25\ntrials = "all"\n[space]\n{space}'
    Path("space.toml").write_text(search.replace("MODULE", own_module))
    code, out, err = call(capsys, "tune", "space.toml", "--out", "search", "--workers", "0")
    assert code == 0, (out, err)
    assert f"{own_module}:Cautious" in out
    best = ek.load_config("search/best.toml")
    assert best.method["name"] in ("er", f"{own_module}:Cautious")
    assert best.net["encoder"]["name"] == f"{own_module}:encoder"
    *_, last = ek.run(best)
    assert isinstance(last, ek.Ended)


def test_a_search_writes_none_as_none(own_module: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("base.toml").write_text(RUN.replace("MODULE", own_module))
    search = 'base = "base.toml"\ntasks = 1\nheld_out = 0.25\ntrials = "all"\n[space]\n"memory.capacity" = [8, 9]\n'
    Path("space.toml").write_text(f'{search}[set]\n"method.share" = "none"\n"net.encoder.width" = "none"\n')
    code, out, err = call(capsys, "tune", "space.toml", "--out", "search", "--workers", "0")
    assert code == 0, (out, err)
    best = ek.load_config("search/best.toml")
    assert (best.method["share"], best.net["encoder"]["width"]) == (None, None)


def shifted(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x.roll(int(torch.randint(8, (), generator=generator)), dims=-1)


@pytest.mark.parametrize("way", ["a function", "a name", "registered", "a lambda", "an object"])
@pytest.mark.usefixtures("own_module")
def test_an_augmentation_may_be_a_function(tmp_path: Path, way: str) -> None:
    ek.AUGMENTS["shifted"] = shifted  # type: ignore[assignment]
    reference = f"{__name__}:shifted"
    ways: dict[str, dict[str, Any]] = {
        "a function": {"augment": shifted},
        "a name": {"augment": {"name": reference}},
        "registered": {"augment": {"name": "shifted"}},
        "a lambda": {"augment": lambda x, generator: shifted(x, generator).flip(-1)},
        "an object": {"augment": ek.PerSample(lambda image: image + 1)},
    }
    given = ways[way]
    config = {**SMALL, "limits": {"train": 4, "test": 4}, "net": {"name": "mlp", "hidden": [8]}}
    *whole, last = ek.run(config, **given)
    for record in ek.run(config, out=tmp_path / "cut", save_every=0, **given):
        if isinstance(record, ek.Stepped) and record.step == 2:
            break
    assert [*ek.run(config, out=tmp_path / "cut", **given)] == [*whole, last]
    assert isinstance(whole[0], ek.Started)
    in_config = with_parts(ek.load_config(config), given)
    if way in ("a lambda", "an object"):
        with pytest.raises(SettingsError, match="cannot be part of a grid"):
            run_key(in_config)
    else:
        job: Job = pickle.loads(pickle.dumps(Job.of(in_config, Ledger(tmp_path / "ledger"), Execution())))
        job.prepare()
        versions = [text for name, text in whole[0].versions.items() if "shifted" in name]
        assert [text.split()[-1] for text in versions] == ["test_own_parts.py"]


@pytest.mark.usefixtures("own_module")
def test_augmentations_in_a_list_are_told_apart() -> None:
    @dataclass  # which makes it unhashable, and holds what a record cannot
    class Own:
        change: Callable[[torch.Tensor], torch.Tensor]

        def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
            return self.change(x)

    x = torch.arange(4, dtype=torch.uint8)
    both = [lambda x, _: x + 1, lambda x, _: x * 2]
    for given in (both, [Own(lambda x: x + 1), Own(lambda x: x * 2)]):
        first, second = parts_of(with_parts(ek.load_config({}), {"augment": given}))["augment"]
        assert second(first(x, torch.Generator()), torch.Generator()).tolist() == [2, 4, 6, 8]


@pytest.mark.usefixtures("own_module")
def test_a_scenario_needs_no_type_hints() -> None:
    def swapped(labels, *, tasks, seed=0):  # type: ignore[no-untyped-def]
        return disjoint(labels, tasks=tasks[::-1], seed=seed)

    ek.SCENARIOS["swapped"] = swapped
    started = next(iter(ek.run({**SMALL, "scenario": {"name": "swapped", "tasks": 2}})))
    assert isinstance(started, ek.Started)
    assert len(started.tasks) == 2
