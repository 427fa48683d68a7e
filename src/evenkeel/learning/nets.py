"""Networks: a backbone that computes features, and a head that turns them into logits. Any modules can be used."""

import copy
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from evenkeel.errors import SettingsError, nearest
from evenkeel.learning.cut import Cut
from evenkeel.learning.encoder import Encoder
from evenkeel.learning.heads import CosineHead, GrowingHead
from evenkeel.learning.registry import Recipe

PREDICT_BATCH = 128  # samples per forward outside a step: the fastest for a conv net, see benchmarks/run_cost.py


class Net(nn.Module):
    """A network made of a backbone and a head, which may be any modules.

    encoder: a module in front of the backbone that is never trained (a pretrained one, say). A learner runs it once for
    each sample, and stores its outputs; so the net itself takes what the encoder returns. frozen: the backbone is such
    an encoder, and only the head is trained.

    >>> net = Net(nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU()), nn.Linear(8, 3))
    >>> import torch
    >>> net(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, backbone: nn.Module, head: nn.Module, *, encoder: nn.Module | None = None, frozen: bool = False
    ) -> None:
        super().__init__()
        if not all(isinstance(getattr(head, name, None), int) for name in ("in_features", "out_features")):
            raise SettingsError(
                f"The head is a {type(head).__name__}; it must be an nn.Linear, or a module with integer "
                "`in_features` and `out_features` that maps (n, in_features) to (n, out_features)."
            )
        if frozen:
            encoder = backbone if encoder is None else nn.Sequential(encoder, backbone)
            backbone = nn.Identity()
        self.encoder = None if encoder is None else Encoder(encoder)  # no submodule: nobody trains, saves or copies it
        self.backbone = backbone
        self.head = head
        self.recipe: Recipe | None = None  # how to rebuild this net; None for a user's own modules
        self.growth: list[int] = []  # outputs after each growth, so that a checkpoint can grow a new net the same way
        self._cut: Cut | None = None

    @classmethod
    def split(cls, model: nn.Module, head: str = "fc", *, frozen: bool = False) -> "Net":
        """Cut a whole classifier at its last linear layer, the submodule called `head` ("fc", "classifier.1", ...).

        `model` itself is not changed and shares its parameters with the net: it follows what the net learns, until the
        first output is added or a method replaces the head by a cosine head. frozen: only the head is trained.

        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> import torch
        >>> x = torch.ones(2, 4)
        >>> bool((Net.split(model, head="2")(x) == model(x)).all())
        True
        """
        linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and name]
        if head not in linear:
            choices = ", ".join(map(repr, linear[-5:])) or "none"
            raise SettingsError(
                f"head={head!r} is not a linear layer of this {type(model).__name__}. Its last linear layers: "
                f"{choices}.{nearest(head, linear)}"
            )
        cut = Cut()
        net = cls(_replace(model, head.split("."), cut), model.get_submodule(head), frozen=frozen)
        if net.encoder is None:
            net._cut = cut
        else:
            net.encoder.cut = cut
        return net

    @property
    def outputs(self) -> int:
        """Return the number of outputs of the head."""
        width = self.head.out_features
        assert isinstance(width, int)
        return width

    def features(self, x: Tensor) -> Tensor:
        """Return (n, in_features of the head) features; raise SettingsError if the backbone returns something else."""
        out = self.backbone(x)
        if isinstance(out, Mapping):  # Hugging Face models return a mapping
            out = out.get("logits")
        if self._cut is not None:
            self._cut.require_passed_on(out)
        if not isinstance(out, Tensor) or len(out) != len(x):
            actual = f"{len(out)} rows" if isinstance(out, Tensor) else f"a {type(out).__name__}"
            raise SettingsError(
                f"The backbone must return a tensor with a row for each of {len(x)} samples, not {actual}."
            )
        features: Tensor = out.flatten(1)
        if features.shape[1] != self.head.in_features:
            raise SettingsError(
                f"The backbone returns {features.shape[1]} features for each sample, "
                f"but the head takes {self.head.in_features}."
            )
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits

    @property
    def cosine_scale(self) -> nn.Parameter | None:
        """Return the learned scale of a cosine head; None for any other head."""
        head = self.head.parts[0] if isinstance(self.head, GrowingHead) else self.head
        return head.scale if isinstance(head, CosineHead) else None

    def make_cosine(self, scale: float = 10.0) -> None:
        """Replace a linear head by a cosine head with the same rows. Call this before creating an optimizer."""
        if self.cosine_scale is not None:
            return
        if not isinstance(self.head, nn.Linear):
            raise SettingsError(
                f"The head is a {type(self.head).__name__}; only an nn.Linear can be turned into a cosine head. "
                "Build the net as Net(backbone, CosineHead(features, classes))."
            )
        self.head = CosineHead.of(self.head, scale=scale)

    def require_growable(self, outputs: int) -> None:
        """Raise SettingsError if the head cannot be widened to `outputs`."""
        if outputs <= self.outputs:
            raise SettingsError(f"The head already has {self.outputs} outputs; it cannot be widened to {outputs}.")
        if not isinstance(self.head, nn.Linear | CosineHead | GrowingHead):
            raise SettingsError(
                f"The head has {self.outputs} outputs and a new class needs one more, but a "
                f"{type(self.head).__name__} cannot grow; nn.Linear and CosineHead can. Build it with enough outputs."
            )

    def grow(self, outputs: int, seed: int) -> list[tuple[nn.Parameter, nn.Parameter]]:
        """Widen the head to `outputs`. The existing logits keep every bit.

        Return the new parameters, if any, each with the old one whose role it shares (weight or bias).
        """
        self.require_growable(outputs)
        if isinstance(self.head, nn.Linear | CosineHead):
            self.head = GrowingHead(self.head)
        assert isinstance(self.head, GrowingHead)
        self.growth.append(outputs)
        return self.head.grow(outputs, seed)


def _replace(module: nn.Module, path: Sequence[str], new: nn.Module) -> nn.Module:
    """Return `module` with `new` at `path`: new containers along the path, everything else shared."""
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    name, rest = path[0], path[1:]
    twin._modules[name] = _replace(module.get_submodule(name), rest, new) if rest else new
    return twin
