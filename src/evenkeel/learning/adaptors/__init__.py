"""Adaptors, by the names used in configs: they correct logits while a network is trained, but not for prediction."""

from evenkeel.learning.adaptors.base import Adaptor
from evenkeel.learning.adaptors.cba import CBA
from evenkeel.learning.adaptors.prior import Prior

ADAPTORS: dict[str, type[Adaptor]] = {"cba": CBA, "prior": Prior}

__all__ = ["ADAPTORS", "CBA", "Adaptor", "Prior"]
