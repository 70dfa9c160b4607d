"""Rows of the matrix: plain autograd, forward mode, and the contexts in which people call it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, autograd
from torch.autograd import forward_ad
from torch.utils import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from .cases import FORWARD, FORWARD_AGAIN, ONE_LEVEL, REVERSE
from .transforms import Subject, directions, transform, weights
from .transforms_func import FORWARD_OVER_REVERSE, SECOND_REVERSE, _subsets

GROUP = "torch.autograd"


def _gradients(s: Subject, x: tuple[Tensor, ...], **options: Any) -> tuple[Tensor, ...]:
    return autograd.grad(s.loss(*x), x, **options)


def _again(gradients: tuple[Tensor, ...], x: tuple[Tensor, ...], **options: Any) -> tuple[Tensor, ...]:
    total = sum((g * weights(g)).sum() for g in gradients)
    return autograd.grad(total.real if total.is_complex() else total, x, **options)


@transform(GROUP, "backward", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    s.loss(*x).backward()
    return [v.grad for v in x]


@transform(GROUP, "backward, each subset of inputs", REVERSE)
def _(s: Subject) -> Any:
    results = []
    for chosen in _subsets(len(s.x)):
        x = [v.detach().clone().requires_grad_(i in chosen) for i, v in enumerate(s.x)]
        s.loss(*x).backward()
        results += [v.grad for v in x if v.requires_grad]
    return results


@transform(GROUP, "backward twice, retain_graph", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    loss = s.loss(*x)
    loss.backward(retain_graph=True)
    loss.backward()
    return [v.grad for v in x]


@transform(GROUP, "non-leaf inputs", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    return autograd.grad(s.loss(*[v * v for v in x]), x)


@transform(GROUP, "grad, create_graph", REVERSE)
def _(s: Subject) -> Any:
    return _gradients(s, s.recording(), create_graph=True)  # what it returns must record, too


@transform(GROUP, "double backward", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    return _again(_gradients(s, x, create_graph=True), x)


@transform(GROUP, "triple backward", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    return _again(_again(_gradients(s, x, create_graph=True), x, create_graph=True), x)


@transform(GROUP, "is_grads_batched", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    out = s.f(*x)
    return autograd.grad(out, x, weights(out.expand(3, *out.shape)), is_grads_batched=True)


@transform(GROUP, "functional.jacobian", REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.jacobian(s.f, s.x)


@transform(GROUP, "functional.jacobian, vectorize", REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.jacobian(s.f, s.x, vectorize=True)


@transform(GROUP, "functional.jacobian, forward-mode", FORWARD)
def _(s: Subject) -> Any:
    return autograd.functional.jacobian(s.f, s.x, vectorize=True, strategy="forward-mode")


@transform(GROUP, "functional.hessian", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.hessian(s.loss, s.x)


@transform(GROUP, "functional.hessian, vectorize", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.hessian(s.loss, s.x, vectorize=True)


@transform(GROUP, "functional.hessian, outer forward-mode", *FORWARD_OVER_REVERSE, ONE_LEVEL)
def _(s: Subject) -> Any:
    return autograd.functional.hessian(s.loss, s.x, vectorize=True, outer_jacobian_strategy="forward-mode")


@transform(GROUP, "functional.vjp", REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.vjp(s.loss, s.x)


@transform(GROUP, "functional.jvp, the double-backward trick", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.jvp(s.f, s.x, directions(s.x))


@transform(GROUP, "functional.hvp", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.hvp(s.loss, s.x, directions(s.x))


@transform(GROUP, "functional.vhp", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    return autograd.functional.vhp(s.loss, s.x, directions(s.x))


@transform(GROUP, "forward_ad.dual_level", FORWARD)
def _(s: Subject) -> Any:
    with forward_ad.dual_level():
        out = s.f(*map(forward_ad.make_dual, s.x, directions(s.x)))
        return tuple(forward_ad.unpack_dual(out))


@transform(GROUP, "forward_ad, each subset of inputs", FORWARD)
def _(s: Subject) -> Any:
    results = []
    for chosen in _subsets(len(s.x)):
        with forward_ad.dual_level():
            x = [forward_ad.make_dual(v, weights(v)) if i in chosen else v for i, v in enumerate(s.x)]
            results.append(tuple(forward_ad.unpack_dual(s.f(*x))))
    return results


@transform(GROUP, "forward over reverse at one level", *FORWARD_OVER_REVERSE, ONE_LEVEL)
def _(s: Subject) -> Any:
    with forward_ad.dual_level():
        x = tuple(map(forward_ad.make_dual, s.recording(), directions(s.x)))
        return [tuple(forward_ad.unpack_dual(g)) for g in _gradients(s, x)]


@transform(GROUP, "forward over double backward at one level", *FORWARD_OVER_REVERSE, ONE_LEVEL)
def _(s: Subject) -> Any:
    with forward_ad.dual_level():
        x = tuple(map(forward_ad.make_dual, s.recording(), directions(s.x)))
        again = _again(_gradients(s, x, create_graph=True), x, allow_unused=True)
        return [tuple(forward_ad.unpack_dual(g)) for g in again if g is not None]


@transform(GROUP, "reverse over forward at one level", REVERSE, FORWARD, FORWARD_AGAIN, ONE_LEVEL)
def _(s: Subject) -> Any:
    x = s.recording()
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(s.loss(*map(forward_ad.make_dual, x, directions(s.x)))).tangent
        return autograd.grad(tangent, x)


CONTEXT = "contexts"


@transform(CONTEXT, "checkpoint, reentrant", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    return _backward(x, checkpoint.checkpoint(s.loss, *x, use_reentrant=True))


@transform(CONTEXT, "checkpoint, not reentrant", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    return _backward(x, checkpoint.checkpoint(s.loss, *x, use_reentrant=False))


@transform(CONTEXT, "checkpoint, double backward", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    loss = checkpoint.checkpoint(s.loss, *x, use_reentrant=False)
    return _again(autograd.grad(loss, x, create_graph=True), x)


def _backward(x: tuple[Tensor, ...], loss: Tensor) -> list[Tensor | None]:
    loss.backward()
    return [v.grad for v in x]


@transform(CONTEXT, "saved_tensors_hooks", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with autograd.graph.saved_tensors_hooks(lambda t: t.tolist() and t.clone(), lambda t: t):
        loss = s.loss(*x)
    return _backward(x, loss)


@transform(CONTEXT, "save_on_cpu", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with autograd.graph.save_on_cpu():
        loss = s.loss(*x)
    return _backward(x, loss)


@transform(CONTEXT, "tensor hooks, retain_grad", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    for v in x:
        v.register_hook(lambda gradient: 2 * gradient)
    out = s.f(*x)
    out.retain_grad()
    (out.abs() * weights(out).abs()).sum().backward()
    return [v.grad for v in x], out.grad


@contextlib.contextmanager
def _detect_anomaly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")
        with autograd.detect_anomaly(check_nan=True):
            yield


@transform(CONTEXT, "anomaly mode", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with _detect_anomaly():
        return _backward(x, s.loss(*x))


@transform(CONTEXT, "anomaly mode, double backward", *SECOND_REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with _detect_anomaly():
        return _again(_gradients(s, x, create_graph=True), x)


@transform(CONTEXT, "a counter of operations", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with FlopCounterMode(display=False):
        return _backward(x, s.loss(*x))


@transform(CONTEXT, "a counter of operations, vmap(grad)", REVERSE)
def _(s: Subject) -> Any:
    with FlopCounterMode(display=False):
        return torch.vmap(torch.func.grad(s.loss, argnums=s.every))(*s.stacked())


@transform(CONTEXT, "no_grad")
def _(s: Subject) -> Any:
    with torch.no_grad():
        return s.f(*s.recording())


@transform(CONTEXT, "recording after no_grad and inference_mode", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with torch.no_grad():
        s.f(*x)
    with torch.inference_mode():
        s.f(*x)
    first = _gradients(s, x)
    with torch.no_grad():
        assert not s.f(*x).requires_grad
    return first, _gradients(s, x)


@transform(CONTEXT, "inference_mode")
def _(s: Subject) -> Any:
    with torch.inference_mode():
        made = s.raw(*s.leaves)
    assert all(out.is_inference() for out in made)
    return [out.tolist() for out in made]


@transform(CONTEXT, "inference tensors, outside")
def _(s: Subject) -> Any:
    with torch.inference_mode():
        leaves = [leaf.clone() for leaf in s.leaves]
    return [out.tolist() for out in s.raw(*leaves)]


@transform(CONTEXT, "set_default_device", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    with torch.device("cpu"):
        return _backward(x, s.loss(*x))


@transform(CONTEXT, "inputs that are not contiguous", REVERSE)
def _(s: Subject) -> Any:
    x = tuple(torch.stack([v, v], -1).requires_grad_() for v in s.x)
    return _backward(x, s.loss(*[v[..., 1] for v in x]))


@transform(CONTEXT, "lazy conjugates and negatives", REVERSE)
def _(s: Subject) -> Any:
    x = s.recording()
    lazy = [v.conj() if v.is_complex() else torch.complex(v, v).conj().imag for v in x]
    return _backward(x, s.loss(*lazy))
