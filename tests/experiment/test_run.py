"""Runs: every method without and with CBA in every scenario, correct records, users' own data, exact resume."""

import json
from collections.abc import Sequence
from itertools import pairwise, product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import evenkeel as ek
from evenkeel.data.scenarios import Plan
from evenkeel.errors import InputError, RunError, SettingsError
from evenkeel.experiment.run_folder import MODEL
from evenkeel.experiment.setup import new_learner, planned
from evenkeel.results.groups import key_of
from evenkeel.results.measures import MEASURES, summarise
from evenkeel.results.records import to_line
from evenkeel.results.run_files import RECORDS
from tests.helpers.cases import thinned
from tests.helpers.experiments import DATA, config, small_data
from tests.helpers.streams import images

SCENARIOS: dict[str, dict[str, Any]] = {
    "disjoint": {"tasks": 2},
    "blurry": {"tasks": 2, "percent": 20},
    "i-blurry": {"tasks": 2, "disjoint": 50, "blur": 20},
    "gradual": {"tasks": 2},
    "offline": {"tasks": 2, "epochs": 2},
    "rotated": {"tasks": 2},
    "permuted": {"tasks": 2},
}
SETTINGS: dict[str, dict[str, Any]] = {"gdumb": {"epochs": 2}}
EVERY = list(product(ek.METHODS, ["none", "cba"], SCENARIOS))


def supported(method: str, adaptor: str, scenario: str) -> bool:
    traits = ek.METHODS[method]
    unbounded = traits.needs_boundaries and scenario in ("gradual", "i-blurry")
    return not unbounded and not (adaptor == "cba" and traits.no_adaptor)


def results(one: ek.Config, **how: Any) -> ek.Results:
    return ek.Results.of(ek.run(one, **({"data": DATA} | how)))


def combined(method: str, adaptor: str, scenario: str) -> ek.Config:
    parts = {"method": {"name": method, **SETTINGS.get(method, {})}, "adaptor": {"name": adaptor}}
    return config(**parts, scenario={"name": scenario, **SCENARIOS[scenario]})


@pytest.mark.parametrize(("method", "adaptor", "scenario"), [case for case in EVERY if not supported(*case)])
def test_what_does_not_fit_together_is_refused(method: str, adaptor: str, scenario: str) -> None:
    traits = ek.METHODS[method]
    if adaptor == "cba" and traits.no_adaptor:
        with pytest.raises(
            SettingsError, match=r"cannot be combined with method.name.* it (predicts by|keeps no|is trained)"
        ):
            combined(method, adaptor, scenario)
    else:
        with pytest.raises(SettingsError, match=rf"{traits.__name__}\(.*\) needs to know when a task ends"):
            results(combined(method, adaptor, scenario))


@pytest.mark.parametrize(("method", "adaptor", "scenario"), thinned(case for case in EVERY if supported(*case)))
def test_every_method_in_every_scenario(method: str, adaptor: str, scenario: str) -> None:
    outcome = results(combined(method, adaptor, scenario))
    steps = [task["steps"] for task in outcome.started.tasks]
    assert [step.step for step in outcome.steps] == list(range(1, sum(steps) + 1))
    assert [step.task for step in outcome.steps] == [task for task, n in enumerate(steps) for _ in range(n)]
    assert [(test.task, test.step) for test in outcome.tested] == [(-1, 0), (0, steps[0]), (1, sum(steps))]
    assert [point.step for point in outcome.anytime] == [
        begin + place + 1 for begin, n in ((0, steps[0]), (steps[0], steps[1])) for place in range(0, n, 2)
    ]
    assert all(step % 2 == 0 for step in (each.step for each in outcome.aligned))
    assert (adaptor == "cba") == any(step.outer_loss is not None for step in outcome.steps)
    assert outcome.ended is not None
    assert outcome.ended.metrics.keys() == MEASURES.keys()
    missing = {name for name, value in outcome.ended.metrics.items() if value is None}
    assert missing == ({"recency_bias"} if scenario in ("rotated", "permuted") else set())
    for test in outcome.tested:
        rows = zip(test.masked, test.seen, test.accuracy, strict=True)
        assert all(masked >= plain for masked, _, plain in rows)
        full = 0 if test.task < 0 or not ek.METHODS[method].rehearses else 10
        assert full - (method == "bic") <= sum(test.memory) <= full  # BiC's held-out part may not be full


