"""Resized crops, color jitter and gray against slow references: Pillow's resize, and colorsys pixel by pixel."""

import colorsys
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binomtest, kstest
from torch import Tensor

from evenkeel.errors import SettingsError
from evenkeel.learning.augment import AUGMENTS, ColorJitter, Grayscale, ResizedCrop
from evenkeel.learning.augment.colors import _changed
from evenkeel.learning.augment.crops import _interpolated, _places
from tests.helpers.images import pixels, seeded, to_pillow, to_tensor

ORDERS = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]])


def ramps(height: int, width: int) -> Tensor:
    """Return one image whose channels say where a pixel comes from: its row and its column."""
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([row, column, row]).to(torch.uint8)


# ---- resized crops ----


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (9, 20), (5, 3), (1, 1)])
def test_a_crop_is_resized_as_by_pillow(channels: int, height: int, width: int) -> None:
    generator = np.random.default_rng(0)
    x = pixels(40, channels, height, width)
    tall, wide = generator.integers(1, height + 1, (40, 1)), generator.integers(1, width + 1, (40, 1))
    starts = generator.random((2, 40, 1))
    rows, columns = (
        _places(size, torch.tensor(part).double(), torch.tensor(start))
        for size, part, start in ((height, tall, starts[0]), (width, wide, starts[1]))
    )
    tops, lefts = np.floor(starts[0] * (height - tall + 1)), np.floor(starts[1] * (width - wide + 1))
    for image, view, *box in zip(x, _interpolated(x, rows, columns), tops, lefts, tall, wide, strict=True):
        top, left, h, w = (int(each[0]) for each in box)
        part = to_pillow(image).crop((left, top, left + w, top + h))
        expected = to_tensor(part.resize((width, height), Image.Resampling.BILINEAR))
        assert int((view.int() - expected.int()).abs().max()) <= 1


def test_the_whole_image_stays_as_it_is() -> None:
    x = pixels(20, 3, 7, 11)
    assert torch.equal(ResizedCrop(scale=(1, 1), ratio=(11 / 7, 11 / 7), flip=False)(x, seeded()), x)


def sizes_of(augment: ResizedCrop, n: int, height: int, width: int) -> tuple[Any, Any]:
    tall, wide = augment._sizes(n, height, width, seeded())
    return tall[:, 0].numpy(), wide[:, 0].numpy()


def test_area_and_ratio_have_their_distributions() -> None:
    """On a large image rounding is small, and with a small scale every first draw fits."""
    tall, wide = sizes_of(ResizedCrop(scale=(0.1, 0.5)), 4000, 2000, 2000)
    assert kstest(tall * wide / 2000**2, "uniform", (0.1, 0.4)).pvalue > 1e-3
    assert kstest(np.log(wide / tall), "uniform", (log(3 / 4), log(4 / 3) - log(3 / 4))).pvalue > 1e-3


@pytest.mark.parametrize(("height", "width"), [(32, 32), (8, 40), (40, 8), (2, 3), (1, 1)])
def test_crops_lie_inside_the_image(height: int, width: int) -> None:
    augment = ResizedCrop()
    tall, wide = sizes_of(augment, 500, height, width)
    assert tall.min() >= 1
    assert wide.min() >= 1
    assert tall.max() <= height
    assert wide.max() <= width
    if height == width == 32:
        assert (tall * wide).min() >= 0.2 * 32 * 32 - 32  # but for rounding
        assert len(set(zip(tall, wide, strict=True))) > 100


def test_a_crop_that_never_fits_is_the_largest_of_its_ratio() -> None:
    tall, wide = sizes_of(ResizedCrop(scale=(1, 1), ratio=(1, 1)), 50, 8, 40)
    assert set(tall) == {8.0}
    assert set(wide) == {8.0}


def test_positions_are_uniform_and_half_are_mirrored() -> None:
    x = ramps(40, 40).expand(2000, -1, -1, -1)
    views = ResizedCrop(scale=(0.25, 0.25), ratio=(1, 1))(x, seeded())  # 20 x 20
    tops = views[:, 0, 0, 0]
    counts = tops.bincount(minlength=21)
    assert len(counts) == 21
    assert kstest(tops.numpy() + np.random.default_rng(0).random(2000), "uniform", (0, 21)).pvalue > 1e-3
    mirrored = int((views[:, 1, 0, 0] > views[:, 1, 0, -1]).sum())
    assert binomtest(mirrored, 2000).pvalue > 1e-3


# ---- color ----


