"""The command line, as a user calls it."""

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import evenkeel as ek
from evenkeel.cli import console, listing
from evenkeel.config.composition import family
from evenkeel.config.loading import presets
from evenkeel.config.schema import PARTS
from evenkeel.results.measures import MEASURES
from tests.helpers.commands import call

SHORT = ["--set", "limits.train=10", "--set", "limits.test=20", "--set", "evaluation.every=0"]


def test_run_then_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, setting in {"plain": "none", "cba": "cba"}.items():
        code, out, err = call(
            capsys, "run", "digits", "--set", f"adaptor.name={setting}", *SHORT, "--out", str(tmp_path / name)
        )
        assert code == 0, err
        assert ("ER + CBA" in out) == (name == "cba")
        assert str(tmp_path / name) in out.replace("\n", "")
    page = tmp_path / "page.html"
    code, out, err = call(capsys, "report", str(tmp_path), "-o", str(page), "--title", "Mine")
    assert code == 0, err
    assert "digits, disjoint: CBA changed ACC by" in out.replace("\n", " ")
    assert "a single seed cannot show whether this is significant" in " ".join(out.split())
    assert "<title>Mine" in page.read_text()
    results = ek.Results.read(tmp_path / "cba")
    assert results.ended is not None
    assert f"{results.ended.metrics['acc']:.1f}" in page.read_text()


def test_a_run_has_its_own_folder_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in ("1", "2"):
        assert call(capsys, "run", "digits-cba", *SHORT, "--set", f"seed={seed}")[0] == 0
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == [
        "digits-disjoint-er-cba-seed1",
        "digits-disjoint-er-cba-seed2",
    ]


def test_a_users_own_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_CACHE", str(tmp_path / "cache"))  # without what other tests decoded
    chance = np.random.default_rng(0)
    for split, count in (("train", 6), ("test", 2)):
        for name in ("cat", "dog", "cow", "hen"):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for place in range(count):
                Image.fromarray(chance.integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(folder / f"{place}.png")
    settings = ["data.name=folder", f"data.path={tmp_path / 'photos'}", "data.size=8", "scenario.tasks=2"]
    order = '["dog", "cat", "hen", "cow"]'
    code, out, err = call(
        capsys,
        "run",
        "digits",
        *(part for each in [*settings, f"scenario.order={order}"] for part in ("--set", each)),
        "--out",
        str(tmp_path / "run"),
    )
    assert code == 0, err
    started = ek.Results.read(tmp_path / "run").started
    assert started.data["classes"] == ["cat", "cow", "dog", "hen"]
    assert [task["classes"] for task in started.tasks] == [[2, 0], [3, 1]]
    code, out, err = call(capsys, "data", "show", "folder", f"path={tmp_path / 'photos'}", "size=8")
    assert code == 0, err
    assert "24 / 8" in out
    assert "(3, 8, 8) uint8" in out
    code, out, _ = call(capsys, "data", "list")
    assert "photos" in out
    code, _, err = call(capsys, "data", "clear")
    assert (code, "all decoded data sets: photos. Give the name of one, or --yes" in err) == (1, True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Terminal("n\n"))
        code, out, err = call(capsys, "data", "clear")
    assert (code, "Delete all decoded data sets: photos?" in out) == (1, True), err
    assert call(capsys, "data", "clear", "photos")[:2] == (0, "0 MB freed: photos.\n")
    assert call(capsys, "data", "clear")[:2] == (0, "0 MB freed: nothing was decoded.\n")


class Terminal(io.StringIO):
    """A person who answers questions."""

    def isatty(self) -> bool:
        return True


def test_brackets_in_names_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ER [lr=0.1]", "[/red]", "a b"):
        folder = tmp_path / f"a[{name.replace('/', '')}]"
        code, out, err = call(capsys, "run", "digits", *SHORT, "--set", f"name={name}", "--out", str(folder))
        assert code == 0, err
        assert f"\n{name}  " in out
        assert f"Records: {folder}" in out


def test_one_run_that_has_not_begun_does_not_spoil_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "run", "digits", *SHORT, "--out", str(tmp_path / "one"))[0] == 0
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "records.jsonl").touch()
    code, _, err = call(capsys, "report", str(tmp_path), "-o", str(tmp_path / "page.html"))
    assert code == 0
    assert "Left out" in err
    code, _, err = call(capsys, "report", str(tmp_path), "-o", str(tmp_path))
    assert code == 1
    assert "it is a folder" in err
    assert call(capsys, "report", str(tmp_path / "two"))[0] == 1


def test_list_names_everything(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.out, "_width", 400)
    overview = call(capsys, "list")[1]
    for topic, part in listing.PARTS.items():
        code, out, _ = call(capsys, "list", topic)
        assert code == 0
        assert f"[{part}]" in out
        for name in PARTS[part].registry:
            assert re.search(rf"^{re.escape(name)} ", out, re.M), name
            assert re.search(rf"[ ,]{re.escape(name)}(,|$)", overview, re.M), name
    assert {*listing.PARTS.values()} == {*PARTS}
    assert "alpha=0.2, beta=0.5" in call(capsys, "list", "methods", "buzzega")[1]
    out = call(capsys, "list", "presets")[1]
    assert all(re.search(rf"(^| ){name}  ", out, re.M) for name in [*presets(), *family("paper")["variant"]])


