"""The ledger: keys, many writers, an index that can be rebuilt, packing."""

import errno
import gzip
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

import evenkeel as ek
from evenkeel.errors import RunError, SettingsError
from evenkeel.experiment.run_folder import RunFolder
from evenkeel.grids.ledger import INDEX, Ledger
from evenkeel.grids.run_names import run_key
from evenkeel.results.records import to_line
from evenkeel.results.run_files import PACKED, RECORDS, Results, find_runs, last_record, usage_of
from tests.helpers.commands import call
from tests.helpers.experiments import config
from tests.helpers.moments import Moments
from tests.helpers.runs import make_run


def test_a_key_says_what_a_run_is() -> None:
    base = config()
    same = [
        config("name=other"),
        config("threads=2"),
        config("device=cuda:1"),
        config("memory.device=cpu"),
        config("memory.policy=reservoir"),  # the method's own
        ek.load_config(json.loads(base.model_dump_json())),
    ]
    assert {run_key(each) for each in same} == {run_key(base)}
    others = [
        config(setting)
        for setting in (
            "seed=1",
            "method.name=derpp",
            "adaptor.name=cba",
            "memory.capacity=11",
            "memory.policy=balanced",
            "optimizer.lr=0.1",
            "limits.train=5",
            "limits.tasks=1",
            "evaluation.every=0",
            "augment.name=none",
            "net.width=8",
        )
    ]
    keys = [run_key(each) for each in [base, *others]]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 16 for key in keys)


def test_none_and_the_default_that_it_replaces_are_two_runs() -> None:
    data = [{"name": "core50", "size": size} for size in ("none", 32, 64)]
    assert len({run_key(ek.load_config({"data": each})) for each in data}) == 3


def test_the_key_of_a_run_is_that_of_its_records() -> None:
    """Otherwise a recorded run would not be found again."""
    asked = ek.load_config("digits", ["limits.train=5", "method.name=icarl", "evaluation.every=0", "threads=1"])
    started = next(iter(ek.run(asked))).config  # type: ignore[union-attr]
    assert started["memory"]["policy"] == "balanced"
    assert run_key(ek.Config.model_validate(started)) == run_key(asked)


def fill(path: Path, *numbers: int) -> None:
    ledger = Ledger(path)
    for number in numbers:
        make_run(seed=number, folder=ledger.folder(f"{number:016x}"))
        ledger.note_finished(f"{number:016x}")


def test_many_writers_lose_and_tear_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=fill, args=(tmp_path, *range(k, 40, 4))) for k in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = [json.loads(line) for line in (tmp_path / INDEX).read_text().splitlines()]
    assert sorted(line["key"] for line in lines) == [f"{number:016x}" for number in range(40)]
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == list(range(40))


def test_the_index_holds_nothing_that_the_folders_do_not(tmp_path: Path) -> None:
    fill(tmp_path, 0, 1, 2)
    ledger = Ledger(tmp_path)
    before = sorted((tmp_path / INDEX).read_text().splitlines())
    (tmp_path / INDEX).unlink()
    assert ledger.rebuild() == 3
    assert sorted((tmp_path / INDEX).read_text().splitlines()) == before
    (tmp_path / INDEX).unlink()
    assert [entry.seed for entry in ledger.entries()] == [0, 1, 2]  # rebuilt automatically
    assert sorted((tmp_path / INDEX).read_text().splitlines()) == before


def test_a_torn_line_of_the_index_is_healed(tmp_path: Path) -> None:
    fill(tmp_path, 0, 1)
    whole = (tmp_path / INDEX).read_text()
    (tmp_path / INDEX).write_text(whole[:-30])  # a power cut
    fill(tmp_path, 2)
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == [0, 1, 2]


def test_a_run_that_was_deleted_is_not_finished(tmp_path: Path) -> None:
    fill(tmp_path, 0, 1)
    ledger = Ledger(tmp_path)
    (ledger.folder(f"{0:016x}") / RECORDS).unlink()
    assert [entry.seed for entry in ledger.entries()] == [1]
    assert not ledger.finished(f"{0:016x}")


