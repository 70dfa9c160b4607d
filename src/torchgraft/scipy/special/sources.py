"""Sources of the kernels: SciPy's own C functions for values, the files in `kernels` for derivatives."""

from __future__ import annotations

import re
from pathlib import Path

from ..._build.source import Source, c

KERNELS = Path(__file__).parent / "kernels"
_LOCAL = re.compile(r'^#include "(\w+\.[ch])"$', re.M)


def lent(name: str, count: int, exported: str | None = None) -> Source:
    """The kernel of a function of `count` real numbers that `scipy.special` has.

    Args:
        name: of the operator.
        exported: of the function in `scipy.special.cython_special`, where that is another one.
    """
    numbers = ", ".join(f"T x{i}" for i in range(count))
    types = ", ".join(["double"] * count + ["int"])
    values = ", ".join(f"x{i}" for i in range(count))
    return c(
        f"TG_IMPORT(double, scipy_{name}, ({types}))\nT {name}({numbers}) {{ return (T)scipy_{name}({values}, 0); }}",
        imports={f"scipy_{name}": f"scipy.special.cython_special:{exported or name}"},
    )


def mended(
    file: str, name: str, call: str, parameters: str, exported: str | None = None, other: str | None = None
) -> Source:
    """The kernel of a function that `scipy.special` has, where a file in `kernels` knows better.

    Args:
        file: in `kernels`.
        name: of the operator.
        call: an expression in C of the parameters and of SciPy's value, such as ``"gammainc_value(a, x, SCIPYS)"``.
        parameters: such as ``"a x"``.
        exported: as of `lent`.
        other: another function there, of the same parameters, whose value `OTHER` is in the expression.
    """
    arguments = ", ".join(f"T {parameter}" for parameter in parameters.split())
    types = ", ".join(["double"] * len(parameters.split()) + ["int"])
    values = ", ".join(parameters.split())
    lent = {"SCIPYS": (f"scipy_{name}", exported or name)} | ({"OTHER": ("scipy_other", other)} if other else {})
    heads = "".join(
        f"TG_IMPORT(double, {local}, ({types}))\n#define {macro} {local}({values}, 0)\n"
        for macro, (local, _) in lent.items()
    )
    return c(
        f"{kernel_text(file)}\n{heads}T {name}({arguments}) {{ return (T)({call}); }}",
        flags=["-ffp-contract=off"],
        imports={local: f"scipy.special.cython_special:{there}" for local, there in lent.values()},
    )


def lent_outputs(name: str, outputs: int, exported: str | None = None, then: str = "") -> Source:
    """The kernel of a function of one real number that `scipy.special` has, and that has several results.

    Args:
        name: of the operator, whose outputs have no names.
        outputs: how many there are.
        exported: as of `lent`.
        then: what mends its results `f0`, `f1` and so on, in C.
    """
    pointers = ", ".join(["double", *["double *"] * outputs])
    results = "".join(f", T *out{i}" for i in range(outputs))
    found = ", ".join(f"f{i}" for i in range(outputs))
    places = "".join(f", &f{i}" for i in range(outputs))
    stored = " ".join(f"*out{i} = (T)f{i};" for i in range(outputs))
    return c(
        f"#include <math.h>\nTG_IMPORT(void, scipy_{name}, ({pointers}))\n"
        f"void {name}(T x{results}) {{ double {found}; scipy_{name}(x{places}); {then} {stored} }}",
        imports={f"scipy_{name}": f"scipy.special.cython_special:{exported or name}"},
    )


def ours(file: str, name: str, call: str, parameters: str) -> Source:
    """The kernel of a function that a file in `kernels` has, in double precision whatever the dtype.

    Args:
        file: in `kernels`.
        name: of the operator.
        call: an expression in C, such as ``"gammainc_da(a, x)"``.
        parameters: its variables, such as ``"a x"``.
    """
    arguments = ", ".join(f"T {parameter}" for parameter in parameters.split())
    return c(f"{kernel_text(file)}\nT {name}({arguments}) {{ return (T){call}; }}", flags=["-ffp-contract=off"])


def kernel_text(file: str) -> str:
    """The text of a file in `kernels`, as a whole: what is compiled is what names the library in the cache."""
    return _LOCAL.sub(lambda found: kernel_text(found[1]), (KERNELS / file).read_text())
