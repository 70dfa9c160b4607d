"""Text that shows a finding again: a program with the arguments written out, or a command."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .case import Case
from .target import Target, function_of, make_target

_TORCH = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")
"""Where functions have a name that `import torch` knows, whatever they say themselves."""
FEW = 64
"""Arguments with at most so many elements together are written out."""


def repro(case: Case) -> str:
    """Python text that checks a case once more, or, where its target or arguments cannot be written, a command.

    Example:
        >>> print(repro(case))
        import torch
        import torchgraft as tg
        from layers import Relu
        <BLANKLINE>
        x = torch.tensor([1.0, -1.0], dtype=torch.float64)
        print(tg.check(Relu.apply, x))
    """
    place = reference(case.target)
    arguments = _arguments(case) if place is not None else None
    if place is None or arguments is None:
        return command(case)
    imports, expression = place
    lines, call, keywords = arguments
    if keywords:  # those of `check` are its own options
        imports, expression = (
            ["from functools import partial", *imports],
            f"partial({', '.join([expression, *keywords])})",
        )
    options = f", seed={case.seed}" if case.seed else ""
    accuracy = case.target.declared.accuracy
    surrogates = _surrogates(case.target)
    if surrogates is None:
        return command(case)
    imports, options = [*imports, *surrogates[0]], options + surrogates[1]
    options += f", accuracy={accuracy!r}" if accuracy is not None and case.target.operator is None else ""
    check = f"print(tg.check({', '.join([expression, *call])}{options}))"
    return "\n".join(["import torch", "import torchgraft as tg", *imports, "", *lines, check])


def _surrogates(target: Target) -> tuple[list[str], str] | None:
    """Imports and the option for surrogates that the target does not declare itself; None if one has no name."""
    own = make_target(target.origin).declared.surrogates
    given = {name: of for name, of in target.declared.surrogates.items() if own.get(name) is not of}
    places = {name: reference(make_target(of)) for name, of in given.items()}
    found = [(name, *place) for name, place in places.items() if place is not None]
    if len(found) < len(places):
        return None
    imports = [line for _, lines, _ in found for line in lines]
    option = ", ".join(f"{name!r}: {expression}" for name, _, expression in found)
    return imports, f", surrogate={{{option}}}" if found else ""


def command(case: Case) -> str:
    """The command that generates the arguments again, or words where the target has no name."""
    seed = f" --seed {case.seed}"
    target = case.target
    module, name = _names(_holder(target.origin))
    if module is None or "<" in name:
        return f"# {target.name} has no name that can be imported: call torchgraft.check(it, ..., seed={case.seed})"
    source = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or ("." not in module and _outside(source)):
        return f"torchgraft check {_short(source)}:{name}{seed}" if source else f"torchgraft check {name}{seed}"
    return f"torchgraft check {module}:{name}{seed}"


def reference(target: Target) -> tuple[list[str], str] | None:
    """How a program imports a target, and what it then calls it; None where it cannot be imported."""
    origin = target.origin
    if isinstance(origin, nn.Module):
        return _module(origin)
    if target.kind == "library":
        return [], f"torch.ops.{target.origin}"
    place = next((place for place in _TORCH if _found(place, getattr(origin, "__name__", " ")) is origin), None)
    if place is not None:
        return [], f"{place}.{origin.__name__}"
    holder = _holder(origin)
    module, name = _names(holder)
    if module is None or _found(module, name) is not holder:
        return None
    suffix = "" if holder is origin else ".apply"
    first = name.partition(".")[0]
    if module == "__main__":
        script = getattr(sys.modules[module], "__file__", None)
        return None if script is None else ([f"from {Path(script).stem} import {first}"], name + suffix)
    return [f"from {module} import {first}"], name + suffix


def _holder(origin: Any) -> Any:
    """What has a name: the class of a Function's `apply`, the kernel's module and name for an operator."""
    return function_of(origin) or origin


def _names(holder: Any) -> tuple[str | None, str]:
    module = getattr(holder, "__module__", None)
    name = getattr(holder, "__qualname__", None) or getattr(holder, "__name__", "")
    return module if isinstance(module, str) and name else None, str(name)


def _found(module: str, name: str) -> Any:
    """What an import of this name gives; None if nothing."""
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
    except Exception:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _outside(source: str | None) -> bool:
    """Whether a file is a script's or a test's, no installed package's."""
    return source is not None and "site-packages" not in source