def test_failures_are_appended_with_what_engineers_need(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    try:
        dict[str, str]()["absent"]
    except KeyError as error:
        ledger.fail("a" * 16, error)
    ledger.fail("a" * 16, RunError("The disk is full."))
    first, second = ledger.failures("a" * 16)
    assert first.error == "KeyError: 'absent'"
    assert "test_ledger.py" in first.trace
    assert (second.error, second.trace) == ("The disk is full.", "")
    assert ledger.runs() == ["a" * 16]
    assert not ledger.entries()


def test_a_run_is_busy_while_its_folder_is_held(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert not ledger.busy("b" * 16)
    folder = RunFolder(ledger.folder("b" * 16))
    assert ledger.busy("b" * 16)
    folder.close()
    assert not ledger.busy("b" * 16)


def test_packing_makes_one_readable_file_of_a_finished_run(tmp_path: Path) -> None:
    asked = ek.load_config("digits", ["limits.train=5", "evaluation.every=0", "evaluation.alignment=0", "threads=1"])
    key, ledger = run_key(asked), Ledger(tmp_path)
    records = list(ek.run(asked, out=ledger.folder(key)))
    sessions = Results.read(ledger.folder(key)).sessions
    unfinished = make_run(seed=9, finished=False, folder=ledger.folder("c" * 16))
    assert ledger.pack() > 0
    path = tmp_path / f"digits-20-er-seed0-{key[:8]}.jsonl.gz"
    assert {each for each in tmp_path.iterdir() if not each.name.startswith(".")} == {
        *(path, tmp_path / INDEX),
        ledger.folder("c" * 16),  # what is not finished stays
    }
    assert len(Results.read(ledger.folder("c" * 16)).steps) == len(unfinished.steps)
    for each in (ledger, Ledger(tmp_path)):
        assert each.finished(key)
        assert each.place(key) == path
        assert each.runs() == sorted([key, "c" * 16])
        assert [entry.key for entry in each.entries()] == [key]
    assert set(find_runs([tmp_path])) == {path, ledger.folder("c" * 16)}
    assert find_runs([path]) == [path]
    run = Results.read(path)
    assert (run.started, run.ended, run.sessions) == (records[0], records[-1], sessions)
    assert sessions
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    assert lines[:-1] == list(map(to_line, records))
    first = path.read_bytes()
    assert ledger.pack() == 0  # a second time changes nothing
    assert path.read_bytes() == first


def test_a_kill_at_any_moment_leaves_a_ledger_that_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, noted = Ledger(tmp_path / "whole"), list[int]()
    for number in range(3):
        make_run(seed=number, folder=whole.folder(f"{number:016x}"))
    moments = Moments(whole.path, tmp_path / "killed", note=noted.copy)
    with monkeypatch.context() as patch:
        moments.watch(patch)
        for number in range(3):
            whole.note_finished(f"{number:016x}")
            noted.append(number)
        whole.rebuild()
        whole.pack()
    packed_runs = {path.name: path.read_bytes() for path in whole.path.glob(f"*{PACKED}")}
    assert len(packed_runs) == 3
    for folder, finished in moments.left:
        ledger = Ledger(folder)
        assert {entry.seed for entry in ledger.entries()} >= set(finished), folder
        assert ledger.runs() == [f"{number:016x}" for number in range(3)]
        ledger.rebuild()
        ledger.pack()
        assert [entry.seed for entry in Ledger(folder).entries()] == [0, 1, 2]
        assert {path.name: path.read_bytes() for path in folder.glob(f"*{PACKED}")} == packed_runs


def test_packing_that_was_killed_is_done_again(tmp_path: Path) -> None:
    """Between the packed file and the end of its folder both are there, and the folder counts."""
    fill(tmp_path, 0)
    key, ledger = f"{0:016x}", Ledger(tmp_path)
    shutil.copytree(ledger.folder(key), tmp_path / "copy")
    ledger.pack()
    (path,) = tmp_path.glob(f"*{PACKED}")
    content = path.read_bytes()
    shutil.move(tmp_path / "copy", ledger.folder(key))
    path.write_bytes(content[:100])  # as if its disk had failed, too
    assert Ledger(tmp_path).finished(key)
    Ledger(tmp_path).pack()
    assert path.read_bytes() == content
    assert not ledger.folder(key).exists()


def test_runs_with_one_name_and_almost_one_key_have_files_of_their_own(tmp_path: Path) -> None:
    ledger, keys = Ledger(tmp_path), ["a" * 15 + "1", "a" * 15 + "2"]
    for key in keys:
        make_run(seed=5, folder=ledger.folder(key))
    ledger.pack()
    assert sorted(path.name for path in tmp_path.glob(f"*{PACKED}")) == [
        f"digits-200-er-seed5-{'a' * 8}{PACKED}",
        f"digits-200-er-seed5-{'a' * 15}2{PACKED}",
    ]
    assert ledger.runs() == keys
    assert len({ledger.place(key) for key in keys}) == 2


def test_a_packed_run_is_seen_at_once_by_a_ledger_that_looked_before(tmp_path: Path) -> None:
    fill(tmp_path, *range(6))
    watching = Ledger(tmp_path)
    for number in range(6):
        key = f"{number:016x}"
        assert watching.finished(key)
        Ledger(tmp_path).pack()
        assert watching.finished(key)
        assert watching.place(key).name.endswith(PACKED)


def test_the_index_entry_of_a_run_that_is_repeated_does_not_count(tmp_path: Path) -> None:
    """It was finished once, its folder was deleted, and now a process is at work on it again."""
    fill(tmp_path, 0, 1)
    key, ledger = f"{0:016x}", Ledger(tmp_path)
    shutil.rmtree(ledger.folder(key))
    make_run(seed=0, stop=3, folder=ledger.folder(key))
    held = RunFolder(ledger.folder(key))
    assert [entry.seed for entry in ledger.entries()] == [1]
    assert ledger.state(key) == "running, step 3"
    ledger.pack()
    assert (ledger.folder(key) / RECORDS).is_file()
    held.close()
    assert ledger.state(key) == "at step 3"
    shutil.rmtree(ledger.folder(key))
    make_run("another name", seed=0, folder=ledger.folder(key))
    ledger.note_finished(key)
    assert [entry.name for entry in ledger.entries()] == ["another name", "ER"]


def test_a_finished_run_that_someone_holds_is_not_packed(tmp_path: Path) -> None:
    fill(tmp_path, 0, 1)
    held = RunFolder(Ledger(tmp_path).folder(f"{0:016x}"))
    Ledger(tmp_path).pack()
    assert [usage.key for path in tmp_path.glob(f"*{PACKED}") if (usage := usage_of(path))] == [f"{1:016x}"]
    held.close()


def test_a_damaged_packed_run_is_not_finished_and_harms_no_other(tmp_path: Path) -> None:
    fill(tmp_path, 0, 1)
    ledger = Ledger(tmp_path)
    ledger.pack()
    path = ledger.place(f"{0:016x}")
    path.write_bytes(path.read_bytes()[:300])
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == [1]
    assert Ledger(tmp_path).damaged() == [path]
    make_run(seed=0, folder=ledger.folder(f"{0:016x}"))  # done again, it takes the place of the damaged one
    Ledger(tmp_path).pack()
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == [0, 1]


def test_every_command_names_what_is_damaged_and_leaves_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, 0, 1, 2, 3)
    whole, short, headless, starting = (f"{seed:016x}" for seed in range(4))
    records = tmp_path / headless / RECORDS
    records.write_bytes(b"".join(records.read_bytes().splitlines(keepends=True)[1:]))
    (tmp_path / starting / RECORDS).write_bytes(b'{"kind":"sta')
    ledger = Ledger(tmp_path)
    ledger.pack()
    file = ledger.place(short)
    file.write_bytes(file.read_bytes()[:-200])
    assert [entry.key for entry in Ledger(tmp_path).entries()] == [whole]
    assert Ledger(tmp_path).rebuild() == 1
    assert Ledger(tmp_path).damaged() == [file, tmp_path / headless]
    assert [Ledger(tmp_path).finished(key) for key in (whole, short, headless, starting)] == [True, *[False] * 3]
    for command in (["list"], ["rebuild"], ["pack"], ["export", "-o", str(tmp_path / "runs.csv")]):
        code, _, err = call(capsys, "ledger", command[0], str(tmp_path), *command[1:])
        assert code == 0, err
        assert [line for line in err.splitlines() if line] == [
            f"Left out: {path} is damaged. Delete it, and the grid that it is of will run it again."
            for path in (file, tmp_path / headless)
        ]
    code, _, err = call(capsys, "table", str(tmp_path))
    assert code == 0, err
    assert f"Left out: {file} is damaged" in err


@pytest.mark.parametrize("line", ["123", '{"key": "x"}', "[]", "null", '"a"'])
def test_meaningless_lines_are_skipped(tmp_path: Path, line: str) -> None:
    fill(tmp_path, 0)
    for path in (tmp_path / INDEX, tmp_path / f"{0:016x}" / "failures.jsonl"):
        with path.open("a") as file:
            file.write(line + "\n")
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == [0]
    assert Ledger(tmp_path).failures(f"{0:016x}") == []
    known = json.loads((tmp_path / INDEX).read_text().splitlines()[0])
    (tmp_path / INDEX).write_text(json.dumps({**known, "of a later version": 1}) + "\n")
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == [0]


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    make_run(folder=tmp_path / "a run of my own")
    assert Ledger(tmp_path).runs() == []
    Ledger(tmp_path).pack()
    assert (tmp_path / "a run of my own" / RECORDS).is_file()


def test_an_unwritable_ledger_is_reported_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(RunError, match="Cannot keep a ledger in"):
            Ledger(path).require_writable()
    Ledger(tmp_path / "new").require_writable()
    assert list((tmp_path / "new").iterdir()) == []


def test_runs_made_one_by_one_are_adopted(tmp_path: Path) -> None:
    asked = ek.load_config("digits", ["limits.train=5", "evaluation.every=0", "evaluation.alignment=0", "threads=1"])
    ledger = Ledger(tmp_path / "ledger")
    list(ek.run(asked, out=tmp_path / "one"))
    assert ledger.adopt(tmp_path / "one") == run_key(asked)
    assert [entry.key for entry in ledger.entries()] == [run_key(asked)]
    list(ek.run(asked, out=tmp_path / "again"))
    with pytest.raises(RunError, match="already has"):
        ledger.adopt(tmp_path / "again")
    held = RunFolder(tmp_path / "again")
    with pytest.raises(RunError, match="A process is working"):
        Ledger(tmp_path / "other").adopt(tmp_path / "again")
    held.close()
    make_run(folder=tmp_path / "unknown")  # of a method that does not exist
    with pytest.raises(SettingsError, match="'ER' is not one of er"):
        ledger.adopt(tmp_path / "unknown")


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_run_whose_earlier_attempt_failed_is_adopted(tmp_path: Path, is_packed: bool) -> None:
    asked = ek.load_config("digits", ["limits.train=5", "evaluation.every=0", "evaluation.alignment=0", "threads=1"])
    run, ledger, key = tmp_path / "one", Ledger(tmp_path / "ledger"), run_key(asked)
    list(ek.run(asked, out=run))
    if is_packed:
        other = Ledger(tmp_path / "other")
        other.adopt(run)
        other.pack()
        run = other.place(key)
    ledger.fail(key, "out of memory")
    held = RunFolder(ledger.folder(key))
    with pytest.raises(RunError, match="A process is working"):
        ledger.adopt(run)
    held.close()
    assert ledger.adopt(run) == key
    assert ledger.finished(key)
    assert [entry.key for entry in ledger.entries()] == [key]
    assert not run.exists()


def test_the_last_record_is_found_from_the_end(tmp_path: Path) -> None:
    run = make_run(seed=3, classes=100, folder=tmp_path / "run")  # its last test is longer than a chunk
    assert last_record(tmp_path / "run") == run.ended
    path = tmp_path / "run" / RECORDS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert last_record(tmp_path / "run") == run.tested[-1]
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:10])  # torn
    assert last_record(tmp_path / "run") == run.tested[-1]
    path.write_bytes(lines[0][:50])
    assert last_record(tmp_path / "run") is None
    path.write_bytes(b"")
    assert last_record(tmp_path / "run") is None
    assert last_record(tmp_path) is None


