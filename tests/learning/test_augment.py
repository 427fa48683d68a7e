"""Augmentations against slow references: slices for the crop, Pillow for every operation of RandAugment."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy.stats import chisquare
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evenkeel.errors import InputError, SettingsError
from evenkeel.learning import registry
from evenkeel.learning.augment import (
    AUGMENTS,
    OPERATIONS,
    Augment,
    ColorJitter,
    CropFlip,
    Grayscale,
    InOrder,
    PerSample,
    RandAugment,
    ResizedCrop,
)
from tests.helpers.images import pixels, seeded, to_pillow, to_tensor

BUILT = [
    CropFlip(),
    CropFlip(padding=2, flip=False),
    RandAugment(),
    RandAugment(operations=3, magnitude=25),
    ResizedCrop(),
    ResizedCrop(scale=(0.1, 0.3), ratio=(0.2, 0.5), flip=False),
    ColorJitter(),
    ColorJitter(brightness=3, contrast=0, saturation=2, hue=0.5, p=1),
    Grayscale(p=0.5),
    InOrder([CropFlip(), RandAugment(padding=0)]),
]
OTHER: dict[str, dict[str, Any]] = {
    "crop-flip": {"padding": 3},
    "rand-augment": {"padding": 3},
    "resized-crop": {"scale": (0.5, 0.75), "flip": False},
    "color-jitter": {"hue": 0.25, "p": 1},
    "grayscale": {"p": 0.5},
}
SIGNED = OPERATIONS[1:10]
Key = TypeVar("Key")


# ---- references ----


def every_crop(image: Tensor, padding: int, flip: bool) -> dict[tuple[int, int, bool], Tensor]:
    """Return every possible result of CropFlip for one image, by (top, left, flipped), with plain slices."""
    channels, height, width = image.shape
    padded = image.new_zeros(channels, height + 2 * padding, width + 2 * padding)
    padded[:, padding : padding + height, padding : padding + width] = image
    places = range(2 * padding + 1)
    return {
        (top, left, flipped): window.flip(-1) if flipped else window
        for top in places
        for left in places
        for flipped in ([False, True] if flip else [False])
        for window in [padded[:, top : top + height, left : left + width]]
    }


def recognise(view: Tensor, candidates: dict[Key, Tensor]) -> Key:
    """Return the one candidate that equals `view`."""
    (found,) = [key for key, candidate in candidates.items() if torch.equal(view, candidate)]
    return found


def by_pillow(image: Tensor, operation: str, magnitude: int, sign: int) -> Tensor:
    """Apply one operation as torchvision's RandAugment does to a Pillow image: with its table and its calls."""
    picture = to_pillow(image)
    width, height = picture.size

    def affine(*matrix: float) -> Image.Image:
        return picture.transform(picture.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)

    def level(low: float, high: float) -> float:
        return float(torch.linspace(low, high, 31)[magnitude])

    calls: dict[str, Callable[[], Image.Image]] = {
        "Identity": lambda: picture,
        "ShearX": lambda: affine(1, sign * level(0, 0.3), 0, 0, 1, 0),
        "ShearY": lambda: affine(1, 0, 0, sign * level(0, 0.3), 1, 0),
        "TranslateX": lambda: affine(1, 0, -int(sign * level(0, 150 / 331 * width)), 0, 1, 0),
        "TranslateY": lambda: affine(1, 0, 0, 0, 1, -int(sign * level(0, 150 / 331 * height))),
        "Rotate": lambda: picture.rotate(sign * level(0, 30), Image.Resampling.NEAREST),
        "Brightness": lambda: ImageEnhance.Brightness(picture).enhance(1 + sign * level(0, 0.9)),
        "Color": lambda: ImageEnhance.Color(picture).enhance(1 + sign * level(0, 0.9)),
        "Contrast": lambda: ImageEnhance.Contrast(picture).enhance(1 + sign * level(0, 0.9)),
        "Sharpness": lambda: ImageEnhance.Sharpness(picture).enhance(1 + sign * level(0, 0.9)),
        "Posterize": lambda: ImageOps.posterize(picture, int(8 - (torch.arange(31) / 7.5).round().int()[magnitude])),
        "Solarize": lambda: ImageOps.solarize(picture, level(255, 0)),  # type: ignore[arg-type]  # as torchvision does
        "AutoContrast": lambda: ImageOps.autocontrast(picture),
        "Equalize": lambda: ImageOps.equalize(picture),
    }
    return to_tensor(calls[operation]())


