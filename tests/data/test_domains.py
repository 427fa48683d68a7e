"""Transformations of the inputs: which pixel moves where."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evenkeel.data.domains import Domain, Permutation, Rotation
from evenkeel.errors import InputError, SettingsError

DTYPES = [torch.uint8, torch.float32, torch.float64, torch.float16, torch.bfloat16]


def images(
    n: int = 2, channels: int = 3, height: int = 8, width: int = 8, *, dtype: torch.dtype = torch.uint8, seed: int = 0
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, channels, height, width), generator=generator).to(dtype)


DOMAINS: list[Domain] = [Rotation(0), Rotation(90), Rotation(17), Permutation(0), Permutation(3, 5)]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_and_dtype_are_kept_and_the_input_is_unchanged(domain: Domain, dtype: torch.dtype) -> None:
    x = images(height=6, width=9, dtype=dtype)
    before = x.clone()
    changed = domain(x)
    assert (changed.shape, changed.dtype) == (x.shape, dtype)
    assert torch.equal(x, before)
    assert domain(x[:0]).shape == (0, 3, 6, 9)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_sample_is_transformed_alike_in_any_batch(domain: Domain) -> None:
    """So training and test see the same transformation, and nothing random is involved."""
    x = images(6)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    whole = domain(x)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(torch.cat([domain(x[:1]), domain(x[1:4]), domain(x[4:])]), whole)


def test_domains_have_readable_names() -> None:
    assert [domain.name for domain in (Rotation(30), Rotation(22.5), Permutation(0, 2))] == [
        "rotation 30°",
        "rotation 22.5°",
        "permutation 2",
    ]
    assert repr(Rotation(30)) == "Rotation(degrees=30)"
    assert repr(Permutation(7, 2)) == "Permutation(seed=7, number=2)"


# ---- rotation ----


@given(quarters=st.integers(-8, 8), size=st.integers(1, 9), dtype=st.sampled_from(DTYPES))
@settings(max_examples=50)
def test_quarter_turns_are_exact(quarters: int, size: int, dtype: torch.dtype) -> None:
    x = images(height=size, width=size, dtype=dtype)
    assert torch.equal(Rotation(90 * quarters)(x), torch.rot90(x, quarters, (2, 3)))


@given(first=st.integers(-4, 4), second=st.integers(-4, 4))
@settings(max_examples=30)
def test_right_angles_add_up(first: int, second: int) -> None:
    x = images()
    assert torch.equal(Rotation(90 * second)(Rotation(90 * first)(x)), Rotation(90 * (first + second))(x))


@pytest.mark.parametrize("shape", [(8, 8), (7, 7), (5, 8), (1, 4)])
def test_half_turns_and_no_turn_are_exact_in_any_shape(shape: tuple[int, int]) -> None:
    for x in (images(height=shape[0], width=shape[1]), images(height=shape[0], width=shape[1]).double() / 255):
        assert torch.equal(Rotation(0)(x), x)
        assert torch.equal(Rotation(360)(x), x)
        assert torch.equal(Rotation(180)(x), x.flip(2, 3))


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("quarters", range(4))
def test_the_general_rotation_agrees_with_the_exact_one(size: int, quarters: int) -> None:
    """The same direction, the same centre: a tiny deviation from the right angle changes almost nothing."""
    x = images(height=size, width=size, dtype=torch.float64)
    for deviation in (-1e-9, 1e-9):
        assert torch.allclose(Rotation(90 * quarters + deviation)(x), torch.rot90(x, quarters, (2, 3)), atol=1e-5)


def test_a_quarter_turn_of_an_oblong_image_keeps_the_shape_and_the_scale() -> None:
    x = torch.zeros(1, 1, 5, 9, dtype=torch.float64)
    x[0, 0, 2, 6] = 1  # two to the right of the centre, so two above it afterwards
    turned = Rotation(90)(x)
    assert float(turned[0, 0, 0, 4]) == pytest.approx(1)
    assert float(turned.sum()) == pytest.approx(1)


@given(degrees=st.floats(-720, 720), size=st.integers(3, 12), dtype=st.sampled_from([torch.uint8, torch.float32]))
@settings(max_examples=50)
def test_values_are_means_of_old_values_and_zeros(degrees: float, size: int, dtype: torch.dtype) -> None:
    x = images(height=size, width=size, dtype=dtype)
    turned = Rotation(degrees)(x)
    assert float(turned.min()) >= 0
    assert float(turned.max()) <= float(x.max()) + 1e-3
    back = Rotation(-degrees)(turned)
    assert back.shape == x.shape


@given(degrees=st.floats(-360, 360))
@settings(max_examples=30)
def test_rotating_back_restores_the_middle(degrees: float) -> None:
    """The middle of a smooth image is restored; its corners have left the image."""
    place = torch.linspace(-1, 1, 33, dtype=torch.float64)
    x = (100 * torch.exp(-2 * ((place[:, None] - 0.3) ** 2 + (place - 0.1) ** 2)))[None, None]
    back = Rotation(-degrees)(Rotation(degrees)(x))
    assert torch.allclose(back[..., 10:23, 10:23], x[..., 10:23, 10:23], atol=1)


def test_an_eighth_turn_by_hand() -> None:
    """Three by three, turned by 45 degrees: the centre stays, the edge in the middle comes from the corner's side."""
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 1, 2] = 100  # to the right of the centre
    turned = Rotation(45)(x)
    # (1, -1) from the centre, up and right, comes from (sqrt 2, 0): 1.414 to the right, so 1 - 0.414 of that pixel.
    assert float(turned[0, 0, 0, 2]) == pytest.approx(100 * (2 - math.sqrt(2)), abs=1e-3)
    # (0, -1), right above, comes from (0.707, 0.707), to the lower right; (1, 0) from 0.707 above: mirrored values.
    assert float(turned[0, 0, 0, 1]) == pytest.approx(float(turned[0, 0, 1, 2]), abs=1e-3)
    assert float(turned[0, 0, 2, 0]) == 0


