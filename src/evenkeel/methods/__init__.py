"""The methods, by the names that configs use."""

from evenkeel.methods.base import Method, cross_entropy
from evenkeel.methods.bic import BiC
from evenkeel.methods.bounds import Finetune, Joint
from evenkeel.methods.clser import CLSER
from evenkeel.methods.derpp import DERpp
from evenkeel.methods.er import ER
from evenkeel.methods.er_ace import ERACE
from evenkeel.methods.icarl import ICaRL
from evenkeel.methods.lucir import LUCIR
from evenkeel.methods.rar import RAR
from evenkeel.methods.ss_il import SSIL

METHODS: dict[str, type[Method]] = {
    "er": ER,
    "derpp": DERpp,
    "clser": CLSER,
    "rar": RAR,
    "er_ace": ERACE,
    "ss_il": SSIL,
    "icarl": ICaRL,
    "lucir": LUCIR,
    "bic": BiC,
    "finetune": Finetune,
    "joint": Joint,
}

__all__ = [
    "CLSER",
    "ER",
    "ERACE",
    "LUCIR",
    "METHODS",
    "RAR",
    "SSIL",
    "BiC",
    "DERpp",
    "Finetune",
    "ICaRL",
    "Joint",
    "Method",
    "cross_entropy",
]