def pictures(channels: int, height: int, width: int) -> Tensor:
    """Return various images: noise, a narrow range, three grays, one gray, one odd pixel, a ramp, a dark one."""
    noise = pixels(channels, height, width)
    narrow = 40 + pixels(channels, height, width, seed=1) % 150
    few = pixels(channels, height, width, seed=2) % 3 * 90
    constant = torch.full_like(noise, 77)
    odd = constant.clone()
    odd[:, height // 2, width // 3] = 200
    ramp = (torch.arange(height * width) * 255 // (height * width)).to(torch.uint8).view(1, height, width)
    dark = pixels(channels, height, width, seed=3).float().pow(3).div(256**2).to(torch.uint8)
    return torch.stack([noise, narrow, few, constant, odd, ramp.expand_as(noise), dark])


# ---- every augmentation ----


@pytest.mark.parametrize("augment", BUILT, ids=repr)
@pytest.mark.parametrize(
    "shape", [(0, 3, 8, 8), (1, 3, 8, 8), (5, 1, 9, 6), (70, 3, 12, 12), (3, 3, 1, 1), (2, 1, 2, 40)]
)
def test_shape_and_dtype_stay_and_the_input_is_not_changed(augment: Augment, shape: tuple[int, ...]) -> None:
    x = pixels(*shape)
    before = x.clone()
    view = augment(x, seeded())
    assert view.shape == x.shape
    assert view.dtype == x.dtype
    view.fill_(3)
    assert torch.equal(x, before)


@pytest.mark.parametrize("augment", BUILT, ids=repr)
def test_only_the_given_generator_counts(augment: Augment) -> None:
    x = pixels(40, 3, 16, 16)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = augment(x, seeded())
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(augment(x, seeded()), first)
    assert not torch.equal(augment(x, seeded(1)), first)


@pytest.mark.parametrize("augment", BUILT, ids=repr)
def test_a_second_call_continues_drawing(augment: Augment) -> None:
    x, generator = pixels(40, 3, 16, 16), seeded()
    assert not torch.equal(augment(x, generator), augment(x, generator))


@pytest.mark.parametrize("augment", BUILT, ids=repr)
def test_memory_layout_does_not_matter(augment: Augment) -> None:
    x = pixels(20, 3, 10, 12)
    assert torch.equal(augment(x.to(memory_format=torch.channels_last), seeded()), augment(x, seeded()))


@pytest.mark.parametrize("name", AUGMENTS)
def test_registered_augments_can_be_rebuilt_from_their_recipe(name: str) -> None:
    recipe = registry.describe(AUGMENTS[name](**OTHER[name]), AUGMENTS)
    assert recipe["name"] == name
    assert repr(registry.build(recipe, AUGMENTS)) == repr(AUGMENTS[name](**OTHER[name])) != repr(AUGMENTS[name]())


@pytest.mark.parametrize("augment", [build() for build in AUGMENTS.values()], ids=repr)
@pytest.mark.parametrize("shape", [(4, 7), (3, 8, 8), (2, 1, 3, 8, 8)])
def test_a_batch_that_is_not_images_is_refused(augment: Augment, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"needs images \(n, channels, height, width\), but got the shape \("):
        augment(pixels(*shape), seeded())


# ---- CropFlip ----


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("padding", "channels", "height", "width"), [(0, 3, 5, 7), (2, 3, 5, 7), (4, 1, 8, 6)])
def test_each_view_is_one_of_the_crops(flip: bool, padding: int, channels: int, height: int, width: int) -> None:
    x = pixels(30, channels, height, width)
    views = CropFlip(padding=padding, flip=flip)(x, seeded())
    for image, view in zip(x, views, strict=True):
        recognise(view, every_crop(image, padding, flip))


def test_crops_and_flips_are_uniform_and_independent() -> None:
    image = pixels(1, 6, 6)
    views = CropFlip(padding=1)(image.expand(3600, -1, -1, -1), seeded())
    crops = every_crop(image, 1, flip=True)
    found = [recognise(view, crops) for view in views]
    assert chisquare([found.count(key) for key in crops]).pvalue > 1e-3  # all 3 * 3 * 2 combinations


def test_neighbours_in_a_batch_are_unrelated() -> None:
    image = pixels(1, 6, 6)
    views = CropFlip(padding=1)(image.expand(3600, -1, -1, -1), seeded())
    same = sum(torch.equal(one, other) for one, other in zip(views[::2], views[1::2], strict=True))
    assert chisquare([same, 1800 - same], [100, 1700]).pvalue > 1e-3  # one pair in 18


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_every_dtype_is_cropped_the_same_way(dtype: torch.dtype) -> None:
    x = pixels(20, 3, 8, 8)
    assert torch.equal(CropFlip()(x.to(dtype), seeded()), CropFlip()(x, seeded()).to(dtype))


# ---- RandAugment ----


def operate(x: Tensor, operation: str, magnitude: int, sign: int) -> Tensor:
    drawn = torch.full(x.shape[:1], OPERATIONS.index(operation))
    return RandAugment(magnitude=magnitude)._operate(x, drawn, torch.full_like(drawn, sign))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("channels", "height", "width"), [(3, 32, 32), (1, 28, 28), (3, 17, 40), (1, 2, 9)])
