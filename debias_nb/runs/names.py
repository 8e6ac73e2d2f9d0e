"""Regularizers by the names that configurations and commands give them.

This module loads no torch: a command that trains nothing checks a configuration by it.
"""
import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class RegularizerEntry:
    "Place of a class, and what a configuration may set of it besides its weight."
    path: str
    takes: tuple[str, ...] = () # `mask_share`, `texts`
    is_offered: bool = True     # to `compare`; others are of the papers' tables alone

    def load(self) -> type:
        module, _, name = self.path.rpartition(".")
        return getattr(importlib.import_module(f"debias_nb.{module}"), name)


REGULARIZERS = {
    "itvreg": RegularizerEntry("losses.regularizers.ITVReg", ("mask_share", "texts")),
    "maskreg": RegularizerEntry("losses.regularizers.MaskReg", ("mask_share", "texts")),
    "outreg": RegularizerEntry("losses.regularizers.OutReg", ("texts",)),
    "simcse": RegularizerEntry("losses.regularizers.SimCSE", ("texts",)),
    "l2sp": RegularizerEntry("losses.regularizers.L2SP"),
    "worddropout": RegularizerEntry("losses.regularizers.WordDropout", ("mask_share",)),
    "itvaug": RegularizerEntry("runs.training.Twins", ("mask_share",), is_offered=False),
    "gor": RegularizerEntry("runs.training.GOR", is_offered=False),
}


def takes(
    name: str, # or `mymodule.Name`, which takes neither
) -> tuple[str, ...]:
    "List which of `mask_share` and `texts` a configuration may set of a regularizer."
    return REGULARIZERS[name].takes if name in REGULARIZERS else ()
