"""Evenkeel: classifiers that learn from a stream without a bias toward the most recent classes.

`import evenkeel` loads nothing: each public name is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:  # what type checkers see; a test compares it with the list below
    from evenkeel.config.keel import keel as keel
    from evenkeel.data.dataset import DataSet as DataSet
    from evenkeel.data.scenarios import SCENARIOS as SCENARIOS
    from evenkeel.data.sources import SOURCES as SOURCES
    from evenkeel.errors import CheckpointError as CheckpointError
    from evenkeel.errors import DataError as DataError
    from evenkeel.errors import DivergenceError as DivergenceError
    from evenkeel.errors import EvenkeelError as EvenkeelError
    from evenkeel.errors import InputError as InputError
    from evenkeel.errors import MethodError as MethodError
    from evenkeel.errors import RunError as RunError
    from evenkeel.errors import SettingsError as SettingsError
    from evenkeel.experiment.config import Config as Config
    from evenkeel.experiment.config import load_config as load_config
    from evenkeel.experiment.quickstart import accuracy as accuracy
    from evenkeel.experiment.quickstart import learner_for as learner_for
    from evenkeel.experiment.quickstart import load_data as load_data
    from evenkeel.experiment.quickstart import stream as stream
    from evenkeel.experiment.run import run as run
    from evenkeel.learning.adaptors import ADAPTORS as ADAPTORS
    from evenkeel.learning.adaptors import CBA as CBA
    from evenkeel.learning.adaptors import Adaptor as Adaptor
    from evenkeel.learning.adaptors import Prior as Prior
    from evenkeel.learning.augment import AUGMENTS as AUGMENTS
    from evenkeel.learning.augment import ColorJitter as ColorJitter
    from evenkeel.learning.augment import CropFlip as CropFlip
    from evenkeel.learning.augment import Grayscale as Grayscale
    from evenkeel.learning.augment import PerSample as PerSample
    from evenkeel.learning.augment import RandAugment as RandAugment
    from evenkeel.learning.augment import ResizedCrop as ResizedCrop
    from evenkeel.learning.classifier import Classifier as Classifier
    from evenkeel.learning.contract import check_method as check_method
    from evenkeel.learning.heads import CosineHead as CosineHead
    from evenkeel.learning.learner import Learner as Learner
    from evenkeel.learning.memory import Memory as Memory
    from evenkeel.learning.methods import CLSER as CLSER
    from evenkeel.learning.methods import ER as ER
    from evenkeel.learning.methods import ERACE as ERACE
    from evenkeel.learning.methods import LUCIR as LUCIR
    from evenkeel.learning.methods import METHODS as METHODS
    from evenkeel.learning.methods import MIR as MIR
    from evenkeel.learning.methods import SCR as SCR
    from evenkeel.learning.methods import SSIL as SSIL
    from evenkeel.learning.methods import BiC as BiC
    from evenkeel.learning.methods import DERpp as DERpp
    from evenkeel.learning.methods import Finetune as Finetune
    from evenkeel.learning.methods import GDumb as GDumb
    from evenkeel.learning.methods import ICaRL as ICaRL
    from evenkeel.learning.methods import Joint as Joint
    from evenkeel.learning.methods import Method as Method
    from evenkeel.learning.methods import cross_entropy as cross_entropy
    from evenkeel.learning.nets import Net as Net
    from evenkeel.learning.pretrained import TextEncoder as TextEncoder
    from evenkeel.learning.texts import TextModule as TextModule
    from evenkeel.learning.types import Draw as Draw
    from evenkeel.learning.types import StepRecord as StepRecord
    from evenkeel.learning.types import View as View
    from evenkeel.learning.zoo import NETS as NETS
    from evenkeel.learning.zoo import convnet as convnet
    from evenkeel.learning.zoo import mlp as mlp
    from evenkeel.learning.zoo import resnet18 as resnet18
    from evenkeel.results.records import Aligned as Aligned
    from evenkeel.results.records import Anytime as Anytime
    from evenkeel.results.records import Ended as Ended
    from evenkeel.results.records import Started as Started
    from evenkeel.results.records import Stepped as Stepped
    from evenkeel.results.records import Tested as Tested
    from evenkeel.results.run_files import Results as Results

PUBLIC = {  # the public names, by the module that defines them
    "config.keel": ["keel"],
    "data.dataset": ["DataSet"],
    "data.scenarios": ["SCENARIOS"],
    "data.sources": ["SOURCES"],
    "errors": [
        *("CheckpointError", "DataError", "DivergenceError", "EvenkeelError"),
        *("InputError", "MethodError", "RunError", "SettingsError"),
    ],
    "experiment.config": ["Config", "load_config"],
    "experiment.quickstart": ["accuracy", "learner_for", "load_data", "stream"],
    "experiment.run": ["run"],
    "learning.adaptors": ["ADAPTORS", "CBA", "Adaptor", "Prior"],
    "learning.augment": [
        "AUGMENTS",
        "ColorJitter",
        "CropFlip",
        "Grayscale",
        "PerSample",
        "RandAugment",
        "ResizedCrop",
    ],
    "learning.classifier": ["Classifier"],
    "learning.contract": ["check_method"],
    "learning.heads": ["CosineHead"],
    "learning.learner": ["Learner"],
    "learning.memory": ["Memory"],
    "learning.methods": [
        *("CLSER", "ER", "ERACE", "LUCIR", "METHODS", "MIR", "SCR", "SSIL"),
        *("BiC", "DERpp", "Finetune", "GDumb", "ICaRL", "Joint"),
        *("Method", "cross_entropy"),
    ],
    "learning.nets": ["Net"],
    "learning.pretrained": ["TextEncoder"],
    "learning.texts": ["TextModule"],
    "learning.types": ["Draw", "StepRecord", "View"],
    "learning.zoo": ["NETS", "convnet", "mlp", "resnet18"],
    "results.records": ["Aligned", "Anytime", "Ended", "Started", "Stepped", "Tested"],
    "results.run_files": ["Results"],
}
GONE = {"RAR": "RAR is a setting of the learner now: Learner(net, method, repeats=10), with any method."}
_MODULE_OF = {name: module for module, names in PUBLIC.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - a list, though ruff cannot see it

if not TYPE_CHECKING:  # otherwise type checkers would accept any name as an attribute

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            from evenkeel.errors import nearest

            instead = GONE.get(name) or nearest(name, _MODULE_OF).strip()
            raise AttributeError(f"module 'evenkeel' has no attribute {name!r}. {instead}".strip())
        value = getattr(import_module(f"evenkeel.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
