"""Experience Replay."""

from evenkeel.learning.methods.base import Method, sum_of_cross_entropies


class ER(Method):
    """Experience Replay (Chaudhry et al. 2019; Riemer et al. 2019): CE(new) + CE(memory), a sum of two means.

    New and old samples are forwarded one after the other, each with their own batch statistics, as in the released
    CBA code; `joint_forward=True` forwards them together.
    """

    def __init__(self, *, joint_forward: bool = False) -> None:
        super().__init__()
        self.joint_forward = joint_forward

    loss = sum_of_cross_entropies
