"""What can go wrong, as sentences for the person who caused it."""

import operator
from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from typing import TypeGuard


class EvenkeelError(Exception):
    """Root of every error this library raises on purpose."""


class InputError(EvenkeelError, ValueError):
    """A batch cannot be used. The learner is as it was before the call."""


class SettingsError(EvenkeelError, ValueError):
    """A constructor argument, or a combination of them, makes no sense."""


class DataError(EvenkeelError, ValueError):
    """A data set cannot be found or read."""


class RunError(EvenkeelError, ValueError):
    """The records of a run cannot be read, or do not belong to the run that is to go on."""


class BusyError(RunError):
    """Another process is at work where this one wants to be."""


class CheckpointError(EvenkeelError, ValueError):
    """A file is not a checkpoint this version can read, or does not fit what it is loaded into."""


class DivergenceError(EvenkeelError, ArithmeticError):
    """A number inside is no longer finite. The network is as it was before the update that found it."""


class MethodError(EvenkeelError):
    """A method breaks the contract that the learner relies on."""


def nearest(word: object, allowed: Iterable[object]) -> str:
    """' Did you mean X?' for the allowed value closest to `word`, or nothing when none is close.

    >>> nearest("resevoir", ["reservoir", "balanced"])
    " Did you mean 'reservoir'?"
    """
    by_text = {str(value): value for value in allowed}
    matches = get_close_matches(str(word), by_text, n=1)
    return f" Did you mean {by_text[matches[0]]!r}?" if matches else ""


def one_of(setting: str, value: object, allowed: Iterable[object]) -> None:
    """Raise unless `value` is one of `allowed`."""
    choices = list(allowed)
    if value not in choices:
        names = ", ".join(map(repr, choices))
        raise SettingsError(f"{setting}={value!r} is not one of {names}.{nearest(value, choices)}")


def whole_number(setting: str, value: object, *, at_least: int) -> int:
    """`value` as an int, of Python's or numpy's kind, or a SettingsError."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = at_least - 1
    if number < at_least or isinstance(value, bool):
        raise SettingsError(f"{setting}={value!r} must be a whole number of at least {at_least}.")
    return number


def fraction(setting: str, value: object) -> float:
    """`value` as a float from 0 to below 1, or a SettingsError."""
    if not _is_finite(value) or not 0 <= value < 1:
        raise SettingsError(f"{setting}={value!r} must be a number from 0 to below 1.")
    return float(value)


def above_zero(setting: str, value: object) -> float:
    """`value` as a float, or a SettingsError."""
    if not _is_finite(value) or not value > 0:
        raise SettingsError(f"{setting}={value!r} must be a number above 0.")
    return float(value)


def at_least_zero(setting: str, value: object) -> float:
    """`value` as a float, or a SettingsError."""
    if not _is_finite(value) or not value >= 0:
        raise SettingsError(f"{setting}={value!r} must be a number of at least 0.")
    return float(value)


def _is_finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