def test_a_run_depends_on_its_config_seed_and_data_alone() -> None:
    one = config(adaptor={"name": "cba"})
    first, again = ([to_line(record) for record in ek.run(one, data=DATA)] for _ in range(2))
    assert first == again
    torch.manual_seed(123)
    assert [to_line(record) for record in ek.run(one, data=DATA)] == first
    other = results(config("seed=1", adaptor={"name": "cba"}))
    assert other.started.stream != json.loads(first[0])["stream"]


def test_methods_with_one_seed_see_the_same_stream() -> None:
    streams = {results(config(method={"name": name})).started.stream for name in ("er", "derpp")}
    assert len(streams) == 1


@pytest.mark.parametrize("measured", ["evaluation.every=0", "evaluation.prequential=false", "evaluation.alignment=0"])
def test_evaluation_changes_nothing(measured: str) -> None:
    """The weights are the same whatever is measured along the way; it must not affect dropout or augmentation."""
    watched, not_watched = results(config()), results(config(measured))
    assert [step.loss for step in watched.steps] == [step.loss for step in not_watched.steps]
    assert watched.tested == not_watched.tested


def test_the_version_of_the_code_is_recorded() -> None:
    assert results(config()).started.versions["evenkeel"] == ek.__version__


def test_the_last_short_batch_can_be_dropped() -> None:
    kept, dropped = (results(config(f"batches.drop_last={drop}", "batches.size=7")) for drop in ("false", "true"))
    assert [step.samples for step in kept.steps] == [7, 7, 7, 3] * 2
    assert [step.samples for step in dropped.steps] == [7, 7, 7] * 2
    with pytest.raises(
        SettingsError, match=r"'task 1' has no batch to learn from: its 24 samples .* drop_last = false"
    ):
        ek.run(config("batches.drop_last=true", "batches.size=25"), data=DATA)


def test_task_information_reaches_the_learner_only_where_the_scenario_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    boundaries: list[int] = []
    monkeypatch.setattr(ek.Learner, "boundary", lambda self: boundaries.append(self.step))
    results(config())
    assert boundaries == [4, 8]
    boundaries.clear()
    for scenario in ({"name": "gradual", "tasks": 2}, {"name": "disjoint", "tasks": 2, "boundaries": False}):
        results(config(scenario=scenario))
    assert boundaries == []


def test_what_needs_boundaries_is_rejected_if_none_are_reported() -> None:
    late = {"name": "cba", "start": "second-task"}
    assert any(step.outer_loss is not None for step in results(config("adaptor.every=1", adaptor=late)).steps)
    for scenario in ({"name": "gradual", "tasks": 2}, {"name": "disjoint", "tasks": 2, "boundaries": False}):
        with pytest.raises(SettingsError, match=r"CBA\(.*start='second-task'.* needs to know when a task ends"):
            ek.run(config(adaptor=late, scenario=scenario), data=DATA)
    with pytest.raises(SettingsError, match="needs to know when a task ends"):
        ek.run(config(adaptor=late), stream=images())
    with pytest.raises(SettingsError, match="needs to know when a task ends"):
        ek.run(config(method={"name": "ss_il"}), stream=images())


def test_prequential_predicts_before_it_learns() -> None:
    """By hand: predict each batch, then learn it."""
    setup = planned(config(), DATA, None, lambda *_: None)
    one, right = new_learner(setup), []
    for batch in setup.stream.batches():
        right.append(int((one.predict(batch.x) == np.array(batch.labels)).sum()))
        one.learn(batch.x, batch.labels)
    outcome = results(config(scenario={"name": "disjoint", "tasks": 2, "boundaries": False}))
    assert [step.correct for step in outcome.steps] == right
    assert right[4] == 0  # the first batch of new classes cannot be predicted yet
    assert sum(right) > 0
    assert outcome.ended is not None
    assert outcome.ended.metrics["prequential"] == pytest.approx(100 * sum(right) / 48)
    assert summarise(results(config("evaluation.prequential=false")))["prequential"] is None


