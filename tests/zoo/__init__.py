"""The zoo: planted bugs, each beside a correct twin. Data, which knows nothing of the checker that has to find them."""

from dataclasses import replace
from importlib import import_module

from .specimen import Specimen

FAMILIES = [
    "formulas",
    "axes",
    "broadcast",
    "corners",
    "precision",
    "complexes",
    "sparse",
    "several",
    "second_order",
    "modules",
    "modes",
    "library",
    "memory",
    "state",
    "layouts",
    "autocast",
    "layers",
    "operators",
    "tutorials",
]
ZOO: list[Specimen] = [
    replace(specimen, family=family)
    for family in FAMILIES
    for specimen in import_module(f".{family}", __name__).SPECIMENS
]
