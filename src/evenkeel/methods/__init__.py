"""The methods, by the names that configs use."""

from evenkeel.methods.base import Method, cross_entropy
from evenkeel.methods.clser import CLSER
from evenkeel.methods.derpp import DERpp
from evenkeel.methods.er import ER
from evenkeel.methods.er_ace import ERACE
from evenkeel.methods.rar import RAR
from evenkeel.methods.ss_il import SSIL

METHODS: dict[str, type[Method]] = {
    "er": ER,
    "derpp": DERpp,
    "clser": CLSER,
    "rar": RAR,
    "er_ace": ERACE,
    "ss_il": SSIL,
}

__all__ = ["CLSER", "ER", "ERACE", "METHODS", "RAR", "SSIL", "DERpp", "Method", "cross_entropy"]
