"""Growth: room for more classes in everything that has an entry per output."""

from evenkeel.learning.nets import Net
from evenkeel.learning.rng import next_seed
from evenkeel.learning.step import Step


def grow(step: Step, outputs: int) -> None:
    """Widen the head, its average, each net the method holds, the adaptor and stored logits to `outputs`."""
    step.net.require_growable(outputs)
    seed = next_seed(step.generators["grow"])
    for new, old in step.net.grow(outputs, seed):
        for group in step.optimizer.param_groups:
            if any(weight is old for weight in group["params"]):
                group["params"].append(new)
    if step.average is not None:
        step.average.grow(outputs, seed)
    for part in step.method.modules():
        if isinstance(part, Net) and part.outputs < outputs:  # not the net itself, if the method holds it
            part.grow(outputs, seed)
    step.method.grow(outputs)
    for name in step.method.logit_columns:
        step.memory.widen(name, outputs)
    if step.adaptor is not None:
        step.adaptor.grow(outputs)
