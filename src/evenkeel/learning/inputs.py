"""User input as tensors: checked first, converted once."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from evenkeel.errors import InputError, SettingsError, reason
from evenkeel.learning.encoder import Encoder
from evenkeel.learning.texts import NEEDS_ENCODER, are_texts, packed
from evenkeel.learning.torch_utils import are_finite, sent

Moments = tuple[Any, Any]  # mean and standard deviation: one number, or one per channel or feature
MOMENTS = "normalize must be (mean, std): two numbers, or two sequences of equal length; std above zero."


class InputSpec:
    """The shape and dtype of samples, set by the first batch. Checks batches and turns samples into network input.

    uint8 images stay uint8 until they enter the network, where they are divided by 255; floats are used as they are.
    `normalize=(mean, std)` then subtracts and divides, along the first dimension of a sample.
    """

    def __init__(self, like: Tensor, normalize: Moments | None, encoder: Encoder | None = None) -> None:
        self.normalize = None if normalize is None else _as_numbers(normalize)
        self.shape: tuple[int, ...] | None = None  # of a sample; None before the first batch
        self.dtype: torch.dtype | None = None
        self.encoder = encoder  # what turns samples into those that are stored; None: they are stored as they are
        self._like = like  # a weight of the network: its dtype and device
        self._moments: tuple[Tensor, Tensor] | None = None
        self._of_bytes: tuple[Tensor, Tensor] | None = None  # the same for numbers from 0 to 255
        if self.normalize is not None and self.takes_texts:
            raise SettingsError("normalize is for numbers, but the encoder takes texts. Leave it out.")
        if self.normalize is not None:
            mean, std = self.normalize
            self._moments = _like(mean, like), _like(std, like)
            self._of_bytes = 255.0 * self._moments[0], 255.0 * self._moments[1]

    def like(self, weight: Tensor) -> "InputSpec":
        """Return the same for a network with this weight, which may be on another device."""
        other = InputSpec(weight, self.normalize, self.encoder)
        other.shape, other.dtype = self.shape, self.dtype
        return other

    def check(self, x: object) -> Tensor:
        """Return `x` as a tensor to store, on the device it came from; raise InputError if it is invalid."""
        batch = _as_texts(x) if self.takes_texts else _as_tensor(x)
        if batch.dim() < 2:
            raise InputError(
                f"x must be a batch, (samples, ...), but its shape is {tuple(batch.shape)}. "
                "For a single sample, give x[None]."
            )
        if batch.dtype != torch.uint8 and not batch.is_floating_point():
            kind = str(batch.dtype).removeprefix("torch.")
            raise InputError(f"x has dtype {kind}; give images as uint8 or features as floating-point numbers.")
        if batch.is_floating_point():
            batch = batch.to(self._like.dtype)
        if self.shape is not None and self._sample(batch) != self.shape:
            raise InputError(f"Samples of this learner have shape {self.shape}, but these have {_sample(batch)}.")
        if self.dtype is not None and batch.dtype != self.dtype:
            before, now = ("uint8", "floats") if self.dtype == torch.uint8 else ("floats", "uint8")
            raise InputError(f"This learner was given {before} before and {now} now; use only one of them.")
        if batch.is_floating_point() and not are_finite(batch):
            invalid = (~torch.isfinite(batch)).flatten(1).any(dim=1).nonzero().flatten().tolist()
            raise InputError(
                f"x holds NaN or infinite values in {len(invalid)} sample(s), the first at index {invalid[0]}."
            )
        return batch

    def fits(self, batch: Tensor, forward: Callable[[Tensor], Tensor]) -> None:
        """Raise InputError if the network cannot process the first batch. `forward` must change nothing."""
        if self.normalize is not None and len(self.normalize[0]) not in (1, batch.shape[1]):
            raise InputError(
                f"normalize has {len(self.normalize[0])} channels, but samples of shape {_sample(batch)} have "
                f"{batch.shape[1]}.{_hint(batch)}"
            )
        try:
            forward(self.to_network(self.encode(batch[:2].clone())))
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            if isinstance(error, InputError | SettingsError) and not _hint(batch):
                raise
            vectors = " These are vectors; mlp is a network for vectors." if batch.dim() == 2 else ""
            raise InputError(
                f"The network cannot process samples of shape {_sample(batch)}.{vectors}{_hint(batch)} "
                f"({reason(error)})"
            ) from error

    def accept(self, batch: Tensor) -> None:
        """Record the shape and dtype of these samples: later ones must have the same."""
        self.shape, self.dtype = self._sample(batch), batch.dtype

    def forget_shape(self) -> None:
        """Take any samples again, as before the first batch."""
        self.shape = self.dtype = None

    def encode(self, batch: Tensor) -> Tensor:
        """Return samples as they are stored: those given, or what the encoder makes of them."""
        if self.encoder is None:
            return batch
        if self.encoder.takes_texts:
            return self.encoder(sent(batch, self._like.device)).to(self._like.dtype)
        return self.encoder(self.scaled(batch))

    def _sample(self, batch: Tensor) -> tuple[int, ...]:
        return () if self.takes_texts else _sample(batch)

    @property
    def takes_texts(self) -> bool:
        """Return whether samples are texts, which the encoder takes."""
        return self.encoder is not None and self.encoder.takes_texts

    def to_network(self, batch: Tensor) -> Tensor:
        """Return stored samples as network input; always a copy, which a net may write into."""
        return self.scaled(batch) if self.encoder is None else batch.to(self._like, copy=True)

    def scaled(self, batch: Tensor) -> Tensor:
        """Return a copy of samples, scaled and normalised."""
        moments = self._of_bytes if batch.dtype == torch.uint8 else self._moments
        x = sent(batch, self._like.device).to(self._like.dtype, copy=True)
        if moments is None:
            return x.div_(255.0) if batch.dtype == torch.uint8 else x
        mean, std = (values.view(-1, *[1] * (batch.dim() - 2)) for values in moments)
        return x.sub_(mean).div_(std)


def _as_texts(x: object) -> Tensor:
    """Return texts, or the bytes that a data set has of them, as (n, bytes)."""
    if are_texts(x):
        return torch.from_numpy(packed(cast("Sequence[str]", x)))
    if isinstance(x, list | tuple | np.ndarray) and len(x) == 0:
        return torch.zeros(0, 1, dtype=torch.uint8)
    batch = torch.as_tensor(x) if isinstance(x, Tensor | np.ndarray) else None
    if batch is None or batch.dtype != torch.uint8 or batch.dim() != 2:
        what = f"a {type(x).__name__}" if batch is None else f"{batch.dtype} of shape {tuple(batch.shape)}"
        raise InputError(f"The encoder of this learner takes texts. Give a list of them, not {what}.")
    return batch


def _as_tensor(x: object) -> Tensor:
    if are_texts(x):
        raise InputError(NEEDS_ENCODER)
    if isinstance(x, Tensor):
        if x.layout != torch.strided:
            raise InputError(f"x is a {x.layout} tensor; give it as x.to_dense().")
        return x.detach()
    try:
        array: np.ndarray[Any, Any] = np.array(x)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"x cannot be converted to one array: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"x must be an array or a tensor of numbers, but it is a {type(x).__name__} of {array.dtype}.")
    if array.dtype.itemsize > 1 and not (array.dtype.isnative and array.dtype.name in _TORCH_DTYPES):
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return torch.from_numpy(array)


_TORCH_DTYPES = ("float16", "float32", "float64", "int16", "int32", "int64")


def _like(values: Sequence[float], weight: Tensor) -> Tensor:
    return torch.tensor(values, dtype=weight.dtype).to(weight.device)


def _as_numbers(normalize: Moments) -> tuple[tuple[float, ...], tuple[float, ...]]:
    try:
        mean, std = map(_numbers, normalize)
    except (TypeError, ValueError):
        raise SettingsError(MOMENTS) from None
    if len(mean) != len(std) or not all(value > 0 for value in std):
        raise SettingsError(MOMENTS)
    return mean, std


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in np.atleast_1d(np.asarray(values)))


def _sample(batch: Tensor) -> tuple[int, ...]:
    return tuple(batch.shape[1:])


def _hint(batch: Tensor) -> str:
    if batch.dim() == 3:
        return " If they are images without a channel dimension, give x[:, None]."
    last = is_channels_last(batch.shape[1:])
    return " Images are (samples, channels, height, width): these look channels-last." if last else ""


def is_channels_last(sample: Sequence[int]) -> bool:
    """Return whether the shape of a sample looks like that of an image whose channels come last."""
    return len(sample) == 3 and sample[2] in (1, 3, 4) and sample[0] not in (1, 3, 4)
