"""MIR: replay of the samples that the incoming batch would harm most."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F
from torch.optim import Optimizer

from evenkeel.errors import whole_number
from evenkeel.learning.methods.er import ER
from evenkeel.learning.nets import Net
from evenkeel.learning.torch_utils import training_logits
from evenkeel.learning.types import Draw


class MIR(ER):
    """Maximally Interfered Retrieval (Aljundi et al. 2019): ER, but the samples to replay are chosen, not drawn.

    Of `candidates` samples drawn from memory, those are replayed whose cross-entropy would rise most if the net took a
    step of plain gradient descent on the incoming batch alone, at the optimizer's rate. That costs a forward and a
    backward of the batch and two forwards of the candidates; the running statistics of batch norm do not move. The loss
    is that of ER. With no more candidates than the learner replays (`replay`) nothing is left to choose: it is ER.
    """

    def __init__(self, *, candidates: int = 50, joint_forward: bool = False) -> None:
        super().__init__(joint_forward=joint_forward)
        self.candidates = whole_number("candidates", candidates, at_least=1)

    def retrieve(self, net: Net, optimizer: Optimizer, new: Draw, draw: Callable[[int], Draw], count: int) -> Draw:
        offered = draw(max(count, self.candidates))
        if len(offered.y) <= count:
            return offered
        moved = after_a_step(net, optimizer, new)
        with torch.no_grad():
            before, after = (losses(net, weights, offered) for weights in ({}, moved))
        return offered.rows((after - before).topk(count).indices)


def after_a_step(net: Net, optimizer: Optimizer, new: Draw) -> dict[str, Tensor]:
    """Return the weights of `net` by name after one step of gradient descent on `new`; the net keeps its own."""
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    weights = {name: weight for name, weight in net.named_parameters() if id(weight) in rates and weight.requires_grad}
    loss = F.cross_entropy(training_logits(net, new.x), new.y)
    slopes = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
    steps = zip(weights.items(), slopes, strict=True)
    return {name: weight.detach() - rates[id(weight)] * slope for (name, weight), slope in steps}


def losses(net: Net, weights: dict[str, Tensor], draw: Draw) -> Tensor:
    """Return (n,) the cross-entropy of each sample if the net had these weights."""
    logits = training_logits(net, draw.x, lambda x: functional_call(net, weights, (x,)))
    return F.cross_entropy(logits, draw.y, reduction="none")
