"""The reader of images in folders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evenkeel.data.sources import SOURCES
from evenkeel.errors import DataError, SettingsError
from tests.helpers.data_files import ProgressLog, as_image, encoded, pictures, png_of, write_image


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for split, count in (("train", 3), ("test", 1)):
        for label in ("cat", "dog"):
            for place, pixels in enumerate(pictures(count, (3, 5, 6))):
                write_image(tmp_path / "set" / split / label / f"{place}.png", pixels)
    return tmp_path / "set"


def test_both_splits_are_read_in_the_order_of_names(home: Path, progress: ProgressLog) -> None:
    (home / "train" / "cat" / ".hidden.png").write_bytes(b"")
    (home / "train" / "cat" / "notes.txt").write_text("not an image")
    data = SOURCES["folder"](None, progress=progress, path=home)
    assert data.name == "set"
    assert data.classes == ("cat", "dog")
    assert (data.train.x == np.concatenate([pictures(3, (3, 5, 6))] * 2)).all()
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.test.y.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["val", "valid"])
def test_val_serves_as_test(home: Path, progress: ProgressLog, name: str) -> None:
    digest = SOURCES["folder"](None, progress=progress, path=home).digest
    (home / "test").rename(home / name)
    assert SOURCES["folder"](None, progress=progress, path=home).digest == digest


def test_a_folder_without_splits_is_split_by_class(home: Path, progress: ProgressLog) -> None:
    whole = home / "train"
    for place in range(3, 8):
        for label in ("cat", "dog"):
            write_image(whole / label / f"{place}.png", pictures(1, (3, 5, 6), seed=place)[0])
    first, same, other = (
        SOURCES["folder"](None, progress=progress, path=whole, test_share=0.25, seed=seed) for seed in (0, 0, 1)
    )
    assert np.bincount(first.train.y).tolist() == [6, 6]
    assert np.bincount(first.test.y).tolist() == [2, 2]
    assert first.digest == same.digest != other.digest


def test_images_of_all_formats_and_modes_are_decoded_alike(tmp_path: Path, progress: ProgressLog) -> None:
    pixels = np.full((3, 8, 8), 200, np.uint8)
    pixels[0] = 40
    pixels[:, :4] = 90  # two colors: the transparency of a palette of one would be a single number
    image = as_image(pixels)
    transparent = image.quantize(4)
    images: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "a.bmp": (image, {}),
        "b.gif": (image, {"save_all": True, "append_images": [Image.new("RGB", (8, 8))]}),
        "c.JPG": (image, {"format": "JPEG", "quality": 100, "subsampling": 0}),
        "d.jpeg": (image.convert("CMYK"), {"quality": 100}),
        "e.webp": (image, {"lossless": True}),
        "f.png": (image.convert("RGBA"), {}),
        "g.png": (transparent, {"transparency": bytes([100, 200])}),
    }
    for split in ("train", "test"):
        (tmp_path / split / "one").mkdir(parents=True)
        for name, (one, options) in images.items():
            one.save(tmp_path / split / "one" / name, **options)
    data = SOURCES["folder"](None, progress=progress, path=tmp_path)
    assert data.train.x.shape == (7, 3, 8, 8)
    assert np.abs(data.train.x.astype(int) - pixels).max() <= 3  # JPEG rounds


def test_gray_images_have_one_channel_unless_one_has_color(tmp_path: Path, progress: ProgressLog) -> None:
    gray = pictures(4, (1, 4, 4))
    deep = Image.fromarray(gray[3, 0].astype(np.uint16) * 256 + 7)
    for split in ("train", "test"):
        folder = tmp_path / split / "one"
        for place in range(3):
            write_image(folder / f"{place}.png", gray[place])
        deep.save(folder / "3.png")
    data = SOURCES["folder"](None, progress=progress, path=tmp_path)
    assert np.array_equal(data.train.x, gray)  # the upper eight of sixteen bits
    write_image(tmp_path / "test" / "one" / "2.png", pictures(1, (3, 4, 4))[0])
    data = SOURCES["folder"](None, progress=progress, path=tmp_path)
    assert np.array_equal(data.train.x, np.repeat(gray, 3, axis=1))


def test_images_must_have_one_size_or_are_resized_to_one(home: Path, progress: ProgressLog) -> None:
    odd = write_image(home / "train" / "dog" / "9.png", pictures(1, (3, 7, 8))[0])
    with pytest.raises(DataError, match=r"dog/9.png is 7 x 8 pixels, but the first image, .*cat/0.png, is 5 x 6"):
        SOURCES["folder"](None, progress=progress, path=home)
    assert SOURCES["folder"](None, progress=progress, path=home, size=4).train.x.shape == (7, 3, 4, 4)
    data = SOURCES["folder"](None, progress=progress, path=home, size=[7, 8])
    with Image.open(home / "train" / "cat" / "0.png") as first, Image.open(odd) as last:
        resized = first.resize((8, 7), Image.Resampling.BILINEAR)
        assert (data.train.x[0] == np.asarray(resized).transpose(2, 0, 1)).all()
        assert (data.train.x[-1] == np.asarray(last).transpose(2, 0, 1)).all()


@pytest.mark.parametrize("size", [0, (1, 2, 3), (4, -1), "32", 1.5])
def test_an_invalid_size_is_rejected(home: Path, progress: ProgressLog, size: Any) -> None:
    with pytest.raises(SettingsError, match="size="):
        SOURCES["folder"](None, progress=progress, path=home, size=size)


DAMAGE = {
    "is not an image": b"no image at all",
    "is a damaged image|is not an image": encoded(pictures(1)[0])[:40],
    "dog/1.png is a damaged image": encoded(pictures(1, (3, 5, 6))[0])[:-40],
    "claims an absurd number of pixels": png_of(20_000, 20_000),
    "claims an absurd number .*pixels": png_of(10_000, 10_000),
}


@pytest.mark.parametrize("message", [*DAMAGE, "not an image"])
def test_damaged_images_are_reported(home: Path, progress: ProgressLog, message: str) -> None:
    (home / "train" / "dog" / "1.png").write_bytes(DAMAGE.get(message, b""))
    with pytest.raises(DataError, match=message) as caught:
        SOURCES["folder"](None, progress=progress, path=home)
    assert "dog/1.png" in str(caught.value)


def test_other_formats_of_pillow_are_rejected(home: Path, progress: ProgressLog) -> None:
    as_image(pictures(1, (3, 5, 6))[0]).save(home / "train" / "dog" / "1.png", "TIFF")
    with pytest.raises(DataError, match=r"1.png is not an image, or not one of PNG, JPEG"):
        SOURCES["folder"](None, progress=progress, path=home)


def test_folders_that_are_not_a_data_set_are_rejected(home: Path, progress: ProgressLog, tmp_path: Path) -> None:
    def load(path: Path) -> None:
        SOURCES["folder"](None, progress=progress, path=path)

    with pytest.raises(DataError, match=r"0.png is not a folder"):
        load(home / "train" / "cat" / "0.png")
    (tmp_path / "empty" / "class").mkdir(parents=True)
    with pytest.raises(DataError, match=r"empty/class has no images \(.png"):
        load(tmp_path / "empty")
    with pytest.raises(DataError, match="class has no subfolders; it needs one for each class"):
        load(tmp_path / "empty" / "class")
    for file in (home / "test" / "dog").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="test/dog has no images"):
        load(home)
    (home / "test" / "dog").rmdir()
    with pytest.raises(DataError, match=r"The class 'dog' of .*set has no test sample"):
        load(home)
    (home / "test").rename(home / "tset")
    with pytest.raises(DataError, match="has the folder train, but not any of test, val, valid"):
        load(home)
    write_image(tmp_path / "single" / "a" / "0.png", pictures(1)[0])
    with pytest.raises(DataError, match=r"single cannot be split .* each class needs at least two.* only one of 'a'"):
        load(tmp_path / "single")


def test_images_of_kinds_that_are_not_read_are_named(home: Path, progress: ProgressLog) -> None:
    (home / "train" / "cat" / "9.TIF").write_bytes(b"II*")
    with pytest.raises(DataError, match=r"9\.TIF is an image of a kind that is not read; convert it to one of \.png"):
        SOURCES["folder"](None, progress=progress, path=home)
