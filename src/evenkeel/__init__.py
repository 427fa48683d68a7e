"""Evenkeel: a classifier that learns from a stream and does not tilt toward whatever came last."""

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
from evenkeel.experiment.config import Config, load_config
from evenkeel.experiment.run import run
from evenkeel.learning.adaptors.cba import CBA
from evenkeel.learning.augment import AUGMENTS, CropFlip, PerSample, RandAugment
from evenkeel.learning.classifier import Classifier
from evenkeel.learning.contract import check_method
from evenkeel.learning.heads import CosineHead
from evenkeel.learning.learner import Learner
from evenkeel.learning.memory import Memory
from evenkeel.learning.methods import (
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
from evenkeel.learning.nets import Net
from evenkeel.learning.types import Draw, StepRecord, View
from evenkeel.learning.zoo import NETS, convnet, mlp, resnet18
from evenkeel.results.records import Aligned, Anytime, Ended, Results, Started, Stepped, Tested

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
