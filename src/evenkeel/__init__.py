"""Evenkeel: a classifier that learns from a stream and does not tilt toward whatever came last."""

from evenkeel.adaptor import CBA
from evenkeel.checks import check_method
from evenkeel.data.augment import AUGMENTS, CropFlip, PerSample, RandAugment
from evenkeel.data.scenarios import SCENARIOS
from evenkeel.errors import (
    CheckpointError,
    DivergenceError,
    EvenkeelError,
    InputError,
    MethodError,
    SettingsError,
)
from evenkeel.learner import Learner
from evenkeel.memory import Memory
from evenkeel.methods import CLSER, ER, ERACE, METHODS, RAR, SSIL, DERpp, Method, cross_entropy
from evenkeel.nets import Net
from evenkeel.types import Draw, StepRecord, View
from evenkeel.zoo import NETS, convnet, mlp, resnet18

__all__ = [
    "AUGMENTS",
    "CBA",
    "CLSER",
    "ER",
    "ERACE",
    "METHODS",
    "NETS",
    "RAR",
    "SCENARIOS",
    "SSIL",
    "CheckpointError",
    "CropFlip",
    "DERpp",
    "DivergenceError",
    "Draw",
    "EvenkeelError",
    "InputError",
    "Learner",
    "Memory",
    "Method",
    "MethodError",
    "Net",
    "PerSample",
    "RandAugment",
    "SettingsError",
    "StepRecord",
    "View",
    "check_method",
    "convnet",
    "cross_entropy",
    "mlp",
    "resnet18",
]
