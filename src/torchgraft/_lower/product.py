"""The product behind partial derivatives, an operator of torchgraft's own.

A plain ``where(grad == 0, 0, grad * p)`` has the derivative 0 with respect to `grad` where `grad` is 0, and so breaks
the double-backward trick, which differentiates at `grad` = 0. Declared as bilinear, the product is right at any order.
"""

from __future__ import annotations

import torch
from jaxtyping import Inexact
from torch import Tensor

from .. import _torch
from .._record import Record
from .._rules.rule import make_rule
from .._spec.reading import read_signature
from .dispatcher_op import fresh_name
from .lowering import Lowering


def _product(weight: Inexact[Tensor, "..."], value: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
    return torch.mul(weight, value).masked_fill(weight == 0, 0)


def _adjoint_weight(grad: Tensor, value: Tensor) -> Tensor:
    return _lowering.call([grad, value.conj()])[0]


def _adjoint_value(grad: Tensor, weight: Tensor) -> Tensor:
    return _lowering.call([grad, weight.conj()])[0]


def weigh(weight: Tensor, value: Tensor) -> Tensor:
    """`weight * value`, zero where `weight` is zero even if `value` is infinite there; differentiable in both."""
    dtype = torch.promote_types(weight.dtype, value.dtype)
    weight, value = weight.to(dtype), value.to(dtype)
    if torch.is_grad_enabled() or _torch.tangents_possible():
        return _lowering.call([weight, value])[0]
    return _product(weight, value)


_signature = read_signature(_product, "product", loop=False, frames=0)
_record = Record(_signature, _product, fresh_name("torchgraft::product", _product), None)
_record.add_rule(make_rule(_signature, "adjoint", ["weight"], _adjoint_weight, frames=0))
_record.add_rule(make_rule(_signature, "adjoint", ["value"], _adjoint_value, frames=0))
_lowering = Lowering(_record, weigh)
