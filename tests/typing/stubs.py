"""Write what type checkers and editors are told of `torchgraft.scipy.special`: signatures, numbers, docstrings.

An operator is an object, of which an editor shows neither. The stub says what the operators say of themselves at run
time; `python -m tests.typing.stubs` writes it anew.
"""

import inspect
import textwrap
from pathlib import Path

from torchgraft.scipy import special

STUB = Path(special.__file__).with_suffix(".pyi")
HEAD = '''"""Functions of `scipy.special`, under its names."""

# Written by `python -m tests.typing.stubs`.

from typing import overload

from torch import Tensor

from ..._op import Op
'''


def operators():
    return {name: getattr(special, name) for name in special.__all__}


def text():
    """The stub."""
    found = operators()
    structures = {op._record.signature.structure for op in found.values()} - {None, tuple}
    places = sorted((structure.__module__.rpartition(".")[2], structure.__name__) for structure in structures)
    imports = "".join(f"from .{module} import {name}\n" for module, name in places)
    return HEAD + imports + "".join(map(declared, found, found.values()))


def declared(name, op):
    """A class with the operator's calls, of any of which a number may stand for all tensors but one."""
    signature = op._record.signature
    tensors = [parameter.name for _, parameter in signature.tensors]
    kind = "_" + name.title().replace("_", "")
    calls = [f"    def __call__(self, {', '.join(given(op, one))}) -> {result(signature)}: ...\n" for one in tensors]
    calls = [f"    @overload\n{call}" for call in calls] if len(calls) > 1 else calls
    doc = textwrap.indent(f'"""{inspect.getdoc(op)}\n"""', "    ")
    lines = "\n".join(line.rstrip() for line in doc.splitlines())
    return f"\nclass {kind}(Op[..., {result(signature)}]):\n{lines}\n\n{''.join(calls)}\n{name}: {kind}\n"


def given(op, one):
    """The parameters of a call in which `one` is a tensor."""
    for parameter in op._record.signature.parameters:
        default = "" if parameter.required else f" = {parameter.default!r}"
        kind = "Tensor | float" if parameter.is_tensor else parameter.scalar.type.__name__
        kind += " | None" if parameter.optional else ""
        yield f"{parameter.name}: Tensor" if parameter.name == one else f"{parameter.name}: {kind}{default}"


def result(signature):
    """The annotation of what callers get."""
    if signature.structure is tuple:
        return f"tuple[{', '.join(['Tensor'] * len(signature.visible))}]"
    return "Tensor" if signature.structure is None else signature.structure.__name__


if __name__ == "__main__":
    STUB.write_text(text())
