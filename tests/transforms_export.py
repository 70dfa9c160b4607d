"""Rows of the matrix: `torch.export`, tensors without data, tensors of other types."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, autograd
from torch._subclasses import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .cases import REVERSE
from .transforms import Subject, transform

GROUP = "torch.export"


class _Module(torch.nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *leaves: Tensor) -> Any:
        return self.f(*leaves)


def _export(s: Subject, **options: Any) -> torch.export.ExportedProgram:
    return torch.export.export(_Module(s.raw), tuple(s.leaves), **options)


@transform(GROUP, "export", slow=True)
def _(s: Subject) -> Any:
    return _export(s, strict=False).module()(*s.leaves)


@transform(GROUP, "backward of export", REVERSE, slow=True)
def _(s: Subject) -> Any:
    x = s.recording()
    out = torch.export.export(_Module(s.f), s.x).module()(*x)
    return out, autograd.grad(out.abs().sum(), x)


@transform(GROUP, "export, strict", slow=True)
def _(s: Subject) -> Any:
    return _export(s, strict=True).module()(*s.leaves)


@transform(GROUP, "export, dynamic shapes", slow=True)
def _(s: Subject) -> Any:
    shapes = (tuple([torch.export.Dim.AUTO] * leaf.dim() for leaf in s.leaves),)
    return _export(s, dynamic_shapes=shapes).module()(*s.leaves)


@transform(GROUP, "export, run_decompositions", slow=True)
def _(s: Subject) -> Any:
    return _export(s).run_decompositions().module()(*s.leaves)


@transform(GROUP, "export, save and load", slow=True)
def _(s: Subject) -> Any:
    file = io.BytesIO()
    torch.export.save(_export(s), file)
    file.seek(0)
    return torch.export.load(file).module()(*s.leaves)


OTHER = "other tensors"


def _seen(tensors: Any) -> list[Tensor]:
    """What is known of tensors without data, as tensors that can be compared."""
    return [torch.ones(t.shape, dtype=t.dtype) for t in tensors]


@transform(OTHER, "fake tensors")
def _(s: Subject) -> Any:
    with FakeTensorMode() as mode:
        made = s.raw(*map(mode.from_tensor, s.leaves))
    return _seen(made)


@transform(OTHER, "fake tensors, backward", REVERSE)
def _(s: Subject) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = [mode.from_tensor(v).requires_grad_() for v in s.x]
        made = autograd.grad(s.loss(*x), x)
    return _seen(made)


@transform(OTHER, "meta tensors")
def _(s: Subject) -> Any:
    return _seen(s.raw(*[leaf.to("meta") for leaf in s.leaves]))


class _Log(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@transform(OTHER, "TorchDispatchMode, backward", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with _Log():
        return autograd.grad(s.loss(*x), x)


@transform(OTHER, "a wrapper subclass, backward", REVERSE)
def _(s: Subject) -> Any:
    if any(v.is_complex() for v in s.x):
        raise NotImplementedError("TwoTensor drops conjugation")
    x = [TwoTensor(v.clone(), 2 * v).requires_grad_() for v in s.x]
    made = autograd.grad(s.loss(*x), x)
    return [(two.a, two.b) for two in made]


@transform(OTHER, "nn.Parameter", REVERSE)
def _(s: Subject) -> Any:
    x = [torch.nn.Parameter(v) for v in s.x]
    s.loss(*x).backward()
    return [v.grad for v in x]
