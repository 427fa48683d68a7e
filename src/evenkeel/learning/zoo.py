"""Ready-made networks with PyTorch's default initialisation, each drawn from a seed of its own."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import ParamSpec

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.errors import InputError, whole_number
from evenkeel.learning import pretrained as pretrained_models
from evenkeel.learning.nets import Net
from evenkeel.learning.registry import plain
from evenkeel.learning.rng import derive, global_seed

Arguments = ParamSpec("Arguments")


class _Block(nn.Module):
    """A residual block of two 3x3 convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x), inplace=True)


class _Images(nn.Sequential):
    """Convolutions in channels_last, the faster layout on a CPU (measured by benchmarks/step_cost.py).

    Very narrow ones stay contiguous: in that layout, torch 2.13 corrupts the heap in the backward pass of a 1x1
    convolution with stride 2 and fewer than 8 channels.
    """

    def __init__(self, *layers: nn.Module, channels: int, width: int) -> None:
        super().__init__(*layers)
        self.channels = channels
        self.layout = torch.channels_last if width >= 16 else torch.contiguous_format
        for weight in self.parameters():
            if weight.dim() == 4:
                weight.data = weight.data.contiguous(memory_format=self.layout)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 4 and x.shape[1] != self.channels:
            raise InputError(
                f"This network is for images with {self.channels} channel{'s' * (self.channels > 1)}, but these "
                f"samples have the shape {tuple(x.shape[1:])}. Create it with channels={x.shape[1]}."
            )
        x = x.contiguous(memory_format=self.layout)
        for layer in self:
            x = layer(x)
        return x


class _Vectors(nn.Sequential):
    """Linear layers, after one that flattens."""

    def __init__(self, *layers: nn.Module, features: int) -> None:
        super().__init__(*layers)
        self.features = features

    def forward(self, x: Tensor) -> Tensor:
        numbers = x.flatten(1).shape[1]
        if numbers != self.features:
            raise InputError(
                f"This network is for vectors of {self.features} numbers, but these samples have the shape "
                f"{tuple(x.shape[1:])}. Create it with features={numbers}."
            )
        for layer in self:
            x = layer(x)
        return x


IN_ORDER: tuple[type[nn.Module], ...] = (_Images,)  # sequences whose layers follow each other, as in nn.Sequential
FOLDED: dict[type[nn.Module], Sequence[tuple[str, str]]] = {_Block: (("conv1", "norm1"), ("conv2", "norm2"))}
"""Which convolutions of a module are followed by which batch norms."""


def _with_recipe(make: Callable[Arguments, Net]) -> Callable[Arguments, Net]:
    """Note in each net the call that made it, for checkpoints to rebuild it by its name in `NETS`."""

    @wraps(make)
    def made(*args: Arguments.args, **settings: Arguments.kwargs) -> Net:
        call = signature(make).bind(*args, **settings)
        call.apply_defaults()
        net = make(*args, **settings)
        net.recipe = {"name": make.__name__, **{name: plain(value) for name, value in call.arguments.items()}}
        return net

    return made


@_with_recipe
def resnet18(*, classes: int, width: int = 64, channels: int = 3, seed: int = 0) -> Net:
    """A CIFAR-style ResNet-18: 3x3 stem, no max-pool. Width 64 is the CBA paper's, 20 the "slim" one of the literature.

    >>> sum(p.numel() for p in resnet18(classes=10).parameters())
    11173962
    """
    whole_number("width", width, at_least=1)
    with global_seed(derive(seed, "net")):
        layers: list[nn.Module] = [
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        inputs = width
        for stage, stride in enumerate((1, 2, 2, 2)):
            outputs = width * 2**stage
            layers += [_Block(inputs, outputs, stride), _Block(outputs, outputs, 1)]
            inputs = outputs
        backbone = _Images(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), channels=channels, width=width)
        head = nn.Linear(inputs, classes)
    return Net(backbone, head)


@_with_recipe
def convnet(*, classes: int, channels: int = 1, width: int = 32, seed: int = 0) -> Net:
    """Two convolutions with batch norm, for images from 8x8 to 28x28.

    >>> convnet(classes=10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    whole_number("width", width, at_least=1)
    with global_seed(derive(seed, "net")):
        backbone = _Images(
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            channels=channels,
            width=width,
        )
        head = nn.Linear(8 * width, classes)
    return Net(backbone, head)


@_with_recipe
def mlp(*, features: int, classes: int, hidden: Sequence[int] = (512,), seed: int = 0) -> Net:
    """Linear layers with ReLU, for feature vectors (or small images, which it flattens).

    >>> mlp(features=384, classes=150)(torch.zeros(2, 384)).shape
    torch.Size([2, 150])
    """
    for units in hidden:
        whole_number("hidden", units, at_least=1)
    with global_seed(derive(seed, "net")):
        layers: list[nn.Module] = [nn.Flatten()]
        inputs = features
        for units in hidden:
            layers += [nn.Linear(inputs, units), nn.ReLU(inplace=True)]
            inputs = units
        head = nn.Linear(inputs, classes)
    return Net(_Vectors(*layers, features=features), head)


@_with_recipe
def timm(
    *,
    classes: int,
    model: str,
    pretrained: bool = True,
    frozen: bool = False,
    channels: int = 3,
    sample: Sequence[int] = (3, 224, 224),
    seed: int = 0,
) -> Net:
    """A model of timm by its name, for images, with a new head. frozen: only the head is trained."""
    body = pretrained_models.timm(model=model, pretrained=pretrained, channels=channels, seed=seed)
    with global_seed(derive(seed, "net")):
        return pretrained_models.whole_net(body, classes, sample, frozen=frozen)


@_with_recipe
def huggingface(
    *,
    classes: int,
    model: str,
    pretrained: bool = True,
    frozen: bool = False,
    sample: Sequence[int] = (3, 224, 224),
    seed: int = 0,
) -> Net:
    """A vision model of Hugging Face by its name or folder, with a new head. frozen: only the head is trained."""
    body = pretrained_models.huggingface(model=model, pretrained=pretrained, seed=seed)
    with global_seed(derive(seed, "net")):
        return pretrained_models.whole_net(body, classes, sample, frozen=frozen)


NETS: dict[str, Callable[..., Net]] = {
    "resnet18": resnet18,
    "convnet": convnet,
    "mlp": mlp,
    "timm": timm,
    "huggingface": huggingface,
}
