"""A test split for data sets that come without one."""

from collections import Counter
from collections.abc import Sequence

from evenkeel.errors import DataError, SettingsError, some, whole_number


def stratified(labels: Sequence[object], test_share: float, seed: int, where: str) -> tuple[list[int], list[int]]:
    """Return the rows of the training and of the test split, with each class in the same proportion."""
    from sklearn.model_selection import train_test_split

    if not isinstance(test_share, int | float) or not 0 < test_share < 1:
        raise SettingsError(f"test_share={test_share!r} must lie between 0 and 1.")
    whole_number("seed", seed, at_least=0)
    alone = [label for label, count in Counter(labels).items() if count == 1]
    if alone:
        raise DataError(
            f"{where} cannot be split into training and test samples: each class needs at least two, "
            f"but there is only one of {some(alone)}."
        )
    try:
        train, test = train_test_split(range(len(labels)), test_size=test_share, stratify=labels, random_state=seed)
    except ValueError as error:  # fewer samples than classes in a split
        raise DataError(f"{where} cannot be split with test_share={test_share}: {error}") from None
    return list(train), list(test)
