"""Construction: the parts of a learner, checked, prepared and connected in a step."""

import torch
from torch.optim import Optimizer

from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.augment import Augment
from evenkeel.learning.average import Average
from evenkeel.learning.compatibility import make_cosine, memory_for, require_empty, require_held, require_precision
from evenkeel.learning.devices import move
from evenkeel.learning.inputs import InputSpec, Moments
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import Method
from evenkeel.learning.nets import Net
from evenkeel.learning.optimizers import MakeOptimizer, make_optimizer
from evenkeel.learning.rng import Generators
from evenkeel.learning.step import Step
from evenkeel.learning.torch_utils import compile_in_place, trainable
from evenkeel.learning.types import Decay, Precision, Statistics


@trainable()
def connect(
    net: Net,
    method: Method,
    *,
    adaptor: Adaptor | None,
    memory: int | str | Memory,
    optimizer: Optimizer | MakeOptimizer | None,
    augment: Augment | None,
    normalize: Moments | None,
    device: torch.device,
    replay: int,
    statistics: Statistics,
    average: Decay | None,
    distill: float,
    precision: Precision,
    compile: bool,
    seed: int,
) -> Step:
    """Return the parts of a new learner as a step, ready for the first update; all was checked before."""
    # A net that arrives entirely in evaluation mode (a pretrained one, say) is trained all the same, but parts put
    # into that mode on purpose (a frozen backbone, a frozen batch norm) stay in it.
    if not net.backbone.training and any(weight.requires_grad for weight in net.backbone.parameters()):
        net.train()
    memory = memory if isinstance(memory, Memory) else memory_for(method, memory)
    require_empty(memory)
    if method.cosine_head:
        make_cosine(net, method, optimizer)
    optimizer = make_optimizer(optimizer, net)
    move(net, optimizer, device)
    require_precision(precision, net)
    if compile:
        compile_in_place(net.backbone)  # the head grows
    inputs = InputSpec(next(net.head.parameters()), normalize, net.encoder)
    generators = Generators(seed)
    if adaptor is not None:
        adaptor.attach(net, optimizer, seed)
    method.prepare(net, generators["method"])
    method.split_memory(memory)
    require_held(method)
    for each in (memory, method.held):
        if each is not None:
            each.to_network, each.augment = inputs.to_network, augment
            each.to(device)
    known = {id(weight) for weight in net.parameters()}  # a method may hold the net
    own = [weight for weight in method.parameters() if weight.requires_grad and id(weight) not in known]
    if own:
        optimizer.add_param_group({"params": own})
    return Step(
        net=net,
        method=method,
        adaptor=adaptor,
        memory=memory,
        optimizer=optimizer,
        augment=augment,
        inputs=inputs,
        generators=generators,
        replay=replay,
        statistics=statistics,
        average=None if average is None else Average(net, average),
        distill=distill,
        precision=precision,
        device=device,
    )
