"""The seed of a random operator: its annotation, its default, and which seed each sample has.

A seed is one number, or has the batch axes of the call. One number gives each sample a seed of its own, made of it and
the sample's number, before a kernel or a rule sees it. So samples differ, and a value depends on its sample alone: not
on threads, nor on the ranks of a mesh.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from ..errors import DeclarationError, ShapeError
from .axes import Axes, Shape, broadcast
from .dtypes import Dtypes
from .signature import Parameter, Signature, TensorType


class _Drawn:
    """The default of a seed: torch draws it when the operator is called."""

    def __repr__(self) -> str:
        return "drawn"

    def __reduce__(self) -> str:
        return "drawn"


if TYPE_CHECKING:
    Seed: TypeAlias = Any  # A kernel sees a tensor or an array, and callers give more.
    drawn: Any
else:

    class Seed:
        """The annotation of an operator's seed: ``*, seed: tg.Seed = tg.drawn``.

        Callers leave it out, and torch's generator of the device draws it before the kernel runs; or they give an int,
        a tensor of int64 (one number, or one for each sample), or a `torch.Generator`. They may also pass
        ``generator=`` beside the operator's arguments. The kernel and the rules that ask for it see a tensor (or an
        array) of int64 with the batch axes of the call: a seed for each sample. In C it is ``int64_t seed``.

        Example:
            >>> @tg.op
            ... def noisy(x: Float[Tensor, "*batch n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "*batch n"]:
            ...     return x + tg.random_normal(seed, x.shape[-1:], dtype=x.dtype)
        """

    drawn = _Drawn()
    drawn.__doc__ = "The default of a seed: torch's generator draws it where the caller leaves it out."


def read_seed(operator: str, parameter: inspect.Parameter, annotation: Any) -> Parameter:
    """The parameter that is a seed, whose axes `with_seed_axes` fills in.

    Raises:
        DeclarationError: it can be passed by position, or has another annotation or default.
    """
    keyword_only = parameter.kind is parameter.KEYWORD_ONLY
    if annotation is not Seed or parameter.default is not drawn or not keyword_only:
        raise DeclarationError(
            "a seed is passed by name alone, and drawn where it is left out", operator=operator,
            argument=parameter.name, expected=f"*, {parameter.name}: tg.Seed = tg.drawn",
            got=("*, " if keyword_only else "") + str(parameter),
        )  # fmt: skip
    kind = TensorType(False, Axes("", operator, parameter.name), Dtypes("Int64", frozenset({torch.int64})))
    return Parameter(parameter.name, kind, False, False, drawn, True, is_seed=True)


def with_seed_axes(signature: Signature) -> Signature:
    """`signature` whose seed has the batch axes of the operator.

    Raises:
        DeclarationError: there are two seeds, or another parameter has the name `generator`.
    """
    seeds = [p for p in signature.parameters if p.is_seed]
    if not seeds:
        return signature
    if len(seeds) > 1:
        raise DeclarationError(
            "has two seeds", operator=signature.name, argument=seeds[1].name, expected="one parameter of type tg.Seed",
            got=", ".join(seed.name for seed in seeds), hint=f"make streams of one: tg.random_fold({seeds[0].name}, 1)",
        )  # fmt: skip
    if "generator" in signature.names:
        raise DeclarationError(
            "the name 'generator' is already that of the argument with which callers choose who draws the seed",
            operator=signature.name, argument="generator", expected="another name",
            got="a parameter called 'generator'",
        )  # fmt: skip
    rest = replace(signature, parameters=tuple(p for p in signature.parameters if not p.is_seed))
    run = rest.batch_run
    text = "" if run is None or signature.loop else "..." if run.name is None else f"*#{run.name}"
    axes = Axes(text, signature.name, seeds[0].name)
    seed = replace(seeds[0], type=TensorType(rest.numpy, axes, seeds[0].tensor.dtypes))
    return replace(signature, parameters=tuple(seed if p.is_seed else p for p in signature.parameters))


def samples_of(signature: Signature, shapes: Iterable[tuple[Parameter, Shape]]) -> Shape:
    """The operator's own batch axes in one call.

    Args:
        shapes: each tensor's parameter and shape, seeds left out.
    """
    run = signature.batch_run if not signature.loop else None
    leading: list[Shape] = []
    for parameter, shape in shapes:
        axes = parameter.tensor.axes
        has = axes is not None and (signature.loop or (run is not None and _leads(axes, run.name)))
        if axes is not None and has:
            leading.append(tuple(shape[: len(shape) - len(axes.tokens) + (axes.run is not None)]))
    return broadcast(*leading) if leading else ()


def _leads(axes: Axes, name: str | None) -> bool:
    return axes.leading_run is not None and axes.leading_run.name == name


def check_seed(signature: Signature, shape: Shape, samples: Shape) -> None:
    """Refuse a seed that is neither one number nor one for each sample; others may broadcast along its axes.

    Raises:
        ShapeError: it has other axes.
    """
    if shape and broadcast(samples, shape) != tuple(shape):
        raise ShapeError(
            "is neither one seed nor one for each sample", operator=signature.name,
            argument=signature.parameters[signature.seed or 0].name,
            expected="a tensor without axes" + (f", or of shape {tuple(samples)}" if samples else ""),
            got=f"shape {tuple(shape)}", hint="pass an int, or leave it out" if samples else None,
        )  # fmt: skip