def test_operation_equals_pillow_bit_for_bit(operation: str, channels: int, height: int, width: int) -> None:
    x = pictures(channels, height, width)
    for magnitude in range(31) if height == 32 else (5, 14, 30):
        for sign in (1, -1):
            views = operate(x, operation, magnitude, sign)
            expected = torch.stack([by_pillow(image, operation, magnitude, sign) for image in x])
            assert torch.equal(views, expected), f"magnitude {magnitude}, sign {sign}"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_does_something_and_only_signed_ones_have_two_sides(operation: str) -> None:
    x = pictures(3, 32, 32)
    up, down = (operate(x, operation, 14, sign) for sign in (1, -1))
    assert torch.equal(up, x) == (operation == "Identity")
    assert torch.equal(up, down) == (operation not in SIGNED)


def test_samples_of_a_mixed_batch_do_not_see_each_other() -> None:
    x = pixels(60, 3, 16, 16)
    drawn, sign = torch.randint(14, (60,), generator=seeded(1)), 1 - 2 * torch.randint(2, (60,), generator=seeded(2))
    augment = RandAugment()
    alone = [augment._operate(x[i : i + 1], drawn[i : i + 1], sign[i : i + 1]) for i in range(60)]
    assert torch.equal(augment._operate(x, drawn, sign), torch.cat(alone))


def test_operations_and_signs_are_uniform_per_sample() -> None:
    image = 40 + pixels(3, 16, 16) % 150
    views = RandAugment(padding=0)(image.expand(4200, -1, -1, -1), seeded())
    sides = {name: (1, -1) if name in SIGNED else (1,) for name in OPERATIONS}
    candidates = {(name, sign): by_pillow(image, name, 14, sign) for name in OPERATIONS for sign in sides[name]}
    found = [recognise(view, candidates) for view in views]
    expected = [4200 / 14 / len(sides[name]) for name, _ in candidates]
    assert chisquare([found.count(key) for key in candidates], expected).pvalue > 1e-3


def test_operations_follow_each_other() -> None:
    image = 40 + pixels(3, 8, 8) % 150
    names = [(name, sign) for name in OPERATIONS for sign in (1, -1)]
    once = [by_pillow(image, name, 14, sign) for name, sign in names]
    twice = torch.stack([by_pillow(first, name, 14, sign) for first in once for name, sign in names])
    views = RandAugment(operations=2, padding=0)(image.expand(100, -1, -1, -1), seeded())
    matches = [bool((twice == view).flatten(1).all(1).any()) for view in views]
    assert all(matches)
    assert len({view.numpy().tobytes() for view in views}) > 60  # of 529 pairs


def test_the_image_is_cropped_first_and_never_mirrored() -> None:
    image = 40 + pixels(3, 8, 8) % 150
    crops = every_crop(image, 1, flip=True)
    shared = {
        (place, name, sign): by_pillow(crop, name, 14, sign)
        for place, crop in crops.items()
        for name in OPERATIONS
        for sign in (1, -1)
    }
    table = torch.stack(list(shared.values()))
    views = RandAugment(padding=1)(image.expand(200, -1, -1, -1), seeded())
    matches = (table[None] == views[:, None]).flatten(2).all(2)
    assert matches.any(1).all()
    mirrored = torch.tensor([flipped for (_, _, flipped), _, _ in shared])
    assert not matches[:, mirrored].any()
    straight = {place for (place, _, _), found in zip(shared, matches.any(0).tolist(), strict=True) if found}
    assert len(straight) == 9  # all offsets occur