def test_class_order_and_tasks_may_be_listed() -> None:
    for tasks in ([["dog"], ["bee", "ant"]], [[3], [1, 0]]):
        outcome = results(config(scenario={"name": "disjoint", "tasks": tasks}))
        assert [task["classes"] for task in outcome.started.tasks] == [[3], [1, 0]]
    outcome = results(config(scenario={"name": "disjoint", "tasks": 2, "order": ["dog", "cat", "bee", "ant"]}))
    assert [task["classes"] for task in outcome.started.tasks] == [[3, 2], [1, 0]]
    drawn = {
        str([task["classes"] for task in results(config(f"seed={seed}", "scenario.order=drawn")).started.tasks])
        for seed in range(4)
    }
    assert len(drawn) > 1
    with pytest.raises(SettingsError, match=r"dgo.*Did you mean 'dog'"):
        ek.run(config(scenario={"name": "disjoint", "tasks": [["dgo"], ["cat"]]}), data=DATA)


def test_a_growing_head_starts_with_nothing() -> None:
    outcome = results(config("learner.head=growing"))
    assert [step.classes for step in outcome.steps] == [2] * 4 + [4] * 4
    assert outcome.steps[0].correct == 0
    assert outcome.tested[1].accuracy[1] == 0
    assert outcome.tested[1].masked[1] == 0  # no output of that task exists yet