def slow_jitter(image: Tensor, amounts: list[float], order: list[int]) -> Tensor:
    """Change one image, in float64, by factors of brightness, contrast and saturation and a turn of the hue."""
    values = image.double().permute(1, 2, 0).numpy()
    colored = values.shape[2] == 3
    for kind in order:
        luma = values @ [0.299, 0.587, 0.114] if colored else values[:, :, 0]
        base = [np.zeros_like(luma), np.full_like(luma, luma.mean()), luma, None][kind]
        if base is not None:
            values = np.clip(base[:, :, None] + amounts[kind] * (values - base[:, :, None]), 0, 255)
        elif colored:
            for row in values:
                for place, (red, green, blue) in enumerate(row / 255):
                    hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
                    row[place] = np.multiply(colorsys.hsv_to_rgb((hue + amounts[3]) % 1, saturation, value), 255)
    return torch.from_numpy(np.rint(values)).to(torch.uint8).permute(2, 0, 1)


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 8, 8), (1, 8, 8), (3, 5, 9), (3, 1, 1)])
def test_jitter_equals_the_slow_reference(channels: int, height: int, width: int) -> None:
    x = pixels(16, channels, height, width)
    x[0], x[1] = 77, x[1] // 128 * 255  # one gray; pure colors
    amounts = ColorJitter(brightness=0.8, contrast=0.8, saturation=1.5, hue=0.5)._amounts(
        torch.rand(16, 4, generator=seeded())
    )
    order = ORDERS.repeat(4, 1)
    views = _changed(x, amounts, order)
    for image, view, *drawn in zip(x, views, amounts.tolist(), order.tolist(), strict=True):
        assert int((view.int() - slow_jitter(image, *drawn).int()).abs().max()) <= 1


def test_the_order_of_changes_counts() -> None:
    x, amounts = pixels(4, 3, 8, 8)[:1].expand(4, -1, -1, -1), torch.tensor([[1.4, 0.6, 1.4, 0.1]]).expand(4, 4)
    assert len({view.numpy().tobytes() for view in _changed(x, amounts, ORDERS)}) == 4


def test_a_share_p_of_the_samples_is_jittered() -> None:
    x = pixels(3, 4, 4).expand(2000, -1, -1, -1)
    changed = (ColorJitter(p=0.8)(x, seeded()) != x).flatten(1).any(1)
    assert binomtest(int(changed.sum()), 2000, 0.8).pvalue > 1e-3
    assert torch.equal(ColorJitter(p=0)(x, seeded()), x)


def test_amounts_are_uniform_within_their_limits() -> None:
    amounts = ColorJitter(brightness=0.4, contrast=2, saturation=0, hue=0.1)._amounts(
        torch.rand(3000, 4, generator=seeded())
    )
    for column, low, high in ((0, 0.6, 1.4), (1, 0, 3), (3, -0.1, 0.1)):
        assert kstest(amounts[:, column].numpy(), "uniform", (low, high - low)).pvalue > 1e-3
    assert bool((amounts[:, 2] == 1).all())


def test_each_sample_has_an_order_of_its_own() -> None:
    """All of one image and strength, with extreme factors: the views fall into more than a few kinds."""
    x = pixels(3, 6, 6).expand(300, -1, -1, -1)
    views = ColorJitter(p=1)(x, seeded())
    assert len({view.numpy().tobytes() for view in views}) == 300


def test_gray_images_have_no_hue_and_no_saturation() -> None:
    x = pixels(50, 1, 6, 6)
    assert torch.equal(ColorJitter(brightness=0, contrast=0, saturation=0.9, hue=0.5, p=1)(x, seeded()), x)
    assert not torch.equal(ColorJitter(saturation=0, hue=0, p=1)(x, seeded()), x)
    assert torch.equal(Grayscale(p=1)(x, seeded()), x)


def test_gray_is_that_of_pillow_for_a_share_p_of_the_samples() -> None:
    x = pixels(1000, 3, 6, 5)
    views = Grayscale(p=0.2)(x, seeded())
    gray = torch.stack([to_tensor(to_pillow(image).convert("L")).expand(3, -1, -1) for image in x])
    turned = (views == gray).flatten(1).all(1)
    assert torch.equal(views[~turned], x[~turned])
    assert binomtest(int(turned.sum()), 1000, 0.2).pvalue > 1e-3


@pytest.mark.parametrize(
    ("name", "setting", "value", "limits"),
    [
        ("resized-crop", "scale", (0.5, 0.2), "two numbers above 0 and at most 1, the smaller one first"),
        ("resized-crop", "scale", (0.5, 1.5), "two numbers above 0 and at most 1"),
        ("resized-crop", "scale", 0.5, "two numbers"),
        ("resized-crop", "ratio", (0, 1), "two numbers above 0, the smaller one first"),
        ("color-jitter", "hue", 0.6, "a number from 0 to 0.5"),
        ("color-jitter", "brightness", -1, "a number of at least 0"),
        ("color-jitter", "p", 1.1, "a number from 0 to 1"),
        ("grayscale", "p", True, "a number from 0 to 1"),
    ],
)
def test_bad_settings_are_named(name: str, setting: str, value: Any, limits: str) -> None:
    with pytest.raises(SettingsError, match=f"^{setting}=.* must be {limits}"):
        AUGMENTS[name](**{setting: value})