@pytest.mark.parametrize(
    ("kind", "whole_line"), [("step", False), ("anytime", False), ("test", False), ("step", True), ("test", True)]
)
def test_a_run_that_lost_a_record_in_the_middle_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, whole_line: bool
) -> None:
    fill(tmp_path, 0, 1)
    whole, torn = (f"{seed:016x}" for seed in range(2))
    ledger, records = Ledger(tmp_path), tmp_path / torn / RECORDS
    assert len(ledger.entries()) == 2
    lines = records.read_bytes().splitlines(keepends=True)
    *_, place, _ = (number for number, line in enumerate(lines) if line.startswith(f'{{"kind":"{kind}"'.encode()))
    lines[place] = b"" if whole_line else b"\0" + lines[place][1:]
    records.write_bytes(b"".join(lines))
    for each in (ledger, Ledger(tmp_path)):
        assert [entry.key for entry in each.entries()] == [whole]
        assert each.damaged() == [tmp_path / torn]
    (tmp_path / INDEX).unlink()
    report = ["report", "--output", str(tmp_path / "report.html")]
    for command in (["ledger", "list"], ["ledger", "pack"], ["table", "--measures", "acc,prequential"], report):
        code, _, err = call(capsys, *command, str(tmp_path))
        assert code == 0, (command, err)
        assert f"Left out: {tmp_path / torn} is damaged" in err.replace("\n", "")


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES])
def test_a_ledger_that_may_only_be_read_needs_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    fill(tmp_path, 0)
    (tmp_path / INDEX).unlink(missing_ok=True)

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(Ledger, "_index_lock", refuse)
    assert [entry.seed for entry in Ledger(tmp_path).entries()] == [0]
    error = errno.ENOSPC
    with pytest.raises(OSError, match="space"):
        Ledger(tmp_path).entries()
