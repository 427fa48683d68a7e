"""The methods, by the names used in configs."""

from evenkeel.learning.methods.base import Method, cross_entropy
from evenkeel.learning.methods.bic import BiC
from evenkeel.learning.methods.bounds import Finetune, Joint
from evenkeel.learning.methods.clser import CLSER
from evenkeel.learning.methods.derpp import DERpp
from evenkeel.learning.methods.er import ER
from evenkeel.learning.methods.er_ace import ERACE
from evenkeel.learning.methods.gdumb import GDumb
from evenkeel.learning.methods.icarl import ICaRL
from evenkeel.learning.methods.lucir import LUCIR
from evenkeel.learning.methods.mir import MIR
from evenkeel.learning.methods.scr import SCR
from evenkeel.learning.methods.ss_il import SSIL

METHODS: dict[str, type[Method]] = {
    "er": ER,
    "derpp": DERpp,
    "clser": CLSER,
    "er_ace": ERACE,
    "ss_il": SSIL,
    "icarl": ICaRL,
    "lucir": LUCIR,
    "bic": BiC,
    "mir": MIR,
    "scr": SCR,
    "gdumb": GDumb,
    "finetune": Finetune,
    "joint": Joint,
}

__all__ = [
    "CLSER",
    "ER",
    "ERACE",
    "LUCIR",
    "METHODS",
    "MIR",
    "SCR",
    "SSIL",
    "BiC",
    "DERpp",
    "Finetune",
    "GDumb",
    "ICaRL",
    "Joint",
    "Method",
    "cross_entropy",
]
