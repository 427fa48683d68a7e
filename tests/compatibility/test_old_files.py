"""Files written by version 0.1 are read, and runs continue bit for bit."""

import gzip
import json
import os
import re
import shutil
import sqlite3
import tomllib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from torch.optim import Adam

import evenkeel as ek
from evenkeel.grids.execution import Execution
from evenkeel.grids.ledger import Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.grids.schedule import Grid
from evenkeel.learning.adaptors import bilevel, cba
from evenkeel.results.groups import groups
from evenkeel.results.records import Record, Started, to_line, without_rar
from evenkeel.results.run_files import whole_records
from evenkeel.service.service import Service
from tests.helpers.make_old_files import CLINC150, LEDGER, RUN
from tests.helpers.old_learners import CUT, LEARNERS, STREAM, arithmetic, digests, learn
from tests.helpers.processes import wait_for

OLD = Path(__file__).parent / "0.1"
RESULTS = Path(__file__).parents[2] / "results"
EXPECTED = json.loads((OLD / "expected.json").read_text())
REPAIRED = ("clser", "rar-clser")  # version 0.1 normalised CLS-ER's averages wrongly: they continue with the right rule
UNTOUCHED = re.compile("/memory/|/streams/|/method/updates")  # what does not depend on the averages
CHANGED = {
    "er_ace": {"task_free": False}
}  # presets that were not as the paper's code: it masks from the second task on
NO_EVALUATION = ["evaluation.every=0", "evaluation.alignment=0", "evaluation.prequential=false"]
LATER = ("learning_within", "recency_tilt")  # measures that came after version 0.1
DIGITS = {
    "er": [],
    "er-cba": ["adaptor.name=cba", "adaptor.start=second-task"],
    "derpp-cba": ["method.name=derpp", "adaptor.name=cba", "adaptor.start=second-task"],
}


@cache
def same_bits() -> bool:
    """Whether this processor rounds as the one on file did; only if not, numbers are compared with a tolerance.

    Not at import: after a gradient, torch takes no further device, which tests with a simulated one need.
    """
    return bool(arithmetic() == EXPECTED["arithmetic"])


@pytest.fixture(autouse=True)
def _outer_step_of_0_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the general way through a linear head, and a plain step of Adam: others differ in the last bit."""
    monkeypatch.setattr(bilevel, "is_linear", lambda _: False)
    monkeypatch.setattr(cba, "Adam", lambda weights, **settings: Adam(weights, lr=settings["lr"]))


def require_equal(made: Any, kept: Any) -> None:
    """Compare nested values: bit for bit on a machine that rounds alike, else with a tolerance.

    Lists hold shares and counts of predictions, and another rounding changes a few of these in the end.
    """
    if same_bits():
        assert made == kept
    elif isinstance(kept, dict):
        assert made.keys() == kept.keys()
        for name, value in kept.items():
            require_equal(made[name], value)
    elif isinstance(kept, list):
        assert len(made) == len(kept)
        for one, other in zip(made, kept, strict=True):
            require_equal(one, float(other) if isinstance(other, int) else other)
    else:
        assert made == (pytest.approx(kept, abs=6) if isinstance(kept, float) else kept)


def require_state(learner: ek.Learner, kept: dict[str, str]) -> None:
    made = digests(learner)
    assert made.keys() >= kept.keys()
    if same_bits():
        assert {path: made[path] for path in kept} == kept


def require_records(made: Iterable[Record], kept: bytes) -> None:
    """Compare the first record by value, except for package versions, and all others byte for byte.

    Measures that came later are in no old record; they are computed from the others.
    """
    first, *others = [to_line(_with_old_measures(record)).encode() for record in made]
    kept_first, *kept_others = kept.splitlines(keepends=True)
    one, other = json.loads(first), json.loads(kept_first)
    assert {**one, "versions": None} == {**other, "versions": None}
    if same_bits():
        assert others == kept_others
    else:
        require_equal([json.loads(line) for line in others], [json.loads(line) for line in kept_others])


def _with_old_measures(record: Record) -> Record:
    if not isinstance(record, ek.Ended):
        return record
    return replace(record, metrics={name: value for name, value in record.metrics.items() if name not in LATER})


def unpacked(name: str) -> bytes:
    return gzip.decompress((OLD / name).read_bytes())


@pytest.fixture
def versions_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this version pass for the one that wrote the files: a run is resumed only by the same versions."""
    first = next(record for record, _ in whole_records(OLD / "run" / "records.jsonl"))
    assert isinstance(first, Started)
    monkeypatch.setattr(import_module("evenkeel.experiment.run"), "_versions", lambda: dict(first.versions))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_checkpoint_continues_bit_for_bit(name: str) -> None:
    learner = ek.Learner.load(OLD / "checkpoints" / f"{name}.ek")
    expected = EXPECTED["checkpoints"][name]
    records, kept = learn(learner, STREAM[CUT:], CUT), expected["records"]
    digests_kept = {_path_now(path): each for path, each in expected["digests"].items()}
    if name in REPAIRED:
        records, kept = ([{**each, "loss": None} for each in side] for side in (records, kept))
        digests_kept = {path: each for path, each in digests_kept.items() if UNTOUCHED.search(path)}
        assert digests_kept
    require_equal(records, kept)
    require_state(learner, digests_kept)