def test_any_iterable_of_batches_is_a_stream() -> None:
    stream = images(batches=8)
    labels = [[f"class {label}" for label in y] for _, y in stream]
    batches = [(x.numpy(), y) for (x, _), y in zip(stream, labels, strict=True)]
    outcome = results(config(), data=None, stream=(batch for batch in batches))
    assert len(outcome.steps) == 8
    assert outcome.started.steps is None
    assert not outcome.tested
    assert outcome.ended is not None
    adapted = results(config(adaptor={"name": "cba"}), data=None, stream=iter(batches))
    others = results(config(), data=None, stream=batches[1:])
    assert key_of(outcome) == key_of(adapted) != key_of(others)  # they are paired
    assert {name for name, value in outcome.ended.metrics.items() if value is not None} == {"prequential"}

    test = (torch.cat([x for x, _ in stream]), [label for part in labels for label in part])
    task = [int(label[-1]) // 2 for label in test[1]]
    tasked = [(x, y, place // 4) for place, (x, y) in enumerate(batches)]
    outcome = results(config(), data=None, stream=tasked, test=(*test, task))
    assert outcome.started.steps == 8
    assert [(each.task, each.step) for each in outcome.tested] == [(-1, 0), (0, 4), (1, 8)]
    assert outcome.ended is not None
    assert outcome.ended.metrics["acc"] is not None


def test_a_run_of_an_iterable_resumes_too(tmp_path: Path) -> None:
    batches = images(batches=8)
    whole = [to_line(each) for each in ek.run(config(), stream=batches, out=tmp_path / "whole")]
    half = ek.run(config(), stream=batches, out=tmp_path / "half", save_every=0)
    for _ in range(10):
        next(half)
    half.close()  # type: ignore[attr-defined]
    assert [to_line(each) for each in ek.run(config(), stream=batches, out=tmp_path / "half")] == whole


ONE = torch.zeros(1, 1, 8, 8)


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ([], "The stream is empty"),
        ([torch.zeros(2, 1, 8, 8)], r"Batch 1 of the stream is not \(x, labels\)"),
        ([(ONE, [1], 0), (ONE, [1], 1), (ONE, [1], 0)], "Batch 3 .* is of task 0, where 1 or 2 was expected"),
        ([(ONE, [1], 0), (ONE, [1], 2)], "Batch 2 .* is of task 2, where 0 or 1 was expected"),
        ([(ONE, [1], 1)], "Batch 1 .* is of task 1, where 0 was expected"),
        ([(ONE, [1], 0), (ONE, [1])], "Batch 2 .* is of task None, where 0 or 1"),
        ([(ONE, [1]), (ONE, [1], 0)], "Batch 2 .* is of task 0, where no task"),
        ([(ONE, [1]), None], r"Batch 2 of the stream is not \(x, labels\)"),
        ([(3, [1])], r"x of batch 1 .* must be an array \(samples, ...\)"),
        ([([[1, 2], [3]], [1, 2])], "x of batch 1 .* must be an array"),
        ([(torch.zeros(1, 16, 16, 3), [1])], r"\(16, 16, 3\) looks channels-last"),
        (5, "stream must be an iterable"),
    ],
)
def test_invalid_streams_are_rejected(stream: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        list(ek.run(config(), stream=stream))


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        (5, "test must be"),
        ((ONE, [1], [0]), "both have tasks"),
        ((ONE, []), "0 labels"),
        (("x", [1]), "cannot be converted to tensors"),
    ],
)
def test_invalid_test_data_is_rejected(test: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ek.run(config(), stream=images(), test=test)
    with pytest.raises(InputError, match=r"The tasks of test are \[1\]"):
        ek.run(config(), stream=[(x, y, 0) for x, y in images()], test=(ONE, [1], [1]))


def test_a_stream_with_more_tasks_than_its_test_is_reported() -> None:
    stream = [(x, y, place // 3) for place, (x, y) in enumerate(images(batches=9))]
    with pytest.raises(InputError, match="has reached task 2, but test has only tasks below 2"):
        list(ek.run(config(), stream=stream, test=(stream[0][0][:2], [0, 1], [0, 1])))


def test_a_stream_may_bring_labels_that_the_test_lacks() -> None:
    stream = [(x, ["z"] * len(y)) for x, y in images(batches=2)] + images(batches=2)
    outcome = results(config(), data=None, stream=stream, test=(images(batches=1)[0][0], images(batches=1)[0][1]))
    assert outcome.started.config["learner"]["head"] == "growing"
    assert outcome.started.config["scenario"] is None
    assert outcome.tested[0].confusion == [[0, 0], [0, 0]]  # it knows no label yet, so it predicts nothing
    assert outcome.tested[0].recall == [0, 0]
    total = sum(map(sum, outcome.tested[-1].confusion))
    assert total <= 6
    right = sum(row[place] for place, row in enumerate(outcome.tested[-1].confusion))
    assert outcome.tested[-1].accuracy == pytest.approx([100 * right / 6])


def test_a_run_does_not_resume_with_another_stream(tmp_path: Path) -> None:
    batches = images(batches=8)
    begun = ek.run(config(), stream=batches, out=tmp_path, save_every=0)
    for _ in range(6):
        next(begun)
    begun.close()  # type: ignore[attr-defined]
    begun = ek.run(config(), stream=iter(batches), out=tmp_path / "iterator", save_every=0)
    for _ in range(6):
        next(begun)
    begun.close()  # type: ignore[attr-defined]
    with pytest.raises(RunError, match="batches differ"):
        list(ek.run(config(), stream=images(batches=8, seed=1), out=tmp_path))
    with pytest.raises(RunError, match="has only 2 batches"):
        list(ek.run(config(), stream=iter(batches[:2]), out=tmp_path / "iterator"))
    assert len(ek.Results.of(ek.run(config(), stream=batches, out=tmp_path)).steps) == 8


def test_two_runs_at_once_do_not_disturb_each_other() -> None:
    """Nor does the caller notice: torch's number of threads stays the same for it."""
    mine = torch.get_num_threads()
    few = "limits.train=3"  # two threads wait for each other, which takes long on a busy machine
    one, two = config("threads=1", few), config("threads=2", few, "method.name=derpp")
    alone = [[to_line(record) for record in ek.run(each, data=DATA)] for each in (one, two)]
    together: list[list[str]] = [[], []]
    for pair in zip_longest(ek.run(one, data=DATA), ek.run(two, data=DATA)):
        assert torch.get_num_threads() == mine
        for lines, record in zip(together, pair, strict=True):
            if record is not None:
                lines.append(to_line(record))
    assert together == alone


def test_limits_apply_to_users_own_data_too() -> None:
    outcome = results(config("limits.train=3", "limits.test=2"))
    assert (outcome.started.data["train"], outcome.started.data["test"]) == (12, 8)
    assert outcome.started.config["data"] == {"name": "small"}


def test_errors_are_reported_before_any_work(tmp_path: Path) -> None:
    out = tmp_path / "run"
    wrong = [config("optimizer.name=Adam", adaptor={"name": "cba"}), config("scenario.tasks=3")]
    for one in wrong:
        with pytest.raises(SettingsError):
            ek.run(one, data=DATA, out=out)
    assert not out.exists()
    with pytest.raises(SettingsError, match="Give data or a stream, not both"):
        ek.run(config(), data=DATA, stream=images())
    with pytest.raises(SettingsError, match="test belongs to a stream"):
        ek.run(config(), data=DATA, test=([], []))


# ---- resuming ----


@pytest.mark.parametrize("stop", [0, 9, *(pytest.param(stop, marks=pytest.mark.slow) for stop in (1, 2, 5, 14, 20))])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path: Path, stop: int) -> None:
    one = config(method={"name": "derpp"}, adaptor={"name": "cba", "every": 1, "hidden": [8]})
    whole = list(ek.run(one, data=DATA, out=tmp_path / "whole"))
    for save_every in (0.0, 3600.0):  # a checkpoint after each step, or none at all
        folder = tmp_path / f"{save_every}"
        begun = ek.run(one, data=DATA, out=folder, save_every=save_every)
        for _ in range(stop):
            next(begun)
        begun.close()  # type: ignore[attr-defined]
        assert list(map(to_line, ek.run(one, data=DATA, out=folder))) == list(map(to_line, whole))
        assert (folder / RECORDS).read_bytes() == (tmp_path / "whole" / RECORDS).read_bytes()
        last, same = (ek.Learner.load(each / MODEL) for each in (folder, tmp_path / "whole"))
        assert torch.equal(last.logits(torch.tensor(DATA.test.x)), same.logits(torch.tensor(DATA.test.x)))


def test_a_finished_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(ek.run(config(), data=DATA, out=tmp_path))
    monkeypatch.setattr(ek.Learner, "learn", lambda *_: pytest.fail("it learns again"))
    assert list(map(to_line, ek.run(config(), data=DATA, out=tmp_path))) == list(map(to_line, whole))


def test_torn_records_are_cut_off(tmp_path: Path) -> None:
    whole = list(map(to_line, ek.run(config(), data=DATA, out=tmp_path / "whole")))
    text = (tmp_path / "whole" / RECORDS).read_bytes()
    for cut in range(1, 12, 3):
        folder = tmp_path / str(cut)
        begun = ek.run(config(), data=DATA, out=folder, save_every=0)
        for _ in range(8):
            next(begun)
        begun.close()  # type: ignore[attr-defined]
        kept = (folder / RECORDS).read_bytes()
        (folder / RECORDS).write_bytes(text[: len(kept) + 7 * cut])  # as if killed while writing
        assert list(map(to_line, ek.run(config(), data=DATA, out=folder))) == whole


def test_another_run_is_not_overwritten(tmp_path: Path) -> None:
    list(ek.run(config(), data=DATA, out=tmp_path))
    before = (tmp_path / RECORDS).read_bytes()
    with pytest.raises(RunError, match=r"holds another run: config.method.name is 'er' there and 'derpp' here"):
        list(ek.run(config(method={"name": "derpp"}), data=DATA, out=tmp_path))
    with pytest.raises(RunError, match=r"data.digest is"):
        list(ek.run(config(), data=small_data(train=13), out=tmp_path))
    assert (tmp_path / RECORDS).read_bytes() == before


def test_damage_is_reported(tmp_path: Path) -> None:
    begun = ek.run(config(), data=DATA, out=tmp_path, save_every=0)
    for _ in range(12):
        next(begun)
    with pytest.raises(RunError, match="or an unclosed run of this one, is using"):
        next(ek.run(config(), data=DATA, out=tmp_path))
    begun.close()  # type: ignore[attr-defined]
    text = (tmp_path / RECORDS).read_bytes().splitlines(keepends=True)
    for wrong in (text[:4], [*text[:3], *text[4:]], [*text[:4], *text[3:]], [line[:-1] + b"\r\n" for line in text]):
        (tmp_path / RECORDS).write_bytes(b"".join(wrong))
        with pytest.raises(RunError, match=r"does not match the last checkpoint"):
            list(ek.run(config(), data=DATA, out=tmp_path))
    (tmp_path / RECORDS).write_bytes(b"".join(text))
    (tmp_path / MODEL).write_bytes(b"not a model")
    with pytest.raises(RunError, match=r"cannot be resumed: .*model.ek' is not a complete checkpoint.* Delete"):
        list(ek.run(config(), data=DATA, out=tmp_path))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(RunError, match="Cannot keep a run in"):
        list(ek.run(config(), data=DATA, out=file))


def test_a_run_that_failed_before_its_first_step_does_not_block_its_folder(tmp_path: Path) -> None:
    wrong = config("augment.name=rand-augment", net={"name": "mlp"}, augment={"name": "rand-augment"})
    features = ek.DataSet.of(np.eye(8), [0, 1, 2, 3] * 2, np.eye(8), [0, 1, 2, 3] * 2)
    with pytest.raises(InputError):
        list(ek.run(wrong, data=features, out=tmp_path))
    right = config(net={"name": "mlp"}, augment={})
    assert isinstance(list(ek.run(right, data=features, out=tmp_path))[-1], ek.Ended)


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evenkeel.learning.checkpoint.write", full)
    with pytest.raises(RunError, match=r"Cannot write to '.*': No space left on device. Existing files are unchanged."):
        list(ek.run(config(), data=DATA, out=tmp_path, save_every=0))
    monkeypatch.undo()
    whole = list(map(to_line, ek.run(config(), data=DATA)))
    assert list(map(to_line, ek.run(config(), data=DATA, out=tmp_path))) == whole


# ---- the diagnostic of Theorem 1 ----


def test_alignment_by_hand() -> None:
    """It is the cosine of two gradients from autograd for the same batches, without batch norm or augmentation."""
    net = ek.mlp(features=64, classes=4, hidden=(8,))
    cba = ek.CBA(every=1, start="first")
    one = ek.Learner(net, ek.ER(), adaptor=cba, memory=6, replay=100, classes=range(4))
    for x, y in images(batches=6):
        one.learn(x, y)
    x, y = images(batches=7)[6]
    held_x, held_y = one.memory.column("x").float() / 255, one.memory.column("y")
    logits, held = net(x.float() / 255), net(held_x)
    ce = torch.nn.functional.cross_entropy
    training = ce(cba.corrected(logits), torch.tensor(y)) + ce(cba.corrected(held), held_y)
    memory = ce(net(held_x), held_y)
    flat = [
        torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(net.parameters()))])
        for loss in (training, memory)
    ]
    alignment = one.alignment(x, y)
    assert alignment is not None
    cosine, training_norm, memory_norm = alignment
    assert cosine == pytest.approx(float(torch.nn.functional.cosine_similarity(flat[0], flat[1], dim=0)), abs=1e-5)
    assert training_norm == pytest.approx(float(flat[0].norm()), rel=1e-4)
    assert memory_norm == pytest.approx(float(flat[1].norm()), rel=1e-4)


