"""The errors of this library, and checks that raise them with sentences for the person who caused them."""

import operator
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import TypeGuard


class EvenkeelError(Exception):
    """Root of every error this library raises on purpose."""


class InputError(EvenkeelError, ValueError):
    """A batch cannot be used. The learner is unchanged by the call."""


class NothingLearnedError(InputError):
    """There is no label to predict yet."""


class SettingsError(EvenkeelError, ValueError):
    """A constructor argument, or a combination of them, makes no sense."""


class DeviceError(SettingsError):
    """A device is not there, or its memory is exhausted."""


class DataError(EvenkeelError, ValueError):
    """A data set cannot be found or read."""


class RunError(EvenkeelError, ValueError):
    """The records of a run cannot be read, or do not belong to the run that is to be resumed."""


class BusyError(RunError):
    """Another process is using the same folder or file."""


class CheckpointError(EvenkeelError, ValueError):
    """A file is not a checkpoint this version can read, or does not fit what it is loaded into."""


class DivergenceError(EvenkeelError, ArithmeticError):
    """A loss, logit or gradient is NaN or infinite; the network was rolled back to its state before the update."""


class MethodError(EvenkeelError):
    """A method breaks the contract that the learner relies on."""


def nearest(word: object, allowed: Iterable[object]) -> str:
    """Return ' Did you mean X?' for the allowed value closest to `word`, or an empty string if none is close.

    >>> nearest("resevoir", ["reservoir", "balanced"])
    " Did you mean 'reservoir'?"
    """
    by_text = {str(value): value for value in allowed}
    matches = get_close_matches(str(word), by_text, n=1)
    return f" Did you mean {by_text[matches[0]]!r}?" if matches else ""


def some(values: Sequence[object], most: int = 5) -> str:
    """Return the first values, for a sentence that should not list them all.

    >>> some(["cat", "dog", "cow"], most=2)
    "'cat', 'dog', ..."
    """
    return ", ".join(map(repr, values[:most])) + (", ..." if len(values) > most else "")


def counted(number: int, noun: str) -> str:
    """Return a number of things, with the regular plural unless there is one of them.

    >>> counted(1, "run"), counted(0, "run")
    ('1 run', '0 runs')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def reason(error: BaseException) -> str:
    """Return the first line of another library's error, without its full stop; the error's class if it has no text.

    >>> reason(OSError("No space left.\\nMore of it")), reason(RuntimeError())
    ('No space left', 'RuntimeError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def one_of(setting: str, value: object, allowed: Iterable[object]) -> None:
    """Raise SettingsError unless `value` is one of `allowed`."""
    choices = list(allowed)
    if value not in choices:
        names = ", ".join(map(repr, choices))
        raise SettingsError(f"{setting}={value!r} is not one of {names}.{nearest(value, choices)}")


def whole_number(setting: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value`, an integer of Python or numpy, as an int; raise SettingsError if it is none or out of range."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = at_least - 1
    if number < at_least or (at_most is not None and number > at_most) or isinstance(value, bool):
        limits = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise SettingsError(f"{setting}={value!r} must be a whole number {limits}.")
    return number


def fraction(setting: str, value: object, *, alternative: str = "") -> float:
    """Return `value` as a float; raise SettingsError, which names an `alternative`, unless it is in [0, 1)."""
    if not _is_finite(value) or not 0 <= value < 1:
        also = f", or {alternative!r}" if alternative else ""
        raise SettingsError(f"{setting}={value!r} must be a number from 0 to below 1{also}.")
    return float(value)


def probability(setting: str, value: object) -> float:
    """Return `value` as a float; raise SettingsError unless it is in [0, 1]."""
    if not _is_finite(value) or not 0 <= value <= 1:
        raise SettingsError(f"{setting}={value!r} must be a number from 0 to 1.")
    return float(value)


def above_zero(setting: str, value: object) -> float:
    """Return `value` as a float; raise SettingsError unless it is finite and above 0."""
    if not _is_finite(value) or not value > 0:
        raise SettingsError(f"{setting}={value!r} must be a number above 0.")
    return float(value)


def at_least_zero(setting: str, value: object) -> float:
    """Return `value` as a float; raise SettingsError unless it is finite and at least 0."""
    if not _is_finite(value) or not value >= 0:
        raise SettingsError(f"{setting}={value!r} must be a number of at least 0.")
    return float(value)


def _is_finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def os_sentence(error: OSError) -> str:
    """Return what an error of the system says, as a sentence.

    >>> os_sentence(OSError(28, "No space left on device", "model/versions"))
    'Cannot use model/versions: No space left on device.'
    """
    return f"Cannot use {error.filename or 'the disk'}: {error.strerror or reason(error)}."
