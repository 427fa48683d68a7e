"""The known sets in the layouts they come in, and the places where they are looked for."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from evenkeel.data import cache
from evenkeel.data.readers.names import CIFAR10, CIFAR100, CIFAR100_COARSE, FASHION_MNIST
from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError, SettingsError
from tests.helpers.data_files import (
    ProgressLog,
    encoded,
    image_column,
    pictures,
    write_cifar_parquet,
    write_image,
    write_parquet,
)
from tests.helpers.pickles import TEST, TRAIN, cifar10_files, put


def test_all_sources_have_the_same_signature() -> None:
    for source in SOURCES.values():
        root, progress, *settings = inspect.signature(source).parameters.values()
        assert (root.name, progress.name) == ("root", "progress")
        assert all(one.kind is one.KEYWORD_ONLY for one in (progress, *settings))
        assert all(one.annotation is not one.empty for one in settings)
        assert all(one.default is not one.empty or one.name == "path" for one in settings)


def test_digits_equal_those_of_scikit_learn(progress: ProgressLog) -> None:
    data = SOURCES["digits"](None, progress=progress)
    pixels, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(pixels, labels, test_size=0.25, stratify=labels, random_state=0)
    assert data.train.x.shape == (1347, 1, 8, 8)
    assert (data.train.x.reshape(-1, 64) == np.rint(x * 255 / 16)).all()
    assert (data.test.x.reshape(-1, 64) == np.rint(x_test * 255 / 16)).all()
    assert (data.train.y == y).all()
    assert (data.test.y == y_test).all()
    assert data.classes == tuple("0123456789")
    other = SOURCES["digits"](None, progress=progress, test_share=0.5, seed=1)
    assert len(other.test) == 899
    for share in (0, 1, 1.5, "half"):
        with pytest.raises(SettingsError, match=r"test_share=.* between 0 and 1"):
            SOURCES["digits"](None, progress=progress, test_share=share)


@pytest.mark.parametrize(("inside", "shards"), [("cifar10/plain_text", 1), ("cifar10", 1), ("cifar10/plain_text", 3)])
def test_cifar10_from_the_hub_equals_the_original(
    tmp_path: Path, progress: ProgressLog, inside: str, shards: int
) -> None:
    write_cifar_parquet(tmp_path / "hub" / inside, TRAIN, TEST, shards=shards)
    put(tmp_path / "original" / "cifar-10-batches-py", cifar10_files())
    hub, original = (SOURCES["cifar10"](tmp_path / place, progress=progress) for place in ("hub", "original"))
    assert (hub.train.x == TRAIN).all()
    assert hub.train.y.tolist() == [*range(10), *range(10)]
    assert hub.classes == CIFAR10
    assert hub.digest == original.digest


def test_cifar100_in_another_spelling_is_the_same_set(tmp_path: Path, progress: ProgressLog) -> None:
    cells = image_column([encoded(one) for one in pictures(100)])
    columns = {"img": cells, "fine_label": np.arange(100), "coarse_label": np.arange(100) % 20}
    fine = ["cra" if name == "crab" else name for name in CIFAR100]  # as on the hub
    for place, names in (("a", {"fine_label": fine, "coarse_label": CIFAR100_COARSE}), ("b", None)):
        for split in ("train", "test"):
            write_parquet(tmp_path / place / f"cifar100/cifar100/{split}-00000-of-00001.parquet", columns, names)
    first, second = (SOURCES["cifar100"](tmp_path / place, progress=progress) for place in "ab")
    assert first.classes == second.classes == CIFAR100
    assert first.digest == second.digest
    coarse = SOURCES["cifar100"](tmp_path / "a", progress=progress, labels="coarse")
    assert coarse.classes == CIFAR100_COARSE
    assert coarse.train.y.tolist() == (np.arange(100) % 20).tolist()
    with pytest.raises(SettingsError, match=r"labels='fien' is not one of 'fine', 'coarse'. Did you mean 'fine'"):
        SOURCES["cifar100"](tmp_path / "a", progress=progress, labels="fien")


def test_names_in_another_order_are_kept_as_in_the_file(tmp_path: Path, progress: ProgressLog) -> None:
    columns = {"img": image_column([encoded(one) for one in TEST]), "label": np.arange(10)}
    for split in ("train", "test"):
        write_parquet(tmp_path / f"cifar10/{split}-0.parquet", columns, {"label": CIFAR10[::-1]})
    assert SOURCES["cifar10"](tmp_path, progress=progress).classes == CIFAR10[::-1]


def test_labels_and_sizes_of_known_sets_are_checked(tmp_path: Path, progress: ProgressLog) -> None:
    write_cifar_parquet(tmp_path / "a" / "cifar10", pictures(22), pictures(11), classes=11)
    with pytest.raises(DataError, match=r"train-.*.parquet, row 10, has the label 10 .* the 10 classes are 0 to 9"):
        SOURCES["cifar10"](tmp_path / "a", progress=progress)
    write_cifar_parquet(tmp_path / "b" / "cifar10", pictures(20, (3, 16, 16)), pictures(10))
    with pytest.raises(DataError, match=r"train-.*, row 0 is 16 x 16 pixels, but the images of this set are 32 x 32"):
        SOURCES["cifar10"](tmp_path / "b", progress=progress)


def tiny_folder(place: Path, test_class: str = "n02") -> Path:
    """Write two classes; the second training image of each is gray."""
    home = place / "tiny-imagenet-200"
    for wnid, pixels in zip(("n01", "n02"), pictures(2, (3, 64, 64)), strict=True):
        write_image(home / "train" / wnid / "images" / f"{wnid}_0.JPEG", pixels, quality=95)
        write_image(home / "train" / wnid / "images" / f"{wnid}_1.JPEG", pixels[:1], quality=95)
    for place_, pixels in enumerate(pictures(2, (3, 64, 64), seed=1)):
        write_image(home / "val" / "images" / f"val_{place_}.JPEG", pixels)
    (home / "wnids.txt").write_text("n02\nn01\n")
    lines = [f"val_0.JPEG\t{test_class}\t0\t32\t44\t62\n", "val_1.JPEG\tn01\t1\t2\t3\t4\n"]
    (home / "val" / "val_annotations.txt").write_text("".join(lines))
    return home


def test_tiny_imagenet_from_the_hub_equals_the_original(tmp_path: Path, progress: ProgressLog) -> None:
    home = tiny_folder(tmp_path)
    data = SOURCES["tiny-imagenet"](tmp_path, progress=progress)
    assert data.classes == ("n01", "n02")
    assert data.train.x.shape == (4, 3, 64, 64)
    assert data.train.y.tolist() == [0, 0, 1, 1]
    assert data.test.y.tolist() == [1, 0]
    assert (data.train.x[1, 0] == data.train.x[1, 2]).all()  # gray
    assert (data.train.x[0, 0] != data.train.x[0, 2]).any()
    files = [home / "train" / wnid / "images" / f"{wnid}_{place}.JPEG" for wnid in ("n01", "n02") for place in (0, 1)]
    tests = [home / "val" / "images" / f"val_{place}.JPEG" for place in (0, 1)]
    for split, listed, labels in (("train", files, [0, 0, 1, 1]), ("valid", tests, [1, 0])):
        columns = {"image": image_column([file.read_bytes() for file in listed]), "label": labels}
        file = tmp_path / "hub" / "tiny-imagenet" / "data" / f"{split}-00000-of-00001.parquet"
        write_parquet(file, columns, {"label": ["n01", "n02"]})
    assert SOURCES["tiny-imagenet"](tmp_path / "hub", progress=progress).digest == data.digest


def test_errors_in_tiny_imagenet_are_reported(tmp_path: Path, progress: ProgressLog) -> None:
    home = tiny_folder(tmp_path, test_class="n03")
    with pytest.raises(DataError, match=r"val_annotations.txt, line 1, has the class 'n03', which wnids.txt does not"):
        SOURCES["tiny-imagenet"](tmp_path, progress=progress)
    tiny_folder(tmp_path, test_class="n01")
    with pytest.raises(DataError, match=r"The class 'n02' of tiny-imagenet .* has no test sample"):
        SOURCES["tiny-imagenet"](tmp_path, progress=progress)
    tiny_folder(tmp_path)
    (home / "val" / "images" / "val_1.JPEG").unlink()
    with pytest.raises(DataError, match=r"val_1.JPEG cannot be read \(No such file"):
        SOURCES["tiny-imagenet"](tmp_path, progress=progress)
    (home / "wnids.txt").unlink()
    with pytest.raises(DataError, match=r"wnids.txt cannot be read"):
        SOURCES["tiny-imagenet"](tmp_path, progress=progress)


def test_fashion_mnist_from_the_hub_is_read(tmp_path: Path, progress: ProgressLog) -> None:
    pixels = pictures(10, (1, 28, 28))
    columns = {"image": image_column([encoded(one) for one in pixels]), "label": np.arange(10)}
    spelled = ["T - shirt / top", *FASHION_MNIST[1:]]  # as on the hub
    for split in ("train", "test"):
        file = tmp_path / "fashion_mnist" / "fashion_mnist" / f"{split}-00000-of-00001.parquet"
        write_parquet(file, columns, {"label": spelled})
    data = SOURCES["fashion-mnist"](tmp_path, progress=progress)
    assert (data.train.x == pixels).all()
    assert data.classes == FASHION_MNIST


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tiny-imagenet", "fashion-mnist", "mnist"])
def test_a_missing_set_is_reported_with_all_places(
    tmp_path: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch, cache_folder: Path, name: str
) -> None:
    monkeypatch.setenv("EVENKEEL_DATA", str(tmp_path / "named"))
    (tmp_path / "given").mkdir()
    with pytest.raises(DataError, match=f"^The data set {name} is not in ") as caught:
        SOURCES[name](tmp_path / "given", progress=progress)
    text = str(caught.value)
    for place in (tmp_path / "given", tmp_path / "named", cache_folder / "data"):
        assert str(place) in text
    assert f"looked for {name}/" in text
    assert f"`evenkeel data get {name}`" in text
    assert "\n" not in text


def test_a_folder_given_must_exist_whatever_the_environment_says(
    tmp_path: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar_parquet(tmp_path / "named" / "cifar10", TRAIN, pictures(10, seed=0))
    monkeypatch.setenv("EVENKEEL_DATA", str(tmp_path / "named"))
    with pytest.raises(DataError, match=r"There is no folder .*nowhere"):
        SOURCES["cifar10"](tmp_path / "nowhere", progress=progress)


def test_places_are_searched_in_order(
    tmp_path: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch, cache_folder: Path
) -> None:
    given, named, kept = tmp_path / "given", tmp_path / "named", cache_folder / "data"
    monkeypatch.setenv("EVENKEEL_DATA", str(named))
    given.mkdir()
    for seed, place in enumerate((kept, named, given)):
        write_cifar_parquet(place / "cifar10", TRAIN, pictures(10, seed=seed))
        data = SOURCES["cifar10"](given, progress=progress)
        assert (data.test.x == pictures(10, seed=seed)).all()


def test_relative_paths_are_tried_in_order(
    tmp_path: Path, progress: ProgressLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, named, here = tmp_path / "given", tmp_path / "named", tmp_path / "here"
    monkeypatch.setenv("EVENKEEL_DATA", str(named))
    for place in (here, named, given):
        place.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(DataError, match=r"There is no .*given/a.npz, .*named/a.npz or .*here/a.npz \(path='a.npz'\)"):
        SOURCES["npz"](given, progress=progress, path="a.npz")
    for value, place in enumerate((here, named, given)):
        x = np.full((2, 3), value, np.float32)
        np.savez(place / "a.npz", x_train=x, y_train=[0, 1], x_test=x, y_test=[0, 1])
        assert SOURCES["npz"](given, progress=progress, path="a.npz").train.x[0, 0] == value
    assert SOURCES["npz"](given, progress=progress, path=here / "a.npz").train.x[0, 0] == 0


@pytest.mark.slow
def test_the_real_cifar10_is_read_and_cached(real_data: Path, progress: ProgressLog) -> None:
    if not (real_data / "cifar10").is_dir():
        pytest.skip("EVENKEEL_DATA has no folder cifar10")
    data = SOURCES["cifar10"](real_data, progress=progress)
    assert progress[-1] == ("Decoding cifar10", 60_000, 60_000)
    assert data.train.x.shape == (50_000, 3, 32, 32)
    assert data.test.x.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.train.y).tolist() == [5000] * 10
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    assert data.classes == CIFAR10
    counts = np.stack([np.bincount(data.train.x[:, channel].ravel(), minlength=256) for channel in range(3)])
    share, values = counts / counts.sum(axis=1, keepdims=True), np.arange(256) / 255
    mean = share @ values
    assert np.allclose(mean, [0.4914, 0.4822, 0.4465], atol=5e-5)
    assert np.allclose(np.sqrt(share @ values**2 - mean**2), [0.2470, 0.2435, 0.2616], atol=5e-5)

    progress.clear()
    again = SOURCES["cifar10"](real_data, progress=progress)
    assert progress == []  # nothing was decoded again
    assert again.digest == data.digest
    assert [(entry.name, entry.train, entry.test) for entry in cache.entries()] == [("cifar10", 50_000, 10_000)]
    assert cache.clear() > 184_000_000


def test_the_real_clinc150_is_read(real_data: Path, progress: ProgressLog) -> None:
    if not (real_data / "clinc150").is_dir():
        pytest.skip("EVENKEEL_DATA has no folder clinc150")
    data = SOURCES["npz"](real_data, progress=progress, path="clinc150/minilm-l6.npz")
    assert data.train.x.shape == (15_000, 384)
    assert len(data.test) == 4500
    assert data.train.x.dtype == np.float32
    assert len(data.classes) == 150
    assert data.classes[:2] == ("accept_reservations", "account_blocked")
    assert np.allclose(np.linalg.norm(data.train.x, axis=1), 1, atol=1e-3)