def test_alignment_of_a_batch_with_itself_is_one() -> None:
    """Memory holds the batch and nothing else: both losses differ only in their number of terms."""
    one = ek.Learner(ek.mlp(features=64, classes=4), ek.ER(), memory=6, replay=6)
    x, y = images(batches=1)[0]
    assert one.alignment(x, y) is None
    one.learn(x, y)
    alignment = one.alignment(x, y)
    assert alignment is not None
    assert alignment[0] == pytest.approx(1, abs=1e-5)
    assert one.alignment(x, ["never seen"] * 6) is None


def test_measures_need_a_finished_run() -> None:
    records = list(ek.run(config(), data=DATA))
    for a, b in pairwise(range(0, len(records), 9)):
        part = ek.Results.of(records[:b])
        assert len(part.finished_tasks) <= 2
        assert all(np.isfinite(value) for value in (m.of(part) for m in MEASURES.values()) if value is not None), a


def test_a_new_scenario_can_be_run_from_a_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """What version 0.1 did not have is left out of records at its default, but a config has all of it."""

    def backwards(labels: Tensor, *, tasks: Sequence[Sequence[int]], boundaries: bool = False, seed: int = 0) -> Plan:
        return ek.SCENARIOS["disjoint"](labels, tasks=list(reversed(tasks)), boundaries=boundaries, seed=seed)

    monkeypatch.setitem(ek.SCENARIOS, "backwards", backwards)
    one = config(scenario={"name": "backwards", "tasks": 2})
    clean = {"noise": 0.0, "imbalance": None}
    assert one.scenario == {"name": "backwards", "tasks": 2, "boundaries": False, "order": "given", **clean}
    first = next(iter(ek.run(one, data=DATA)))
    assert isinstance(first, ek.Started)
    assert first.config["scenario"] == {"name": "backwards", "tasks": 2}
    with pytest.raises(SettingsError, match=r"Set scenario\.boundaries=true"):
        ek.run(config(method={"name": "ss_il"}, scenario={"name": "backwards", "tasks": 2}), data=DATA)
