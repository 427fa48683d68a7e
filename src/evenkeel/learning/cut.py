"""The place where a whole model is cut into backbone and head."""

import weakref
from typing import Any

import torch
from torch import Tensor, nn

from evenkeel.errors import SettingsError
from evenkeel.learning.torch_utils import tensor_version


class Cut(nn.Module):
    """A placeholder for the head that records its last output, to check whether the model changes that afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: weakref.ref[Tensor] | None = None
        self._version = 0

    def forward(self, features: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            self._passed, self._version = weakref.ref(features), tensor_version(features)
        return features

    def require_passed_on(self, out: object) -> None:
        """Raise SettingsError unless `out` is the last output of this module and has not been written to since."""
        if torch.compiler.is_compiling():
            return
        last = None if self._passed is None else self._passed()
        if last is None or last is not out or tensor_version(last) != self._version:
            raise SettingsError(
                "The model does something after its head (a softmax, say), so it cannot be cut there. "
                "Give the two parts instead: Net(backbone, head)."
            )

    def _get_name(self) -> str:
        return "_Cut"  # which the digests of frozen models in checkpoints contain

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_passed": None}  # a weak reference cannot be pickled
