"""How the tests of the checks look at one target, and short ways to write Functions."""

import warnings

import torch
from torch import Tensor
from torch.autograd import Function

from torchgraft._check.checks.table import NAMED
from torchgraft._check.finding import Verdict
from torchgraft._check.generate.inputs import make_case
from torchgraft._check.target import make_target

DOUBLE = torch.float64


def normal(*shape, dtype=DOUBLE, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def case_of(target, *args, seed=0, **kwargs):
    return make_case(make_target(target), args, kwargs, seed=seed)


def findings(name, target, *args, **kwargs):
    """What a check says, notices too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(NAMED[name].look(case_of(target, *args, **kwargs)))


def alarms(name, target, *args, **kwargs):
    """The codes of what a check says is wrong."""
    return {f.code for f in findings(name, target, *args, **kwargs) if f.severity is not Verdict.PASS}


def function(forward, backward, **members):
    """The `apply` of a Function whose forward saves its tensors; `backward` gets the gradient and what was saved."""

    def save_and_call(ctx, *inputs):
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)))
        return forward(*inputs)

    return plain(save_and_call, lambda ctx, *grads: backward(*grads, *ctx.saved_tensors), **members)


def plain(forward, backward, **members):
    """The `apply` of a Function in the ctx style."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **members}
    return type("Planted", (Function,), body).apply


def modern(forward, backward, jvp=None, vmap=None):
    """The `apply` of a Function that transforms accept; the rules get what was saved after their own arguments."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    members = {"setup_context": staticmethod(setup_context)}
    if jvp is not None:
        members["jvp"] = staticmethod(lambda ctx, *tangents: jvp(*tangents, *ctx.saved_tensors))
    if vmap is None:
        members["generate_vmap_rule"] = True
    else:
        members["vmap"] = staticmethod(lambda info, in_dims, *inputs: vmap(apply, in_dims, *inputs))
    apply = plain(lambda *inputs: forward(*inputs), lambda ctx, *grads: backward(*grads, *ctx.saved_tensors), **members)
    return apply


SIN = function(torch.sin, lambda grad, x: grad * x.cos())
