"""Text that shows a finding again: a program with the arguments written out, or a command."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._spec.signature import Signature
from .._spec.structures import Structure
from .case import Case
from .generate.inputs import signature_of
from .target import Target, function_of, make_target

_TORCH = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")
"""Modules in which functions have a name that `import torch` knows, whatever they say themselves."""
FEW = 64
"""Arguments with at most so many elements together are written out."""


TAKEN = {"target", "torch", "tg"}
"""Names that a program has other uses for than its arguments."""


class _NoTextError(Exception):
    """A target or an argument cannot be written in a program."""


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
    try:
        return _program(case)
    except _NoTextError:
        return command(case)


def command(case: Case) -> str:
    """The command that generates the arguments again, or words where the target has no name, or they were given."""
    target = case.target
    if not _is_named(target):
        return f"# call torchgraft.check(target, ..., seed={case.seed}), where target is {_unnamed(target)}"
    module, name = _names(_holder(target.origin))
    source = getattr(sys.modules.get(module), "__file__", None)
    place = f"{module}:{name}"
    # It is a script or a test.
    if module == "__main__" or ("." not in module and source and "site-packages" not in source):
        path = Path(source) if source else None
        short = path.relative_to(Path.cwd()) if path and path.is_relative_to(Path.cwd()) else path
        place = f"{short}:{name}" if short else name
    if not target.samples and signature_of(target) is None:
        given = "with the arguments of before, which are too long to be written here"
        return f"# call torchgraft.check(target, ..., seed={case.seed}), where target is {place}, {given}"
    return f"torchgraft check {place} --seed {case.seed}"


def _program(case: Case) -> str:
    target = case.target
    buffers = [] if target.state is None else target.state.buffers.values()
    if sum(value.numel() for value in (*case.leaves, *buffers) if isinstance(value, Tensor)) > FEW:
        raise _NoTextError
    imports, called = _reference(target) if _is_named(target) else ([f"# target is {_unnamed(target)}"], "target")
    args, kwargs = case.arguments(case.primals)
    operator = target.operator
    if operator is not None and operator._record.signature.structures:
        given = _with_structures(operator._record.signature, args)
    else:
        given = _plain_arguments(target, args, kwargs)
    imports, lines = [*imports, *given.imports], given.lines
    if target.kind == "module":
        made_anew = called != "target"
        lines = [*_state(target), *_parameters(target.origin, args[0], all_of_them=made_anew), *lines]
        lines, called = [f"target = {called}", *lines] if made_anew else lines, "target"
    call = given.by_place
    if given.by_name:  # Other keyword arguments of `check` are its own options.
        call = [*call, f"kwargs=dict({', '.join(given.by_name)})"]
    if case.seed:
        call = [*call, f"seed={case.seed}"]
    more, surrogates = _surrogates(target)
    imports, call = [*imports, *more], [*call, *surrogates]
    if target.declared.accuracy is not None and target.operator is None:
        call.append(f"accuracy={target.declared.accuracy!r}")
    check = f"print(tg.check({', '.join([called, *call])}))"
    imports = list(dict.fromkeys(imports))
    if any("importlib." in line for line in imports):
        imports = ["import importlib", *imports]
    return "\n".join(["import torch", "import torchgraft as tg", *imports, "", *lines, check])


# -- the target -----------------------------------------------------------------------------------------------------


def _reference(target: Target) -> tuple[list[str], str]:
    """Imports for a target, and the expression for it then."""
    origin = target.origin
    if isinstance(origin, nn.Module):
        return [], _module(origin)
    if target.kind == "library":
        return [], f"torch.ops.{origin}"
    place = next((place for place in _TORCH if _found(place, getattr(origin, "__name__", " ")) is origin), None)
    if place is not None:
        return [], f"{place}.{origin.__name__}"
    holder = _holder(origin)
    name = _names(holder)[1]
    return [_import(holder)], name + ("" if holder is origin else ".apply")


def _surrogates(target: Target) -> tuple[list[str], list[str]]:
    """Imports, and the argument of `check`, for surrogates that the target does not declare itself."""
    own, imports, items = make_target(target.origin).declared.surrogates, list[str](), list[str]()
    for name, of in target.declared.surrogates.items():
        if own.get(name) is of:
            continue
        smooth = make_target(of)
        if _is_named(smooth):
            more, expression = _reference(smooth)
        else:
            expression = f"smooth{len(items) or ''}"
            more = [f"# {expression} is {_unnamed(smooth)}"]
        imports, items = [*imports, *more], [*items, f"{name!r}: {expression}"]
    return imports, [f"surrogate={{{', '.join(items)}}}"] if items else []


def _import(holder: Any) -> str:
    """The line that imports an object."""
    module, name = _names(holder)
    if not module or _found(module, name) is not holder:
        raise _NoTextError
    if module == "__main__":
        script = getattr(sys.modules[module], "__file__", None)
        if script is None:
            raise _NoTextError
        module = Path(script).stem
    if not all(map(str.isidentifier, module.split("."))):  # A file such as 07.py cannot be imported by a statement.
        return f"{name.partition('.')[0]} = importlib.import_module({module!r}).{name.partition('.')[0]}"
    return f"from {module} import {name.partition('.')[0]}"


def _is_named(target: Target) -> bool:
    """Return True if text can say what the target is."""
    if isinstance(target.origin, nn.Module):
        try:
            return bool(_module(target.origin))
        except _NoTextError:
            return False
    module, name = _names(_holder(target.origin))
    return target.kind == "library" or (bool(module) and "<" not in name)


def _unnamed(target: Target) -> str:
    return f"{target.name}, which has no name that can be imported"


def _holder(origin: Any) -> Any:
    """The object that has a name: the class of a Function's `apply`, the kernel's module and name for an operator."""
    return function_of(origin) or origin


def _names(holder: Any) -> tuple[str, str]:
    module = getattr(holder, "__module__", None)
    name = getattr(holder, "__qualname__", None) or getattr(holder, "__name__", "")
    return module if isinstance(module, str) and name else "", str(name)


def _found(module: str, name: str) -> Any:
    """The object that an import of this name gives; None if there is none."""
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
    except Exception:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _state(target: Target) -> list[str]:
    """Lines that put a module into the state that it has in a case."""
    if target.state is None:
        return []
    buffers = [f"target.get_buffer({name!r}).copy_({_text(value)})" for name, value in target.state.buffers.items()]
    paths = [(*name.rpartition("."), number) for name, number in target.state.numbers.items()]
    numbers = [f"target.get_submodule({path!r}).{name} = {number}" for path, _, name, number in paths]
    return [f"target.train({target.state.training})", *buffers, *numbers]


def _parameters(module: nn.Module, given: Mapping[str, Tensor], *, all_of_them: bool) -> list[str]:
    """Lines that give a module the parameters of a call: those that are not its own, or all."""
    own = dict(module.named_parameters())
    others = {
        name: parameter
        for name, parameter in given.items()
        if all_of_them or parameter.dtype != own[name].dtype or not torch.equal(parameter, own[name])
    }
    return [f"target.get_parameter({name!r}).data = {_text(other)}" for name, other in others.items()]


def _module(module: nn.Module) -> str:
    """A module of torch.nn is what its text says; any other has a constructor that nobody knows."""
    text, dtypes = repr(module), [parameter.dtype for parameter in module.parameters()][:1]
    if not type(module).__module__.startswith("torch.nn.modules") or "\n" in text:
        raise _NoTextError
    return f"torch.nn.{text}" + "".join(f".to({dtype})" for dtype in dtypes if dtype != torch.float32)


# -- arguments ------------------------------------------------------------------------------------------------------


def literal(value: Any) -> str | None:
    """A value as Python text that makes it again, with its strides; None where there is no such text."""
    try:
        return _text(value)
    except _NoTextError:
        return None


class _Given(NamedTuple):
    """The arguments of a call as text, after imports and lines that make tensors."""

    imports: list[str]
    lines: list[str]
    by_place: list[str]
    by_name: list[str]


def _plain_arguments(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Given:
    skipped = int(target.kind == "module")  # The parameters of a module come first.
    lines, call = list[str](), list[str]()
    for i, value in enumerate(args[skipped:], skipped):
        name = target.parameters[i] if i < len(target.parameters) else ""
        name = name if name.isidentifier() else f"x{i - skipped}"
        name += "_" * (name in TAKEN)
        call.append(name if isinstance(value, Tensor) else _text(value))
        lines += [f"{name} = {_text(value)}"] if isinstance(value, Tensor) else []
    return _Given([], lines, call, [f"{name}={_text(value)}" for name, value in kwargs.items()])


def _with_structures(signature: Signature, values: Sequence[Any]) -> _Given:
    """The arguments, of which some are structures, whose classes are imported."""
    imports, lines, texts = dict[str, None](), list[str](), dict[str, str]()
    for name, value in zip(signature.names, values, strict=True):
        texts[name] = name if isinstance(value, Tensor) else _text(value)
        lines += [f"{name} = {_text(value)}"] if isinstance(value, Tensor) else []

    def written(item: str | Structure) -> str:
        if isinstance(item, str):
            return texts[item]
        if not item.is_made_of_fields:
            raise _NoTextError
        imports[_import(item.cls)] = None
        return f"{item.cls.__qualname__}({', '.join(f'{name}={written(field)}' for name, field in item.fields)})"

    made = [(p, written(p if isinstance(p, Structure) else p.name)) for p in signature.given]
    call = [text for item, text in made if not item.keyword_only]
    by_name = [f"{item.name}={text}" for item, text in made if item.keyword_only]
    return _Given(list(imports), lines, call, by_name)


def _text(value: Any) -> str:
    match value:
        case Tensor():
            return _tensor(value.detach())
        case torch.dtype() | bool() | int() | float() | complex() | str() | None:
            return _plain(value)
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case tuple():
            return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
        case dict():
            return "{" + ", ".join(f"{_text(key)}: {_text(part)}" for key, part in value.items()) + "}"
    raise _NoTextError


def _tensor(x: Tensor) -> str:
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
        return f"torch.sparse_coo_tensor({_plain(x.indices().tolist())}, {_dense(x.values())}, {tuple(x.shape)})"
    if x.layout != torch.strided:
        return f"{_tensor(x.to_dense())}.to_sparse(layout={x.layout})"
    if x.is_contiguous() or not x.numel():
        return _dense(x)
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    whole = x.as_strided((span,), (1,))  # What lies between its elements comes along.
    return f"{_dense(whole)}.as_strided({tuple(x.shape)}, {tuple(x.stride())})"


def _dense(x: Tensor) -> str:
    if not x.numel():
        return f"torch.empty({tuple(x.shape)}, dtype={x.dtype})"
    x = x.resolve_conj().resolve_neg().cpu()
    if x.is_complex() and not x.isfinite().all():
        return f"torch.view_as_complex({_dense(torch.view_as_real(x))})"
    values = x.tolist()
    if x.is_floating_point() and x.dtype != torch.float64:
        values = x.float().numpy().astype(str).astype(float).tolist()  # The text has as many digits as the dtype.
    usual = x.dtype in (torch.int64, torch.bool, torch.float32)
    return f"torch.tensor({_plain(values)}" + ("" if usual else f", dtype={x.dtype}") + ")"


def _plain(values: Any) -> str:
    """A number, or a list of numbers, as Python writes it, and reads it."""
    text = repr(values)
    return text if isinstance(values, str) else re.sub(r"\b(nan|inf)\b", r"float('\1')", text)
