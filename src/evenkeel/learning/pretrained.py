"""Pretrained models of timm and Hugging Face: as encoders, as whole networks, and for texts. Neither package is needed
unless one is asked for; weights come from the user's cache.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from evenkeel.errors import SettingsError, reason
from evenkeel.learning.encoder import Encoder, output
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import derive, global_seed
from evenkeel.learning.texts import TextModule


def timm(*, model: str, pretrained: bool = True, channels: int = 3, seed: int = 0) -> nn.Module:
    """A model of timm without its head, for images; pretrained weights come from the user's cache."""
    try:
        create_model: Any = import_module("timm").create_model
    except Exception as error:  # without torchvision it raises other errors than ImportError
        raise SettingsError(f"net.name = 'timm' needs the package timm, and torchvision: {reason(error)}.") from None
    with global_seed(derive(seed, "net")):
        made: nn.Module = _loaded(
            lambda: create_model(model, pretrained=pretrained, num_classes=0, in_chans=channels), "timm", model
        )
    return made


def huggingface(*, model: str, pretrained: bool = True, seed: int = 0) -> nn.Module:
    """A vision model of Hugging Face without its head: a name on the hub, which must be in the cache, or a folder.

    pretrained=False takes only its config, and random weights.
    """
    with global_seed(derive(seed, "net")):
        return _PixelModel(_transformer(model, pretrained))


class _PixelModel(nn.Module):
    """A vision model that takes a batch of images and returns pooled features."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return output(self.model(pixel_values=x)).flatten(1)


def _transformer(model: str, pretrained: bool) -> nn.Module:
    try:
        transformers: Any = import_module("transformers")
    except ImportError as error:
        raise SettingsError(
            f"A Hugging Face model needs the package transformers: pip install transformers ({reason(error)})."
        ) from None

    def load(**where: bool) -> nn.Module:
        if pretrained:
            found: nn.Module = transformers.AutoModel.from_pretrained(model, **where)
            return found
        made: nn.Module = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(model, **where))
        return made

    made: nn.Module = _cached(load, model)
    return made.eval()


def _cached(load: Callable[..., Any], model: str) -> Any:
    """Return what Hugging Face loads of a model, from the cache if possible: no waiting where there is no network."""
    try:
        with _without_bars():
            return load(local_files_only=True)
    except OSError:
        return _loaded(load, "Hugging Face", model)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Leave out the bars of Hugging Face, which shows one for each of the parts that a start loads from the disk."""
    bars: Any = import_module("transformers.utils.logging")
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _loaded(load: Callable[[], Any], whose: str, model: str) -> Any:
    try:
        return load()
    except Exception as error:  # of the hub, by version: OSError, RuntimeError, of httpx
        raise SettingsError(
            f"The model {model!r} of {whose} cannot be loaded: it is not in the cache, and could not be fetched "
            f"({reason(error)}). Load it once where there is a network, or give a folder that holds it."
        ) from error


def whole_net(module: nn.Module, classes: int, sample: Sequence[int], *, frozen: bool) -> Net:
    """Return a network with a linear head behind a model, for samples of this shape."""
    before = module.training
    module.eval()
    with torch.no_grad():
        width = output(module(torch.zeros(2, *sample))).flatten(1).shape[1]
    return Net(module.train(before), nn.Linear(width, classes), frozen=frozen)


def with_encoder(net: Net, module: nn.Module, recipe: dict[str, Any] | None = None) -> Net:
    """Put a frozen module in front of a network, and note how to rebuild it."""
    net.encoder = Encoder(module)
    if net.recipe is not None and recipe is not None:
        net.recipe = {**net.recipe, "encoder": recipe}
    return net


class TextEncoder(TextModule):
    """Texts as vectors, by a tokenizer and model of Hugging Face: the mean of the last hidden states over the tokens.

    model: a name on the hub, which must be in the cache, or a folder. length: tokens after which a text is cut.
    """

    def __init__(self, model: str, *, length: int = 128) -> None:
        super().__init__()
        self.length = length
        self.model = _transformer(model, pretrained=True).requires_grad_(False)
        tokenizers: Any = import_module("transformers").AutoTokenizer
        self._tokenizer = _cached(partial(tokenizers.from_pretrained, model), model)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return (texts, features)."""
        cut: dict[str, Any] = {"padding": True, "truncation": True, "max_length": self.length}
        tokens = self._tokenizer(list(texts), return_tensors="pt", **cut).to(self.model.device)
        with torch.no_grad():
            hidden: Tensor = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None]
        mean: Tensor = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return mean.float()

    def extra_repr(self) -> str:
        """Describe what is no weight but changes the vectors, so that the digest of the encoder covers it."""
        words = json.dumps(self._tokenizer.get_vocab(), sort_keys=True).encode()
        return f"length={self.length}, vocabulary={hashlib.sha256(words).hexdigest()[:16]}"


def text(*, model: str, length: int = 128) -> nn.Module:
    """A tokenizer and model of Hugging Face for texts: a name on the hub, which must be in the cache, or a folder."""
    return TextEncoder(model, length=length)


MODELS: dict[str, Callable[..., nn.Module]] = {"timm": timm, "huggingface": huggingface, "text": text}
"""Encoders by the names used in configs: functions that return a module."""
