"""A list of augmentations, in order: in TOML, overrides, run keys, records, learners and checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import evenkeel as ek
from evenkeel.config.build import make_learner
from evenkeel.grids.run_names import run_key
from evenkeel.results.groups import groups
from tests.helpers.images import pixels, seeded

LIST = 'augment=[{name="crop-flip", padding=1}, {name="rand-augment", magnitude=9, padding=0}]'
STEPS = "[CropFlip(padding=1, flip=True), RandAugment(operations=1, magnitude=9, padding=0)]"


def learner_of(*overrides: str, source: Any = "digits") -> ek.Learner:
    return make_learner(ek.load_config(source, [*overrides, "net.width=4"]), (1, 8, 8), None)


def teach(one: ek.Learner, times: int = 3) -> bytes:
    for step in range(times):
        one.learn(pixels(8, 1, 8, 8, seed=step), list(range(8)))
    return one.logits(pixels(4, 1, 8, 8)).numpy().tobytes()


def test_toml_overrides_and_dicts_give_the_same_list(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'extends = "digits"\n[[augment]]\nname = "crop-flip"\npadding = 1\n'
        '[[augment]]\nname = "rand-augment"\nmagnitude = 9\npadding = 0\n'
    )
    tables = [{"name": "crop-flip", "padding": 1}, {"name": "rand-augment", "magnitude": 9, "padding": 0}]
    configs = [
        ek.load_config(path),
        ek.load_config("digits", [LIST]),
        ek.load_config({"extends": "digits", "augment": tables}),
    ]
    assert len({run_key(config) for config in configs}) == 1
    assert repr(learner_of(source=path).augment) == STEPS
    again = ek.load_config(json.loads(json.dumps(configs[0].model_dump(mode="json"))))
    assert again == configs[0]


def test_the_order_of_a_list_counts() -> None:
    parts = ['{name="crop-flip"}', '{name="rand-augment", padding=0}']
    keys = {run_key(ek.load_config("digits", [f"augment=[{a}, {b}]"])) for a, b in (parts, parts[::-1])}
    assert len(keys) == 2
    x = pixels(30, 1, 8, 8)
    first, second = ek.CropFlip(padding=1), ek.RandAugment(padding=0)
    one = ek.Learner(ek.convnet(classes=2), ek.ER(), augment=[first, second])
    two = ek.Learner(ek.convnet(classes=2), ek.ER(), augment=(second, first))
    assert one.augment is not None
    assert two.augment is not None
    generator = seeded()
    assert torch.equal(one.augment(x, seeded()), second(first(x, generator), generator))
    assert not torch.equal(one.augment(x, seeded()), two.augment(x, seeded()))


def test_a_list_of_one_is_that_one_and_an_empty_list_is_none() -> None:
    keys = [
        run_key(ek.load_config("digits", [each]))
        for each in ('augment={name="crop-flip"}', 'augment=[{name="crop-flip"}]', "augment.name=crop-flip")
    ]
    assert len(set(keys)) == 1
    assert run_key(ek.load_config("digits", ["augment=[]"])) == run_key(ek.load_config("digits"))
    assert teach(learner_of('augment=[{name="crop-flip"}]')) == teach(learner_of("augment.name=crop-flip"))
    assert ek.Learner(ek.convnet(classes=2), ek.ER(), augment=[]).augment is None


def test_a_table_replaces_a_list_and_the_other_way_round() -> None:
    config = ek.load_config("digits", [LIST])
    assert ek.load_config(config, ["augment.name=grayscale"]).augment == {"name": "grayscale", "p": 0.2}
    assert ek.load_config(config, ["augment.name=none"]).augment is None
    assert ek.load_config(ek.load_config("digits", ["augment.name=grayscale"]), [LIST]).augment == config.augment


def test_all_errors_of_a_list_are_reported_by_place() -> None:
    with pytest.raises(ek.SettingsError) as caught:
        ek.load_config("digits", ['augment=[{name="crop-flop"}, {name="rand-augment", magnitude=99, speed=1}]'])
    text = str(caught.value)
    assert "augment[0].name = 'crop-flop' is not one of" in text
    assert "'crop-flip'?" in text
    assert "augment[1].rand-augment has no setting 'speed'" in text
    with pytest.raises(ek.SettingsError, match=r"method must be a table with a name"):
        ek.load_config("digits", ['method=[{name="er"}]'])


def test_a_list_in_a_learner_is_checked_by_part() -> None:
    with pytest.raises(ek.SettingsError, match=r"augment='crop-flip' cannot be called"):
        ek.Learner(ek.convnet(classes=2), ek.ER(), augment=[ek.CropFlip(), "crop-flip"])  # type: ignore[list-item]


def test_a_checkpoint_of_a_list_resumes_bit_for_bit(tmp_path: Path) -> None:
    one = learner_of(LIST)
    teach(one)
    one.save(tmp_path / "one.ek")
    other = ek.Learner.load(tmp_path / "one.ek")
    assert repr(other.augment) == STEPS
    assert teach(other) == teach(one)


def test_parts_of_ones_own_in_a_list_must_be_passed_again(tmp_path: Path) -> None:
    own = ek.PerSample(torch.clone)
    one = ek.Learner(ek.convnet(classes=4), ek.ER(), augment=[ek.CropFlip(), own])
    one.save(tmp_path / "one.ek")
    with pytest.raises(ek.CheckpointError, match="Pass augment="):
        ek.Learner.load(tmp_path / "one.ek")
    with pytest.raises(ek.CheckpointError, match=r"a list of 2, but augment= has 1"):
        ek.Learner.load(tmp_path / "one.ek", augment=own)
    with pytest.raises(ek.CheckpointError, match=r"augment is CropFlip, but augment= is PerSample"):
        ek.Learner.load(tmp_path / "one.ek", augment=[own, ek.CropFlip()])
    assert repr(ek.Learner.load(tmp_path / "one.ek", augment=[ek.CropFlip(), own]).augment) == repr(one.augment)


def test_records_and_labels_name_the_parts() -> None:
    short = ["limits.train=5", "limits.test=2", "net.width=4", "evaluation.every=0", "evaluation.alignment=0"]
    runs = [
        ek.Results.of(ek.run(ek.load_config("digits", [*short, each]))) for each in (LIST, "augment.name=grayscale")
    ]
    assert [part["name"] for part in runs[0].started.config["augment"]] == ["crop-flip", "rand-augment"]
    labels = [group.label for group in groups(runs)]
    assert "augment crop-flip + rand-augment" in labels[0]
    assert "augment grayscale" in labels[1]
