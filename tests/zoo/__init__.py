"""The zoo: planted bugs, each beside a right version. They are data, and know nothing of the checker."""

from dataclasses import replace
from importlib import import_module

from .bug import Bug

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
    "mesh",
    "writing",
    "draws",
    "state",
    "layouts",
    "autocast",
    "layers",
    "operators",
    "sizes",
    "options",
    "tutorials",
]
ZOO: list[Bug] = [
    replace(bug, family=family) for family in FAMILIES for bug in import_module(f".{family}", __name__).BUGS
]
