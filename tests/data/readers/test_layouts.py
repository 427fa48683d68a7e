"""Known sets in the layouts of their authors, on small files of that structure."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from evenkeel.data.dataset import DataSet
from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError
from tests.helpers.data_files import ProgressLog, pictures, write_idx, write_image

SIZE = (3, 8, 8)


def put_svhn(home: Path) -> None:
    for part, count in (("train", 20), ("test", 10)):
        x = pictures(count, (3, 32, 32)).transpose(2, 3, 1, 0)
        savemat(home / f"{part}_32x32.mat", {"X": x, "y": np.arange(count)[:, None] % 10 + 1})


def put_core50(home: Path) -> None:
    for session in ("s1", "s2", "s3", "s7", "s10", "s11"):
        for number in (1, 2, 6, 46):
            folder = home / "core50_128x128" / session / f"o{number}"
            write_image(folder / f"C_{int(session[1:]):02d}_{number:02d}_000.png", pictures(1, SIZE, number)[0])


def put_clear10(home: Path) -> None:
    for part in ("train_image_only", "test"):
        for bucket in ("1", "2", "10"):
            for place, label in enumerate(("camera", "bus", "BACKGROUND")):
                file = home / "clear10" / part / "labeled_images" / bucket / label / f"{bucket}{place}.png"
                write_image(file, pictures(1, SIZE, place)[0])


def put_mini_imagenet(home: Path) -> None:
    home = home / "mini-imagenet"
    for part, labels in (("train", ("n01", "n02")), ("val", ("n03",)), ("test", ("n04",))):
        lines = ["filename,label"]
        for label in labels:
            for number in range(6):
                write_image(home / "images" / f"{label}{number:08d}.png", pictures(1, SIZE, number)[0])
                lines.append(f"{label}{number:08d}.png,{label}")
        (home / f"{part}.csv").write_text("\n".join(lines) + "\n")


def put_cub200(home: Path) -> None:
    home = home / "CUB_200_2011"
    names = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
    images, labels, split = [], [], []
    for number in range(1, 9):
        name = names[number % 2]
        write_image(home / "images" / name / f"{number}.png", pictures(1, SIZE, number)[0])
        images.append(f"{number} {name}/{number}.png")
        labels.append(f"{number} {names.index(name) + 1}")
        split.append(f"{number} {int(number <= 6)}")
    (home / "classes.txt").write_text("".join(f"{place} {name}\n" for place, name in enumerate(names, 1)))
    for file, lines in (("images", images), ("image_class_labels", labels), ("train_test_split", split)):
        (home / f"{file}.txt").write_text("\n".join(lines) + "\n")


def put_mnist(home: Path) -> None:
    for part, count in (("train", 20), ("t10k", 10)):
        write_idx(home / "MNIST" / "raw" / f"{part}-images-idx3-ubyte", pictures(count, (28, 28)))
        write_idx(home / "MNIST" / "raw" / f"{part}-labels-idx1-ubyte", (np.arange(count) % 10).astype(np.uint8))


SETS: dict[str, tuple[Callable[[Path], None], tuple[int, int, int], tuple[int, ...]]] = {
    "mnist": (put_mnist, (20, 10, 10), (1, 28, 28)),
    "svhn": (put_svhn, (20, 10, 10), (3, 32, 32)),
    "core50": (put_core50, (12, 12, 4), (3, 32, 32)),
    "clear10": (put_clear10, (9, 9, 3), (3, 64, 64)),
    "mini-imagenet": (put_mini_imagenet, (20, 4, 4), (3, 84, 84)),
    "cub200": (put_cub200, (6, 2, 2), (3, 64, 64)),
}


@pytest.fixture
def load(tmp_path: Path, progress: ProgressLog) -> Callable[..., DataSet]:
    def read(name: str, **settings: object) -> DataSet:
        return SOURCES[name](tmp_path, progress=progress, **settings)

    return read


@pytest.mark.parametrize("name", SETS)
def test_a_known_set_is_read_as_its_authors_lay_it_out(tmp_path: Path, load: Callable[..., DataSet], name: str) -> None:
    put, counts, shape = SETS[name]
    put(tmp_path)
    data = load(name)
    assert (len(data.train), len(data.test), len(data.classes)) == counts
    assert data.train.x.shape[1:] == shape


@pytest.mark.parametrize("name", SETS)
def test_a_known_set_that_is_not_there_is_looked_for_by_name(load: Callable[..., DataSet], name: str) -> None:
    with pytest.raises(DataError, match=f"The data set {name} is not in"):
        load(name)


def test_the_label_10_of_svhn_is_the_digit_0(tmp_path: Path, load: Callable[..., DataSet]) -> None:
    put_svhn(tmp_path)
    data = load("svhn")
    assert data.train.labels[8:11] == ["9", "0", "1"]
    assert (data.train.x == pictures(20, (3, 32, 32))).all()


def test_core50_has_objects_or_categories_and_tests_on_three_sessions(
    tmp_path: Path, load: Callable[..., DataSet]
) -> None:
    put_core50(tmp_path)
    assert load("core50").classes == ("o1", "o2", "o46", "o6")
    assert load("core50", labels="category").classes == ("mobile phone", "plug adapter", "remote control")


def test_clear10_is_in_the_order_of_time(tmp_path: Path, load: Callable[..., DataSet]) -> None:
    put_clear10(tmp_path)
    assert load("clear10", size=8).train.labels == ["BACKGROUND", "bus", "camera"] * 3


def test_cub200_keeps_the_split_of_its_authors(tmp_path: Path, load: Callable[..., DataSet]) -> None:
    put_cub200(tmp_path)
    data = load("cub200", size=8)
    assert data.test.labels == ["002.Laysan_Albatross", "001.Black_footed_Albatross"]
    assert (data.test.x[0] == pictures(1, SIZE, 7)[0]).all()


def damaged_svhn(home: Path) -> None:
    put_svhn(home)
    (home / "train_32x32.mat").write_bytes((home / "train_32x32.mat").read_bytes()[:300])


def cub_without_split(home: Path) -> None:
    put_cub200(home)
    (home / "CUB_200_2011" / "train_test_split.txt").write_text("1 1\n")


def mini_with_a_bad_line(home: Path) -> None:
    put_mini_imagenet(home)
    (home / "mini-imagenet" / "val.csv").write_text("filename,label\nonly-a-file\n")


DAMAGE = {
    "svhn": (damaged_svhn, "not a complete file of MATLAB"),
    "cub200": (cub_without_split, "has no class, or no split"),
    "mini-imagenet": (mini_with_a_bad_line, r"val\.csv, line 2, must be a file and a label"),
    "core50": (lambda home: (home / "core50_128x128").mkdir(), "has no sessions s1, s2"),
    "clear10": (lambda home: (home / "clear10").mkdir(), "has no folders 1, 2"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(tmp_path: Path, load: Callable[..., DataSet], name: str) -> None:
    damage, sentence = DAMAGE[name]
    damage(tmp_path)
    with pytest.raises(DataError, match=sentence):
        load(name)
