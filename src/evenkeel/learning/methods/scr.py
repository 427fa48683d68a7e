"""SCR: supervised contrastive replay."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenkeel.errors import SettingsError, above_zero, whole_number
from evenkeel.learning.methods._nearest_mean import NearestMeanMethod
from evenkeel.learning.methods._teacher import joined
from evenkeel.learning.nets import Net
from evenkeel.learning.rng import global_seed, next_seed
from evenkeel.learning.types import View


class SCR(NearestMeanMethod):
    """Supervised Contrastive Replay (Mai et al. 2021): samples of one class attract each other, others repel.

    Every new and replayed sample is shown in two views, augmented and as it is; a small network (`projection` outputs
    behind a hidden layer as wide as the features) projects the features onto a sphere, and the loss is the supervised
    contrastive one (Khosla et al. 2020) of all of them at once. Prediction is by the nearest class mean of the features
    in memory; the head is not trained. It needs strong augmentation and large draws: its authors replay 100 samples.
    """

    title = "SCR"
    joint_forward = True
    second_view = True
    no_adaptor = "it predicts by the nearest class mean and trains no head, so there are no logits to correct"
    project: nn.Sequential

    def __init__(self, *, temperature: float = 0.07, projection: int = 128) -> None:
        super().__init__()
        self.temperature = above_zero("temperature", temperature)
        self.projection = whole_number("projection", projection, at_least=1)

    def prepare(self, net: Net, generator: torch.Generator) -> None:
        if "project" in self._modules:
            raise SettingsError("This SCR already belongs to a learner; create a new one for each learner.")
        like = next(net.head.parameters())
        width = net.head.in_features
        assert isinstance(width, int)
        with global_seed(next_seed(generator)):
            layers = nn.Linear(width, width), nn.ReLU(), nn.Linear(width, self.projection)
        self.project = nn.Sequential(*layers).to(like)

    def loss(self, new: View, old: Sequence[View]) -> Tensor:
        views = [new, *old]
        return contrastive(self.project(joined(views, "features")), joined(views, "y"), self.temperature)


def contrastive(z: Tensor, y: Tensor, temperature: float) -> Tensor:
    """Return the mean over anchors i of -1/|P(i)| sum_{p in P(i)} log(exp(z_i z_p / T) / sum_{a != i} exp(z_i z_a / T))

    z: (n, width), normalised here; P(i): the other rows with the label of i. Anchors without such a row are left out.
    """
    z = F.normalize(z, dim=1)
    itself = torch.eye(len(y), dtype=torch.bool, device=y.device)
    similarity = (z @ z.T / temperature).masked_fill(itself, -torch.inf)
    log_share = F.log_softmax(similarity, dim=1).masked_fill(itself, 0.0)
    positive = (y[:, None] == y) & ~itself
    partners = positive.sum(dim=1)
    per_anchor = -(log_share * positive).sum(dim=1) / partners.clamp(min=1)
    return per_anchor.sum() / (partners > 0).sum().clamp(min=1)