LISTED: dict[str, tuple[list[str], list[str], list[str]]] = {  # arguments; what is shown; what is not
    "presets with a text": (["presets", "cifar10-er"], ["paper/cifar10-er-cba-64"], ["digits", "cifar100"]),
    "presets with words": (["presets", "DIGITS cba"], ["digits-cba"], ["paper/"]),
    "what presets say of their data": (["presets", "never run"], ["keel/tiny-imagenet-3x"], ["cifar", "paper/"]),
    "all settings": (["settings"], ["evaluation.alignment", "memory.capacity"], ["method.alpha"]),
    "a table": (["settings", "memory"], ["memory.capacity  500"], ["optimizer.lr"]),
    "one setting": (["settings", "optimizer.lr"], ["optimizer.lr"], ["momentum"]),
    "a method": (
        ["settings", "method.derpp"],
        ["method.alpha  0.2", "method.beta   0.5", "logits"],
        ["memory.capacity"],
    ),
    "a method without any": (["settings", "method.icarl"], ["It has no settings"], []),
    "required": (["settings", "scenario.blurry"], ["scenario.percent     required"], []),
    "an adaptor": (["settings", "adaptor.cba"], ["old-classes", "units of the hidden layers"], [">>>"]),
}


@pytest.mark.parametrize(("arguments", "shown", "absent"), LISTED.values(), ids=LISTED)
def test_list_shows_what_is_asked_for(
    arguments: list[str], shown: list[str], absent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, errors = call(capsys, "list", *arguments)
    assert (code, errors) == (0, "")
    assert [text for text in shown if text not in out] == []
    assert [text for text in absent if text in out] == []


def test_list_measures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.out, "_width", 400)
    code, out, _ = call(capsys, "list", "measures")
    assert code == 0
    _, heading, _, *lines, _ = out.splitlines()
    starts = [heading.index(name) for name in ("name", "title", "better", "headline", "definition")]
    places = list(zip(starts, [*starts[1:], None], strict=True))
    rows = {name: cells for name, *cells in ([line[a:b].strip() for a, b in places] for line in lines)}
    assert rows.keys() == MEASURES.keys()
    assert rows["acc"] == ["ACC", "higher", "yes", "ACC = mean over i of R[T-1, i]"]
    assert rows["fm_over_all"][1:3] == ["lower", ""]
    assert rows["recency_bias"][1] == "neither"
    code, _, err = call(capsys, "list", "measure")
    assert (code, "Did you mean 'measures'" in err) == (1, True)


WRONG: dict[str, tuple[list[str], str]] = {
    "preset": (["run", "digit"], "no config file 'digit'.*Did you mean 'digits'"),
    "setting": (["run", "digits", "--set", "method.alpha=1"], "method.er has no setting 'alpha'"),
    "form": (["run", "digits", "--set", "seed"], "not of the form part.setting=value"),
    "data": (["run", "paper/cifar10-er", "--data", "."], "cifar10.*evenkeel data get cifar10"),
    "report": (["report", "/nonexistent"], "There is no run in '/nonexistent'"),
    "download": (["data", "get", "cifar"], "'cifar' cannot be downloaded.*Did you mean 'cifar10'"),
    "shown": (["data", "show", "npz", "path=none.npz"], "none.npz"),
    "width": (["run", "digits", "--set", "net.width=-1"], "width=-1 must be a whole number of at least 1"),
    "clear": (["data", "clear", "mnist"], "The cache has no 'mnist'"),
    "listed": (["list", "settings", "methd.er"], "no settings 'methd.er'.*Did you mean 'method.er'"),
    "found": (["list", "methods", "xyz"], "None of the methods contains 'xyz'"),
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.values(), ids=WRONG)
def test_an_error_is_one_message(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVENKEEL_DATA", raising=False)
    code, out, err = call(capsys, *arguments)
    assert code == 1
    assert re.search(sentence, err.replace("\n", " ")), err
    assert "Traceback" not in err
    assert not list(tmp_path.rglob("records.jsonl"))
    assert out == ""


@pytest.mark.parametrize("command", [["run", "digits"], ["data", "show", "digits"], ["grid", "grid.toml"]])
def test_a_data_folder_must_exist(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grid.toml").write_text("seeds = 1\n[[blocks]]\nbase = 'digits'\n")
    code, _, err = call(capsys, *command, "--data", "nowhere")
    assert code > 0
    assert re.search("'nowhere'.*(does not exist|there is no such folder)", err.replace("\n", " "))
    assert [path.name for path in tmp_path.iterdir()] == ["grid.toml"]


def test_importing_the_library_does_not_import_optional_packages() -> None:
    heavy = "matplotlib|sklearn|pyarrow|PIL|huggingface_hub|typer|jinja2|scipy"
    code = f"import sys, re, evenkeel; print([m for m in sys.modules if re.fullmatch('{heavy}', m)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "evenkeel", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report" in done.stdout
