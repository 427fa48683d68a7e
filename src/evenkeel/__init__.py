"""Evenkeel: a classifier that learns from a stream and does not tilt toward whatever came last."""

from evenkeel.adaptor import CBA
from evenkeel.checks import check_method
from evenkeel.classifier import Classifier
from evenkeel.data.augment import AUGMENTS, CropFlip, PerSample, RandAugment
from evenkeel.data.dataset import DataSet
from evenkeel.data.scenarios import SCENARIOS
from evenkeel.data.sources import SOURCES
from evenkeel.errors import (
    CheckpointError,
    DataError,
    DivergenceError,
    EvenkeelError,
    InputError,
    MethodError,
    RunError,
    SettingsError,
)
from evenkeel.experiment import Config, load_config, run
from evenkeel.heads import CosineHead
from evenkeel.learner import Learner
from evenkeel.memory import Memory
from evenkeel.methods import (
    CLSER,
    ER,
    ERACE,
    LUCIR,
    METHODS,
    RAR,
    SSIL,
    BiC,
    DERpp,
    Finetune,
    ICaRL,
    Joint,
    Method,
    cross_entropy,
)
from evenkeel.nets import Net
from evenkeel.results import Aligned, Anytime, Ended, Results, Started, Stepped, Tested
from evenkeel.types import Draw, StepRecord, View
from evenkeel.zoo import NETS, convnet, mlp, resnet18

__all__ = [
    "AUGMENTS",
    "CBA",
    "CLSER",
    "ER",
    "ERACE",
    "LUCIR",
    "METHODS",
    "NETS",
    "RAR",
    "SCENARIOS",
    "SOURCES",
    "SSIL",
    "Aligned",
    "Anytime",
    "BiC",
    "CheckpointError",
    "Classifier",
    "Config",
    "CosineHead",
    "CropFlip",
    "DERpp",
    "DataError",
    "DataSet",
    "DivergenceError",
    "Draw",
    "Ended",
    "EvenkeelError",
    "Finetune",
    "ICaRL",
    "InputError",
    "Joint",
    "Learner",
    "Memory",
    "Method",
    "MethodError",
    "Net",
    "PerSample",
    "RandAugment",
    "Results",
    "RunError",
    "SettingsError",
    "Started",
    "StepRecord",
    "Stepped",
    "Tested",
    "View",
    "check_method",
    "convnet",
    "cross_entropy",
    "load_config",
    "mlp",
    "resnet18",
    "run",
]