def _path_now(path: str) -> str:
    """Return the path of a tensor of version 0.1, which had RAR around a method, and held-out samples in the memory."""
    path = path.replace("/method/base.", "/method/")
    return re.sub("^/memory/(held|spared)", r"/method/_extra_state/\1", path)


def test_the_checkpoint_of_bic_has_held_out_samples() -> None:
    assert len(ek.Learner.load(OLD / "checkpoints" / "bic.ek").method.held or ()) > 0


@pytest.mark.usefixtures("versions_as_recorded")
def test_a_half_finished_run_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(OLD / "run", folder)
    require_records(ek.run(ek.load_config(*RUN), out=folder), unpacked("run.jsonl.gz"))
    begun = [json.loads(line)["from_step"] for line in (folder / "usage.jsonl").read_text().splitlines()]
    assert begun[-1] == 11


@pytest.mark.usefixtures("versions_as_recorded")
def test_a_ledger_is_continued_and_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    shutil.copytree(OLD / "ledger", tmp_path / "ledger")
    ledger = Ledger(tmp_path / "ledger")
    configs = [ek.load_config(*each) for each in LEDGER]
    done, half = map(run_key, configs)
    assert ledger.finished(done)
    assert not ledger.finished(half)
    assert ledger.step(half) == 11
    before = {entry.key: entry.metrics for entry in ledger.entries()}
    started = [list(grid.working) for grid in Grid(ledger, configs, Execution(workers=0)).go()]
    assert {key for keys in started for key in keys} == {half}
    after = {entry.key: entry.metrics for entry in ledger.entries()}
    assert after.keys() == {done, half}
    assert after[done] == before[done]
    (run,) = ledger.results([half])
    assert run.path is not None
    require_records((record for record, _ in whole_records(run.path / "records.jsonl")), unpacked("ledger.jsonl.gz"))
    ledger.pack()
    assert sorted(each.name for each in ledger.path.iterdir() if not each.name.startswith(".")) == [
        f"digits-20-er-seed0-{done[:8]}.jsonl.gz",
        f"digits-20-er-seed1-{half[:8]}.jsonl.gz",
        "index.jsonl",
    ]
    assert {entry.key: entry.metrics for entry in Ledger(ledger.path).entries()} == after


@pytest.mark.parametrize("cut", [True, False])
def test_a_service_learns_waiting_examples_in_batches_and_outside(tmp_path: Path, cut: bool) -> None:
    """Version 0.1 cut batches when its worker was free: a queue of any length may be uncut."""
    shutil.copytree(OLD / "service", tmp_path / "service")
    if not cut:
        with closing(sqlite3.connect(tmp_path / "service" / "journal.sqlite")) as journal, journal:
            (current,) = journal.execute("SELECT value FROM meta WHERE name = 'current'").fetchone()
            assert journal.execute("UPDATE examples SET batch = NULL WHERE batch > ?", (current,)).rowcount == 8
            journal.execute("UPDATE meta SET value = ? WHERE name = 'batch'", (current,))
    threads = torch.get_num_threads()
    service = Service(tmp_path / "service")
    try:
        assert service.waiting == 11
        service.start()
        wait_for(lambda: not service.waiting)
    finally:
        service.close()
        torch.set_num_threads(threads)
    newest = max((tmp_path / "service" / "versions").glob("*.ek"))
    assert int(newest.stem) == EXPECTED["service"]["version"]
    require_state(ek.Learner.load(newest), EXPECTED["service"]["digests"])