def test_bytes_are_rounded_not_truncated() -> None:
    x = images(20, height=16, width=16)
    bytes_, exact = Rotation(30)(x).double(), Rotation(30)(x.double())
    assert float((bytes_ - exact).abs().max()) <= 0.5 + 1e-3
    assert abs(float((bytes_ - exact).mean())) < 0.02


def test_outside_is_zero() -> None:
    turned = Rotation(45)(torch.full((1, 1, 16, 16), 255, dtype=torch.uint8))
    assert turned[0, 0, [0, 0, -1, -1], [0, -1, 0, -1]].tolist() == [0, 0, 0, 0]
    assert int(turned[0, 0, 8, 8]) == 255


@pytest.mark.parametrize("degrees", [0, 90, 30])
@pytest.mark.parametrize("shape", [(4, 10), (4, 8, 8), (4,)])
def test_only_images_can_be_rotated(degrees: float, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        InputError, match=r"Rotation needs images \(n, channels, height, width\), but got the shape \(4,"
    ):
        Rotation(degrees)(torch.zeros(shape))


@pytest.mark.parametrize("degrees", [float("nan"), float("inf")])
def test_an_angle_must_be_finite(degrees: float) -> None:
    with pytest.raises(SettingsError, match="an angle must be finite"):
        Rotation(degrees)


# ---- permutation ----


@given(seed=st.integers(0, 99), number=st.integers(1, 9), height=st.integers(1, 9), width=st.integers(1, 9))
@settings(max_examples=50)
def test_a_permutation_of_pixels_is_a_bijection(seed: int, number: int, height: int, width: int) -> None:
    pixels = torch.arange(height * width).view(1, 1, height, width)
    x = torch.cat([pixels, pixels + 1000], dim=1)
    permuted = Permutation(seed, number)(x)
    assert permuted[0, 0].flatten().sort().values.tolist() == list(range(height * width))
    assert torch.equal(permuted[0, 1], permuted[0, 0] + 1000)  # all channels alike


@given(seed=st.integers(0, 99), features=st.integers(1, 50))
@settings(max_examples=30)
def test_a_permutation_of_features_is_a_bijection(seed: int, features: int) -> None:
    x = torch.arange(features).repeat(3, 1)
    permuted = Permutation(seed)(x)
    assert permuted[0].sort().values.tolist() == list(range(features))
    assert torch.equal(permuted[0], permuted[1])
    assert torch.equal(permuted[0], permuted[2])


def test_permutations_differ_by_seed_and_by_number() -> None:
    x = torch.arange(50)[None]
    views = {tuple(Permutation(seed, number)(x)[0].tolist()) for seed in range(4) for number in range(1, 5)}
    assert len(views) == 16
    assert tuple(range(50)) not in views


def test_a_single_value_has_no_positions() -> None:
    with pytest.raises(InputError, match=r"must be of shape \(n, ...\), but its shape is \(4,\)"):
        Permutation(0)(torch.zeros(4))