def _short(source: str | None) -> str:
    if source is None:
        return "an interactive session"
    path = Path(source)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _module(module: nn.Module) -> tuple[list[str], str] | None:
    """A module of torch.nn is what its text says; any other has a constructor that nobody knows."""
    kind = type(module)
    text = repr(module)
    if kind.__module__.startswith("torch.nn.modules") and "\n" not in text:
        return [], f"torch.nn.{text}" + _dtype(module)
    return None


def _dtype(module: nn.Module) -> str:
    parameter = next(module.parameters(), None)
    return "" if parameter is None or parameter.dtype == torch.float32 else f".to({parameter.dtype})"


# -- arguments ------------------------------------------------------------------------------------------------------


def _arguments(case: Case) -> tuple[list[str], list[str], list[str]] | None:
    """Lines that make the arguments, and how they are passed, by place and by name; None if they cannot be written."""
    args, kwargs = case.arguments(case.primals)
    if case.target.kind == "module":
        args = args[1:]
    lines, call, keywords = list[str](), list[str](), list[str]()
    names = case.target.parameters[1:] if case.target.kind == "module" else case.target.parameters
    if sum(leaf.numel() for leaf in case.leaves if isinstance(leaf, Tensor)) > FEW:
        return None
    for i, value in enumerate(args):
        name = names[i] if i < len(names) and names[i].isidentifier() else f"x{i}"
        text = literal(value)
        if text is None:
            return None
        call.append(name if isinstance(value, Tensor) else text)
        lines += [f"{name} = {text}"] if isinstance(value, Tensor) else []
    for name, value in kwargs.items():
        text = literal(value)
        if text is None:
            return None
        keywords.append(f"{name}={text}")
    return lines, call, keywords


def literal(value: Any) -> str | None:
    """A value as Python text that makes it again, with its strides; None where there is no such text."""
    if isinstance(value, Tensor):
        return _tensor(value.detach())
    if isinstance(value, torch.dtype | bool | int | float | complex | str | None):
        return _number(value) if isinstance(value, float) else repr(value)
    if isinstance(value, list | tuple):
        parts = [literal(part) for part in value]
        if any(part is None for part in parts):
            return None
        inside = ", ".join(part for part in parts if part is not None)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(parts) == 1 else ''})"
    if isinstance(value, dict):
        items = [(literal(key), literal(part)) for key, part in value.items()]
        if any(None in item for item in items):
            return None
        return "{" + ", ".join(f"{key}: {part}" for key, part in items) + "}"
    return None


def _tensor(x: Tensor) -> str | None:
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
        return f"torch.sparse_coo_tensor({_nested(x.indices())}, {_dense(x.values())}, {tuple(x.shape)})"
    if x.layout != torch.strided:
        dense = _tensor(x.to_dense())
        return None if dense is None else f"{dense}.to_sparse(layout={x.layout})"
    if x.is_contiguous() or not x.numel():
        return _dense(x)
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    whole = x.as_strided((span,), (1,))  # with what lies between its elements
    return f"{_dense(whole)}.as_strided({tuple(x.shape)}, {tuple(x.stride())})"


def _dense(x: Tensor) -> str:
    if not x.numel():
        return f"torch.empty({tuple(x.shape)}, dtype={x.dtype})"
    usual = x.dtype in (torch.int64, torch.bool, torch.float32)
    return f"torch.tensor({_nested(x)}" + ("" if usual else f", dtype={x.dtype}") + ")"


def _nested(x: Tensor) -> str:
    x = x.resolve_conj().resolve_neg().cpu()
    if x.ndim:
        return f"[{', '.join(_nested(part) for part in x)}]"
    value = x.item()
    if isinstance(value, complex):
        return repr(value) if np.isfinite(value) else f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and x.dtype != torch.float64:
        return _number(value, short=str(np.float32(value)))
    return _number(value) if isinstance(value, float) else repr(value)


def _number(value: float, short: str | None = None) -> str:
    """A float as Python writes it; the dtype's shortest text if it is given."""
    return (short or repr(value)) if np.isfinite(value) else f"float('{value}')"