@pytest.mark.parametrize("name", DIGITS)
def test_a_digits_run_gives_the_records_of_the_committed_ledger(name: str) -> None:
    config = ek.load_config("digits", [*NO_EVALUATION, *DIGITS[name]])
    packed = Ledger(RESULTS / "digits").place(run_key(config))
    *records, _ = gzip.decompress(packed.read_bytes()).splitlines(keepends=True)
    require_records(ek.run(config), b"".join(records))


def test_a_run_on_clinc150_gives_the_records_of_version_0_1() -> None:
    if not (Path(os.environ.get("EVENKEEL_DATA", "")) / "clinc150").is_dir():
        pytest.skip("clinc150 is not in EVENKEEL_DATA")
    require_records(ek.run(ek.load_config(*CLINC150)), unpacked("clinc150.jsonl.gz"))


def test_the_keys_of_all_committed_runs_are_unchanged() -> None:
    for ledger in (Ledger(RESULTS / "digits"), Ledger(RESULTS / "slim")):
        assert ledger.runs()
        for key, run in zip(ledger.runs(), ledger.results(ledger.runs()), strict=True):
            assert run_key(ek.load_config(run.started.config)) == key


def test_every_preset_gives_the_same_config_as_before() -> None:
    for line in unpacked("presets.jsonl.gz").splitlines():
        kept = json.loads(line)
        old = without_rar(kept["config"])  # repeats are the learner's now
        expected = {**old, "method": {**old["method"], **CHANGED.get(old["method"]["name"], {})}}
        assert ek.load_config(kept["preset"]).model_dump(mode="json") == expected, kept["preset"]


def test_a_run_of_a_bound_is_the_same_run_though_its_records_do_not_say_so(tmp_path: Path) -> None:
    config = ek.load_config("digits", ["method.name=finetune", "limits.train=5", "evaluation.every=0"])
    records = list(ek.run(config, out=tmp_path))
    path = tmp_path / "records.jsonl"
    text = path.read_text()
    assert '"bound":"lower"' in text
    path.write_text(text.replace(',"bound":"lower"', ""))  # as version 0.1 wrote it
    assert list(ek.run(config, out=tmp_path))[1:] == records[1:]
    assert groups([ek.Results.read(tmp_path)])[0].is_bound


def test_a_run_of_rar_is_read_keyed_and_named_as_before() -> None:
    """Version 0.1 had RAR as a method around another; now its repeats are the learner's."""
    ledger = Ledger(RESULTS / "slim")
    named = [run for run in ledger.results(ledger.runs()) if run.label.startswith("RAR")]
    runs = [run for run in named if run.started.config["learner"]["repeats"] == 2]  # the others came later
    assert [(run.label, run.started.config["method"]["name"]) for run in runs] == [("RAR(DER++)", "derpp")]
    evaluation = ["evaluation.prequential=false", "evaluation.alignment=0", "evaluation.every=0"]
    config = ek.load_config("paper/cifar10-rar", ["net.width=20", "learner.repeats=2", *evaluation])
    assert config.name == runs[0].label
    assert ledger.place(run_key(config)) == runs[0].path


def test_a_service_of_rar_is_opened(tmp_path: Path) -> None:
    """Its config and its journal name RAR; its checkpoints hold it."""
    shutil.copytree(OLD / "service", tmp_path / "service")
    path = tmp_path / "service" / "service.toml"
    old = tomllib.loads(path.read_text())
    old["method"] = {"name": "rar", "base": old["method"], "repeats": 2}
    path.write_text(tomli_w.dumps(old))
    with closing(sqlite3.connect(tmp_path / "service" / "journal.sqlite")) as journal, journal:
        (text,) = journal.execute("SELECT value FROM meta WHERE name = 'learner'").fetchone()
        learner = {**json.loads(text), "method": old["method"]}
        journal.execute("UPDATE meta SET value = ? WHERE name = 'learner'", (json.dumps(learner),))
    service = Service(tmp_path / "service")
    try:
        assert service.config.learner.repeats == 2
        assert service.config.method["name"] == "er"
    finally:
        service.close()
