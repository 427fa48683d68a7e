"""The methods, by the names that configs use."""

from evenkeel.methods.base import Method, cross_entropy
from evenkeel.methods.clser import CLSER
from evenkeel.methods.derpp import DERpp
from evenkeel.methods.er import ER
from evenkeel.methods.rar import RAR

METHODS: dict[str, type[Method]] = {"er": ER, "derpp": DERpp, "clser": CLSER, "rar": RAR}

__all__ = ["CLSER", "ER", "METHODS", "RAR", "DERpp", "Method", "cross_entropy"]
