"""Rows of the matrix: `torch.compile` around an operator, around transforms of it, and inside transforms."""

from __future__ import annotations

from typing import Any

from torch import autograd
from torch.autograd import forward_ad
from torch.func import functionalize, grad, hessian, jacfwd, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from .cases import FORWARD, REVERSE
from .transforms import Subject, directions, transform
from .transforms_func import FORWARD_OVER_REVERSE, SECOND_REVERSE

GROUP = "torch.compile, fullgraph"


def _backward(s: Subject, **options: Any) -> Any:
    x = s.recording()
    out = s.compiler(s.f, **options)(*x)
    return out, autograd.grad(out.abs().sum(), x)


@transform(GROUP, "compile, nothing recorded", slow=True)
def _(s: Subject) -> Any:
    return s.compiler(s.raw)(*s.leaves)


@transform(GROUP, "compile, forward and backward", REVERSE, slow=True)
def _(s: Subject) -> Any:
    return _backward(s)


@transform(GROUP, "compile, dynamic", REVERSE, slow=True)
def _(s: Subject) -> Any:
    return _backward(s, dynamic=True)


@transform(GROUP, "compile(grad)", REVERSE, slow=True)
def _(s: Subject) -> Any:
    return s.compiler(grad(s.loss, argnums=s.every))(*s.x)


@transform(GROUP, "compile(jvp)", FORWARD, slow=True)
def _(s: Subject) -> Any:
    return s.compiler(lambda x, t: jvp(s.f, x, t))(s.x, directions(s.x))


@transform(GROUP, "compile(forward_ad.dual_level)", FORWARD, slow=True)
def _(s: Subject) -> Any:
    def pushed(*x: Any) -> Any:
        with forward_ad.dual_level():
            out = s.f(*[forward_ad.make_dual(v, t) for v, t in zip(x, directions(s.x), strict=True)])
            return tuple(forward_ad.unpack_dual(out))

    return s.compiler(pushed)(*s.x)


@transform(GROUP, "compile(jacfwd)", FORWARD, slow=True)
def _(s: Subject) -> Any:
    return s.compiler(jacfwd(s.f, argnums=s.every))(*s.x)


@transform(GROUP, "compile(hessian)", *FORWARD_OVER_REVERSE, slow=True)
def _(s: Subject) -> Any:
    return s.compiler(hessian(s.loss, argnums=s.every))(*s.x)


@transform(GROUP, "compile(vmap)", slow=True)
def _(s: Subject) -> Any:
    return s.compiler(vmap(s.f))(*s.stacked())


@transform(GROUP, "compile(vmap(grad))", REVERSE, slow=True)
def _(s: Subject) -> Any:
    return s.compiler(vmap(grad(s.loss, argnums=s.every)))(*s.stacked())


@transform(GROUP, "backward of compile(vmap)", REVERSE, slow=True)
def _(s: Subject) -> Any:
    x = tuple(v.requires_grad_() for v in s.stacked())
    return autograd.grad(s.compiler(vmap(s.loss))(*x).cos().sum(), x)


@transform(GROUP, "backward of compile(grad)", *SECOND_REVERSE, slow=True)
def _(s: Subject) -> Any:
    x = s.recording()
    return autograd.grad(s.compiler(grad(s.loss))(*x).abs().sum(), x)


OUTSIDE = "transforms of compiled functions"


@transform(OUTSIDE, "grad(compile)", REVERSE, slow=True)
def _(s: Subject) -> Any:
    return grad(s.compiler(s.loss, fullgraph=False), argnums=s.every)(*s.x)


@transform(OUTSIDE, "jvp(compile)", FORWARD, slow=True)
def _(s: Subject) -> Any:
    return jvp(s.compiler(s.f, fullgraph=False), s.x, directions(s.x))


@transform(OUTSIDE, "jacfwd(compile)", FORWARD, slow=True)
def _(s: Subject) -> Any:
    return jacfwd(s.compiler(s.f, fullgraph=False), argnums=s.every)(*s.x)


@transform(OUTSIDE, "hessian(compile)", *FORWARD_OVER_REVERSE, slow=True)
def _(s: Subject) -> Any:
    return hessian(s.compiler(s.loss, fullgraph=False))(*s.x)


@transform(OUTSIDE, "vmap(compile)", slow=True)
def _(s: Subject) -> Any:
    return vmap(s.compiler(s.f, fullgraph=False))(*s.stacked())


TRACERS = "tracers"


@transform(TRACERS, "make_fx")
def _(s: Subject) -> Any:
    return make_fx(s.f)(*s.x)(*[2 * v for v in s.x])


@transform(TRACERS, "make_fx(grad), symbolic", REVERSE, slow=True)
def _(s: Subject) -> Any:
    return make_fx(grad(s.loss, argnums=s.every), tracing_mode="symbolic", _allow_non_fake_inputs=True)(*s.x)(
        *[2 * v for v in s.x]
    )


def _backward_of_graph(s: Subject, **options: Any) -> Any:
    graph, x = make_fx(s.f, **options)(*s.x), s.recording()
    out = graph(*x)
    return out, autograd.grad(out.abs().sum(), x)


@transform(TRACERS, "backward of make_fx", REVERSE)
def _(s: Subject) -> Any:
    return _backward_of_graph(s)


@transform(TRACERS, "backward of make_fx, pre_dispatch", REVERSE)
def _(s: Subject) -> Any:
    return _backward_of_graph(s, pre_dispatch=True)


@transform(TRACERS, "functionalize(grad)", REVERSE)
def _(s: Subject) -> Any:
    return functionalize(grad(s.loss, argnums=s.every))(*s.x)
