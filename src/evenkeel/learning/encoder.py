"""A frozen encoder in front of a network: it runs once for each sample, and its outputs are what memory stores."""

import hashlib
import weakref
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from evenkeel.errors import SettingsError
from evenkeel.learning.cut import Cut
from evenkeel.learning.texts import packed, takes_texts, unpacked

BATCH = 128  # samples per forward
ENCODERS: "weakref.WeakValueDictionary[str, Encoder]" = weakref.WeakValueDictionary()
"""The encoders of this process by digest. Processes that have the same one send its digest instead of its weights."""


class Encoder:
    """A module that is never trained: without gradients, in evaluation mode, so that its batch statistics do not move.

    Copies of a network share it. A checkpoint holds its digest, not its weights.

    >>> encoder = Encoder(nn.Sequential(nn.Linear(4, 2), nn.Dropout()))
    >>> encoder(torch.ones(3, 4)).shape, encoder.module.training
    (torch.Size([3, 2]), False)
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise SettingsError(f"encoder is a {type(module).__name__}; give an nn.Module.")
        self.module = module.eval().requires_grad_(False)
        self.takes_texts = takes_texts(module)
        self.cut: Cut | None = None  # where the module was cut, if it is a whole model without its head

    @cached_property
    def digest(self) -> str:
        """Return 16 hexadecimal digits of structure and weights; this process then knows the encoder by them."""
        content = hashlib.sha256(repr(self.module).encode())
        for name, value in self.module.state_dict().items():
            content.update(name.encode())
            if isinstance(value, Tensor):
                content.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        digest = content.hexdigest()[:16]
        ENCODERS.setdefault(digest, self)
        return digest

    def __call__(self, x: Tensor) -> Tensor:
        """Return (n, ...) features of network inputs, on their device and, unless they are texts, of their dtype."""
        if self.takes_texts and not len(x):  # a tokenizer takes one text at least
            return torch.zeros(0, *self.shape_behind(()), device=x.device)
        like = next(self.module.parameters(), x)
        if like.device != x.device:
            self.module.to(x.device)
        with torch.no_grad():
            parts = [
                self._features(unpacked(part) if self.takes_texts else part.to(like.dtype)) for part in x.split(BATCH)
            ]
        features = torch.cat(parts)
        return features.to(x.device) if self.takes_texts else features.to(x.dtype)

    def _features(self, x: object) -> Tensor:
        features = output(self.module(x))
        if self.cut is not None:
            self.cut.require_passed_on(features)
        return features

    def shape_behind(self, sample: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the features of a sample of this shape."""
        example = torch.from_numpy(packed(["text"])) if self.takes_texts else torch.zeros(1, *sample)
        return tuple(self(example).shape[1:])

    def __deepcopy__(self, memo: dict[int, Any]) -> "Encoder":
        return self


def output(given: object) -> Tensor:
    """Return the features that a module returned; of a Hugging Face model the pooled ones, or the mean over tokens."""
    if isinstance(given, Mapping):
        pooled = next((given[name] for name in ("logits", "pooler_output") if given.get(name) is not None), None)
        given = given["last_hidden_state"].mean(dim=1) if pooled is None else pooled
    if not isinstance(given, Tensor):
        raise SettingsError(
            f"The encoder must return a tensor with a row for each sample, not a {type(given).__name__}."
        )
    return given
