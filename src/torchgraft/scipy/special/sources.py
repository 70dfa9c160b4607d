"""Sources of the kernels: SciPy's own C functions for values, the files in `kernels` for derivatives.

All are computed in double precision, whatever the dtype.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ..._build.source import Source, c

KERNELS = Path(__file__).parent / "kernels"
FUSED = {
    "betainc betaincc betaincinv betainccinv expn fdtr stdtr stdtrit": 0,
    "airy dawsn erfcx erfi exp1 expi fresnel hyp0f1 hyp1f1 hyp2f1 iv ive jv jve kv kve log_ndtr psi shichi sici spence "
    "spherical_in spherical_jn spherical_kn spherical_yn xlog1py xlogy yv yve": 1,
}
"""The functions that `scipy.special.cython_special` has for several types, and the place of doubles among these."""

EXPORTED = {name: f"__pyx_fuse_{place}{name}" for names, place in FUSED.items() for name in names.split()}
_LOCAL = re.compile(r'^#include "(\w+\.[ch])"$', re.M)
_LENT = re.compile(r"TG_IMPORT\(\w+,\s+scipy_(\w+),")  # An anchor would make the search forty times as slow.
_SCIPY = re.compile(r"\bSCIPY\((\w+)\)")

Kernel = Callable[[str, Mapping[str, str]], Source]
"""The kernel of an operator, made of its name and of its parameters with their types in C."""


def ours(file: str | None, code: str) -> Kernel:
    """The kernel that is an expression in C, such as ``"gammainc_value(a, x, SCIPY(gammainc))"``.

    Args:
        file: in `kernels`, whose functions `code` calls.
        code: of the parameters. ``SCIPY(jv)`` is the value of SciPy's function `jv` at those that are numbers of the
            dtype. Statements that return the value serve as well.
    """

    def made(name: str, parameters: Mapping[str, str]) -> Source:
        numbers = [parameter for parameter, kind in parameters.items() if kind == "T"]
        types = ", ".join(["double"] * len(numbers) + ["int"])
        theirs = dict.fromkeys(_SCIPY.findall(code))
        lent = "".join(f"TG_IMPORT(double, scipy_{one}, ({types}))\n" for one in theirs)
        macro = f"#define SCIPY(name) scipy_##name({', '.join(numbers)}, 0)\n" if lent else ""
        head = f"T {name}({', '.join(f'{kind} {parameter}' for parameter, kind in parameters.items())})"
        body = code if code.endswith(";") else f"return (T)({code});"
        return source(kernel_text(file) if file else "", f"\n{lent}{macro}{head} {{ {body} }}")

    return made


def lent(theirs: str) -> Kernel:
    """The kernel that is a function of `scipy.special.cython_special`, as it is."""
    return ours(None, f"SCIPY({theirs})")


def whole(file: str) -> Kernel:
    """The kernel that stands in a file in `kernels`, under the name of its operator."""
    return lambda name, parameters: source(kernel_text(file))


def source(*parts: str) -> Source:
    """Texts in C, with the functions of SciPy that they declare as ``TG_IMPORT(double, scipy_jv, ...)``.

    They are compiled without fused multiplications, as SciPy is. A file serves several operators: functions that are
    static, and that one of them does not call, cost it no compiler's time.
    """
    lent = [name for part in parts for name in _lent(part)]
    imports = {f"scipy_{name}": f"scipy.special.cython_special:{EXPORTED.get(name, name)}" for name in lent}
    return replace(c("".join(parts), flags=["-ffp-contract=off", "-Wno-unused-function"], imports=imports), parts=parts)


@functools.cache
def _lent(part: str) -> list[str]:
    return _LENT.findall(part)


@functools.cache
def kernel_text(file: str) -> str:
    """The text of a file in `kernels`, as a whole: what is compiled is what names the library in the cache."""
    return _LOCAL.sub(lambda found: kernel_text(found[1]), (KERNELS / file).read_text())
