"""Noise and imbalance as pure functions: exact shares, uniform errors, nested draws."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from evenkeel.data.unclean import imbalanced, noisy
from evenkeel.errors import SettingsError

GROUPS = [[3, 0, 4], [1, 2]]


def labels_of(*sizes: int) -> Tensor:
    labels = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), min_size=6, max_size=6), share=st.floats(0, 0.49), seed=st.integers(0, 99))
def test_each_class_has_its_exact_share_of_wrong_labels_within_its_group(
    sizes: list[int], share: float, seed: int
) -> None:
    labels = labels_of(*sizes)
    before = labels.clone()
    result = noisy(labels, GROUPS, share=share, seed=seed)
    assert torch.equal(labels, before)
    for group in GROUPS:
        for label in group:
            mine = result[labels == label]
            assert int((mine != label).sum()) == round(share * sizes[label])
            assert set(mine.tolist()) <= set(group)
    assert bool((result[labels == 5] == 5).all())  # in no group


def test_wrong_labels_are_uniform_over_the_other_classes_of_the_group() -> None:
    labels = labels_of(*[3000] * 4)
    result = noisy(labels, [[0, 1, 2, 3]], share=0.5)
    for label in range(4):
        counts = result[labels == label].bincount(minlength=4).tolist()
        counts.pop(label)
        assert chisquare(counts).pvalue > 1e-3


def test_more_noise_keeps_the_errors_of_less() -> None:
    labels = labels_of(*[50] * 5)
    few, many = (noisy(labels, GROUPS, share=share, seed=3) for share in (0.1, 0.4))
    wrong = few != labels
    assert wrong.any()
    assert torch.equal(few[wrong], many[wrong])


def test_noise_is_drawn_from_the_seed_alone() -> None:
    labels = labels_of(*[50] * 5)
    torch.manual_seed(1)
    first = noisy(labels, GROUPS, share=0.3, seed=7)
    torch.manual_seed(2)
    assert torch.equal(noisy(labels, GROUPS, share=0.3, seed=7), first)
    assert not torch.equal(noisy(labels, GROUPS, share=0.3, seed=8), first)


@pytest.mark.parametrize(
    ("groups", "share", "sentence"),
    [([[0], [1, 2]], 0.1, "a task here has only one class"), ([[0, 1], [2, 3, 4]], 0.5, "must be below 0.5")],
)
def test_noise_that_makes_no_sense_is_refused(groups: list[list[int]], share: float, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        noisy(labels_of(*[9] * 5), groups, share=share)


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(30, 90), min_size=2, max_size=6), ratio=st.floats(1, 20), seed=st.integers(0, 99))
def test_class_sizes_fall_exponentially_with_the_exact_ratio(sizes: list[int], ratio: float, seed: int) -> None:
    labels = labels_of(*sizes)
    kept = imbalanced(labels, range(len(sizes)), ratio=ratio, seed=seed)
    assert len(set(kept.tolist())) == len(kept)
    counts = labels[kept].bincount(minlength=len(sizes)).sort(descending=True).values.tolist()
    largest = counts[0]
    for place, count in enumerate(counts):
        share = ratio ** (-place / (len(sizes) - 1))
        assert abs(count - largest * share) <= 0.5 + 0.5 * share  # both were rounded


def test_of_equal_classes_the_most_frequent_keeps_all_its_samples() -> None:
    labels = labels_of(*[200] * 3, 50)
    kept = imbalanced(labels, [0, 1, 2], ratio=100)
    assert labels[kept].bincount(minlength=4).sort(descending=True).values.tolist() == [200, 20, 2, 0]


def test_as_much_is_kept_as_the_profile_allows() -> None:
    """In one class at least, nothing is left out."""
    labels = labels_of(30, 100, 60)
    for seed in range(5):
        counts = labels[imbalanced(labels, [0, 1, 2], ratio=5, seed=seed)].bincount()
        assert bool((counts == torch.tensor([30, 100, 60])).any())


def test_which_class_is_rare_comes_from_the_seed() -> None:
    labels = labels_of(*[100] * 4)
    rarest = [int(labels[imbalanced(labels, range(4), ratio=10, seed=n)].bincount().argmin()) for n in range(200)]
    assert chisquare([rarest.count(label) for label in range(4)]).pvalue > 1e-3
    one, same = (imbalanced(labels, range(4), ratio=10, seed=5) for _ in range(2))
    assert torch.equal(one, same)


def test_a_larger_ratio_leaves_out_more_of_the_same_samples() -> None:
    labels = labels_of(*[100] * 4)
    more, less = (set(imbalanced(labels, range(4), ratio=ratio).tolist()) for ratio in (5, 50))
    assert less < more


def test_a_class_without_samples_is_refused() -> None:
    with pytest.raises(SettingsError, match="the rarest class would have no sample"):
        imbalanced(labels_of(10, 10), [0, 1], ratio=11)