class OneDevice(TorchDispatchMode):
    """A mode that refuses operators on tensors of two devices, as an accelerator does; the meta device may not."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.dim()]
        assert len({tensor.device for tensor in tensors}) <= 1, func
        return func(*args, **kwargs or {})


def test_pixels_may_be_on_another_device_than_the_generator() -> None:
    x = torch.zeros(26, 3, 8, 8, dtype=torch.uint8, device="meta")
    # All operations except AutoContrast, which reads its extremes back to the CPU; meta tensors cannot go there.
    drawn = torch.tensor([place for place, name in enumerate(OPERATIONS) if name != "AutoContrast"]).repeat(2)
    with OneDevice():  # type: ignore[no-untyped-call]
        for augment in (CropFlip(), ResizedCrop(), ColorJitter(), Grayscale()):
            assert augment(x, seeded()).device == x.device
        assert RandAugment()._operate(x, drawn, torch.ones_like(drawn)).device == x.device


IN_BYTES = [RandAugment(), ResizedCrop(), ColorJitter(), Grayscale()]


@pytest.mark.parametrize("augment", IN_BYTES, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int8])
def test_some_need_bytes(augment: Augment, dtype: torch.dtype) -> None:
    with pytest.raises(InputError, match=f"needs uint8 images .* but got {dtype}"):
        augment(torch.zeros(2, 3, 8, 8, dtype=dtype), seeded())


@pytest.mark.parametrize("augment", IN_BYTES, ids=repr)
def test_some_need_gray_or_color(augment: Augment) -> None:
    with pytest.raises(InputError, match="1 or 3 channels, but got 4"):
        augment(pixels(2, 4, 8, 8), seeded())


@pytest.mark.parametrize(
    ("name", "setting", "value", "limits"),
    [
        ("crop-flip", "padding", -1, "of at least 0"),
        ("crop-flip", "padding", 1.5, "of at least 0"),
        ("rand-augment", "padding", -1, "of at least 0"),
        ("rand-augment", "operations", 0, "of at least 1"),
        ("rand-augment", "magnitude", 31, "from 0 to 30"),
        ("rand-augment", "magnitude", -1, "from 0 to 30"),
    ],
)
def test_bad_settings_are_named(name: str, setting: str, value: float, limits: str) -> None:
    with pytest.raises(SettingsError, match=f"^{setting}={value} must be a whole number {limits}.$"):
        AUGMENTS[name](**{setting: value})


# ---- PerSample ----


def add_noise(image: Tensor) -> Tensor:
    return image + torch.rand(())


def test_foreign_transform_draws_per_sample_and_leaves_the_global_generator() -> None:
    augment, x = PerSample(add_noise), torch.zeros(6, 3, 2, 2)
    before = torch.random.get_rng_state()
    first = augment(x, seeded())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len(set(first[:, 0, 0, 0].tolist())) == 6
    torch.manual_seed(5)
    assert torch.equal(augment(x, seeded()), first)
    assert not torch.equal(augment(x, seeded(1)), first)


def test_foreign_transform_may_work_in_place() -> None:
    x = torch.zeros(2, 3)  # samples need not be images
    assert torch.equal(PerSample(lambda image: image.add_(1))(x, seeded()), torch.ones(2, 3))
    assert not x.any()


def test_foreign_transform_of_an_empty_batch() -> None:
    assert PerSample(add_noise)(torch.zeros(0, 3, 4, 4), seeded()).shape == (0, 3, 4, 4)


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (
            lambda image: image[:, :2],
            r"keep shape and dtype, but it turned \(3, 4, 4\) torch.uint8 into \(3, 2, 4\) torch.uint8",
        ),
        (lambda image: image.float(), r"but it turned \(3, 4, 4\) torch.uint8 into \(3, 4, 4\) torch.float32"),
        (to_pillow, "must return a tensor, but returned a Image"),
    ],
)
def test_foreign_transform_must_keep_shape_and_dtype(transform: Callable[[Tensor], Tensor], sentence: str) -> None:
    before = torch.random.get_rng_state()
    with pytest.raises(InputError, match=sentence):
        PerSample(transform)(pixels(2, 3, 4, 4), seeded())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_repr_of_persample_shows_the_transform() -> None:
    assert repr(PerSample(torch.relu)) == f"PerSample(transform={torch.relu!r})"
