"""A network with its labels, for prediction: the learner's own, or a frozen copy."""

import copy
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenkeel.errors import DeviceError, DivergenceError, NothingLearnedError, one_of
from evenkeel.learning.average import Average
from evenkeel.learning.devices import CPU, autocast, computing, find_device
from evenkeel.learning.folding import folded
from evenkeel.learning.inputs import InputSpec
from evenkeel.learning.labels import LabelMap
from evenkeel.learning.lean import LeanNet
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import PREDICT_BATCH, Net
from evenkeel.learning.torch_utils import are_finite, evaluating, full
from evenkeel.learning.types import Precision, PredictWith

NOTHING = "Nothing has been learned yet, so there is no label to predict."


class Classifier:
    """Predictions of the plain network by the method's rule, without the adaptor. Predicting changes nothing."""

    def __init__(
        self,
        net: Net,
        method: Method,
        memory: Memory,
        labels: LabelMap,
        inputs: InputSpec,
        *,
        average: Average | None = None,
        predict_with: PredictWith = "working",
    ) -> None:
        self.net = net
        self.method = method
        self.memory = memory
        self.labels = labels
        self.inputs = inputs
        self.average = average
        self.predict_with = predict_with  # which weights, if there is an average
        self._frozen = False  # whether the net is in evaluation mode for good

    @property
    def classes(self) -> list[Hashable]:
        """Return the labels known so far, in the order of the head's outputs."""
        return list(self.labels.names)

    def logits(self, x: object, *, fold: bool = False, precision: Precision = "float32") -> Tensor:
        """Return (n, outputs) scores of all outputs, labelled or not.

        fold: fold batch norm into convolutions first, which pays for many samples; scores are the same up to rounding.
        precision: "bf16" is faster where there are units for it; scores are less exact, and of float32 all the same.
        """
        one_of("precision", precision, get_args(Precision))
        batch = self.inputs.check(x)
        if self.inputs.shape is None and len(batch):
            self.inputs.fits(batch, self.classify)
        prepared = self._folded if fold and len(batch) > PREDICT_BATCH else None
        with autocast(self.device, precision):
            return full(self._scores(batch, prepared))

    @property
    def _folded(self) -> Net | None:
        """Return the net that predicts with batch norm folded; None if there is none, or if it is compiled."""
        net = self.predictor
        if type(self.method).classify is not Method.classify or net.backbone._compiled_call_impl is not None:
            return None
        return folded(net)

    def logits_of_stored(self, x: Tensor) -> Tensor:
        """Return (n, outputs) scores of samples of memory, which an encoder has seen before."""
        return torch.cat([self.classify(self.inputs.to_network(part)) for part in x.split(PREDICT_BATCH)])

    def predict_proba(self, x: object) -> NDArray[np.float64]:
        """Return (n, classes) probabilities, in the order of `classes`."""
        return self._labelled(x).double().softmax(dim=1).cpu().numpy()

    def predict_checked(self, batch: Tensor) -> NDArray[np.float64]:
        """Return the probabilities of samples known to be finite, and of the learner's shape and dtype.

        A net may write into `batch`.
        """
        if not self.labels.names:
            raise NothingLearnedError(NOTHING)
        return self._known(self._scores(batch)).double().softmax(dim=1).numpy(force=True)

    def predict(self, x: object) -> NDArray[Any]:
        """Return the most likely label of each sample, among the known labels."""
        return self.labels.named(self._labelled(x).argmax(dim=1))

    def classify(self, x: Tensor) -> Tensor:
        """Return (n, outputs) scores of network inputs."""
        if self._frozen:
            with computing(self.device), torch.inference_mode():
                return self._forward(x)
        # Not inference mode: a table that the net caches now (of positions, say) could not be used in training.
        net = self.predictor
        with computing(self.device), evaluating(net), torch.no_grad():
            return self.method.classify(net, self.memory, x)

    @cached_property
    def _forward(self) -> Callable[[Tensor], Tensor]:
        """Return how a frozen copy computes scores, without modules if that is possible."""
        plain = LeanNet.of(self.net) if type(self.method).classify is Method.classify else None
        return plain or partial(self.method.classify, self.net, self.memory)

    @property
    def predictor(self) -> Net:
        """Return the net that predicts: the working one, one with averaged weights, or one that the method fits."""
        return self.method.fitted(self._of_weights, self.memory)

    def fit(self) -> None:
        """Let the method fit its net now, if it does so when it is first asked."""
        self.method.fitted(self._of_weights, self.memory)

    @property
    def _of_weights(self) -> Net:
        return self.net if self.average is None else self.average.predictor(self.predict_with)

    @property
    def device(self) -> torch.device:
        """Return where the network is, and so where it computes."""
        return next(self.net.head.parameters()).device

    def snapshot(self) -> "Classifier":
        """Return a frozen copy that is safe to use from many threads while the original keeps learning."""
        same: dict[int, Any] = {}  # a network that both parts hold is one network in the copy too
        if not self.method.asks_memory:  # then the copy needs no samples
            same = {id(memory): Memory(1) for memory in (self.memory, self.method.held) if memory is not None}
        net = same[id(self.net)] = copy.deepcopy(self.predictor, same)
        method = copy.deepcopy(self.method, same)
        inputs = copy.deepcopy(self.inputs, same)
        memory = copy.deepcopy(self.memory, same)
        copied = Classifier(net.eval().requires_grad_(False), method, memory, self.labels.copy(), inputs)
        copied._frozen = True  # no thread may change the mode while another predicts
        return copied

    def to(self, device: str | torch.device) -> "Classifier":
        """Return a frozen copy on another device; this one if it is there already."""
        place = find_device(device)
        if self.device == place:
            return self
        moved = self.snapshot()
        for part in (moved.net, moved.method):
            part.to(place)
        moved.memory.to(place)
        moved.inputs = self.inputs.like(next(moved.net.head.parameters()))
        moved.memory.to_network = moved.inputs.to_network
        return moved

    def __getstate__(self) -> dict[str, Any]:
        """Return a state that any machine can load: on the CPU."""
        if self.device.type == CPU:
            return self.__dict__
        return {**self.to(CPU).__dict__, "_came_from": self.device.type}

    def __setstate__(self, state: dict[str, Any]) -> None:
        came_from = state.pop("_came_from", CPU)
        self.__dict__.update(state)
        with suppress(DeviceError):
            self.__dict__.update(self.to(came_from).__dict__)

    def _labelled(self, x: object) -> Tensor:
        if not self.labels.names:
            raise NothingLearnedError(NOTHING)
        return self._known(self.logits(x))

    def _known(self, scores: Tensor) -> Tensor:
        """Return the scores of known labels; raise DivergenceError if one is not finite."""
        known = scores[:, : len(self.labels.names)]
        if not are_finite(known):
            raise DivergenceError("The network's scores are NaN or infinite, so nothing can be predicted.")
        return known

    def _scores(self, batch: Tensor, prepared: Net | None = None) -> Tensor:
        classify = self.classify if prepared is None else partial(self._by, prepared)
        if 0 < len(batch) <= PREDICT_BATCH:
            return classify(self.inputs.to_network(self.inputs.encode(batch)))
        parts = map(self.inputs.encode, batch.split(PREDICT_BATCH))
        return torch.cat([classify(self.inputs.to_network(part)) for part in parts])

    def _by(self, net: Net, x: Tensor) -> Tensor:
        """Return the scores of a net in evaluation mode."""
        with computing(self.device), torch.inference_mode():
            return self.method.classify(net, self.memory, x)
