"""`tg.op`: declaring an operator."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

import torch
from torch import Tensor

from ._lower.dispatcher_op import fresh_name
from ._lower.lowering import Lowering
from ._lower.product import weigh
from ._lower.writing_operator import WritingOperator
from ._mesh.cuts import read_axes
from ._op import Op, WritingOp, own_class, require_source
from ._record import Record
from ._spec.accuracy import read_accuracy
from ._spec.reading import read_signature
from ._spec.saved import Saved
from ._spec.trees import register_structures
from ._spec.workspace import Workspace
from .errors import DeclarationError

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar(
    "T", bound="Tensor | tuple[Tensor | list[Tensor] | None, ...] | list[Tensor] | None"
)  # Arrays have overloads of their own.
U = TypeVar("U", bound="Tensor | list[Tensor]")
R_co = TypeVar("R_co", covariant=True)


if TYPE_CHECKING:
    import numpy as np

    from ._build.source import Source

    Arrays = np.ndarray[Any, Any]

    class ArrayOp(Op[P, R_co]):
        """To type checkers an operator whose kernel is annotated with arrays: its callers give tensors.

        No type says "the same parameters with tensors in the place of arrays". Up to three arrays that come first, and
        are given by position, are checked, and so is all that follows them; arguments that are given by name are not.
        """

        @overload
        def __call__(
            self: ArrayOp[Concatenate[Arrays, Arrays, Arrays, Q], R_co],
            a: Tensor, b: Tensor, c: Tensor, /, *args: Q.args, **kwargs: Q.kwargs,
        ) -> R_co: ...  # fmt: skip
        @overload
        def __call__(
            self: ArrayOp[Concatenate[Arrays, Arrays, Q], R_co],
            a: Tensor, b: Tensor, /, *args: Q.args, **kwargs: Q.kwargs,
        ) -> R_co: ...  # fmt: skip
        @overload
        def __call__(
            self: ArrayOp[Concatenate[Arrays, Arrays, Arrays | None, Q], R_co],
            a: Tensor, b: Tensor, c: Tensor | None, /, *args: Q.args, **kwargs: Q.kwargs,
        ) -> R_co: ...  # fmt: skip
        @overload
        def __call__(
            self: ArrayOp[Concatenate[Arrays, Arrays | None, Q], R_co],
            a: Tensor, b: Tensor | None, /, *args: Q.args, **kwargs: Q.kwargs,
        ) -> R_co: ...  # fmt: skip
        @overload
        def __call__(
            self: ArrayOp[Concatenate[Arrays, Q], R_co], a: Tensor, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> R_co: ...
        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
        @overload
        def __call__(self, **named: Any) -> R_co: ...
        @overload
        def __call__(self, a: Tensor, /, **named: Any) -> R_co: ...
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any: ...  # type: ignore[misc]  # Mypy reads no ParamSpec here.


class Declare(Protocol):
    """To type checkers what `op` with options returns: a decorator that keeps the function's types."""

    # What keeps no output overlaps with what does, and is the first of the two.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Workspace, Workspace, P], T], /
    ) -> Op[P, T]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Workspace, P], T], /
    ) -> Op[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, Arrays], /) -> ArrayOp[P, Tensor]: ...
    @overload
    def __call__(self, function: Callable[P, list[Arrays]], /) -> ArrayOp[P, list[Tensor]]: ...
    @overload
    def __call__(self, function: Callable[P, tuple[Arrays, Arrays]], /) -> ArrayOp[P, tuple[Tensor, Tensor]]: ...
    @overload
    def __call__(
        self, function: Callable[P, tuple[Arrays, Arrays, Arrays]], /
    ) -> ArrayOp[P, tuple[Tensor, Tensor, Tensor]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Arrays, Q], None], /
    ) -> ArrayOp[Concatenate[Arrays, Q], None]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Op[P, T]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, tuple[U, Saved[Tensor, Any]]], /) -> Op[P, U]: ...


@overload
def op(function: Callable[Concatenate[Workspace, Workspace, P], T], /) -> Op[P, T]: ...  # type: ignore[overload-overlap]
@overload
def op(function: Callable[Concatenate[Workspace, P], T], /) -> Op[P, T]: ...  # type: ignore[overload-overlap]
@overload
def op(function: Callable[P, Arrays], /) -> ArrayOp[P, Tensor]: ...
@overload
def op(function: Callable[P, list[Arrays]], /) -> ArrayOp[P, list[Tensor]]: ...
@overload
def op(function: Callable[P, tuple[Arrays, Arrays]], /) -> ArrayOp[P, tuple[Tensor, Tensor]]: ...
@overload
def op(function: Callable[P, tuple[Arrays, Arrays, Arrays]], /) -> ArrayOp[P, tuple[Tensor, Tensor, Tensor]]: ...
@overload
def op(function: Callable[Concatenate[Arrays, Q], None], /) -> ArrayOp[Concatenate[Arrays, Q], None]: ...
@overload
def op(function: Callable[P, T], /) -> Op[P, T]: ...  # type: ignore[overload-overlap]
@overload
def op(function: Callable[P, tuple[U, Saved[Tensor, Any]]], /) -> Op[P, U]: ...
@overload
def op(
    *,
    kernel: Source | None = None,
    batch: Literal["loop"] | None = None,
    namespace: str | None = None,
    name: str | None = None,
    autocast: torch.dtype | None = None,
    accuracy: float | None = None,
    parallel: str = "",
    reduction: str = "",
    data_dependent: str = "",
) -> Declare: ...


def op(
    function: Callable[..., Any] | None = None,
    /,
    *,
    kernel: Source | None = None,
    batch: Literal["loop"] | None = None,
    namespace: str | None = None,
    name: str | None = None,
    autocast: torch.dtype | None = None,
    accuracy: float | None = None,
    parallel: str = "",
    reduction: str = "",
    data_dependent: str = "",
) -> Any:
    """Make an operator of a typed function.

    Shapes and dtypes are jaxtyping annotations of ``Tensor`` (the kernel gets tensors) or ``np.ndarray`` (it gets
    read-only arrays that share memory with the tensors). What is annotated ``tg.Mutated[...]`` is written.
    A parameter may be a NamedTuple or a dataclass of such, nested too: PyTorch gets its fields as arguments,
    ``state_velocity``, and the kernel gets a structure of the same class. A dataclass is registered as a pytree, if it
    is none, with numbers in its context. Values of other classes raise an `ArgumentError`, those of subclasses too.
    Results are a tensor, a tuple or `NamedTuple` of them, or a list, ``list[Float[Tensor, "_"]]``, of which `Op.shape`
    gives the length and shapes; one output may be a list.

    Args:
        kernel: what `c`, `cpp` or `cuda` returned: the kernel is in that language, and the function below is its
            annotated stub.
        batch: ``"loop"``: the kernel sees one sample; every tensor argument may carry leading axes, which broadcast.
        namespace: of the operator in `torch.ops`; the defining top-level package by default.
        name: of the operator; the function's by default.
        autocast: dtype to which floating inputs are cast under autocast; by default, and where one is float64, mixed
            ones go to the widest.
        accuracy: to which the values are right, where the kernel has a tolerance of its own (an adaptive solver, a
            quadrature, an iteration): relative to the largest element of each output. `check` compares at it.
        parallel: names of axes, separated by spaces, that every output has, and along which each slice is computed by
            itself, as along batch axes. A mesh may cut them, see `ShardAxis`.
        reduction: names of axes that no output has: the outputs are sums over their slices. A mesh may cut them too;
            floating inputs without the axis, such as a bias, then count once. `check` proves both.
        data_dependent: names of axes that outputs have and no input, separated by spaces: their sizes are known only
            after the call, as that of ``x[x > 0]``. In compiled code one graph serves all of them, `vmap` is refused.
            A bound may follow each, ``"k <= n  m <= 2 * n"``, in axes of inputs, numbers and ``{arguments}``. A result
            that exceeds it raises. A C function gets memory for it, and writes the size through a last ``int64_t *k``.

    Returns:
        The `Op`, which is called like the function.

    Raises:
        DeclarationError: an annotation cannot be read, or contradicts another; a structure cannot be taken apart, or
            the name of a field meets another; `accuracy` is not between 0 and 1; or the axes that `parallel`,
            `reduction` or `data_dependent` names are not such.

    Example:
        >>> @tg.op
        ... def scale(x: Float[Tensor, "..."], factor: float) -> Float[Tensor, "..."]:
        ...     return x * factor
        >>> @scale.vjp("x")
        ... def _(grad, factor):
        ...     return grad * factor
    """
    frames, accuracy = 1, read_accuracy(accuracy, DeclarationError)
    if function is None:

        def decorate(function: Callable[..., Any]) -> Op[..., Any]:
            made = make_op(
                function, batch, namespace, name, autocast, frames=2, source=kernel, data_dependent=data_dependent
            )
            made._record.accuracy = accuracy
            made._record.declare_axes(*read_axes(made._record.signature, parallel, reduction))
            return made

        return decorate
    return make_op(function, batch, namespace, name, autocast, frames=frames + 1)


def make_op(
    function: Callable[..., Any],
    batch: str | None,
    namespace: str | None,
    name: str | None,
    autocast: torch.dtype | None,
    *,
    frames: int,
    source: Source | None = None,
    data_dependent: str = "",
) -> Op[..., Any]:
    """Make an operator of what `function` says.

    Args:
        frames: how many frames above this one the annotations' names are found.
        source: what runs, in C; `function` itself by default.
        data_dependent: the axes whose size is known only after the call.
    """
    if not inspect.isfunction(function):
        raise DeclarationError(
            "an operator is made of a function",
            expected="a function with annotations",
            got=type(function).__name__,
            hint="wrap it\n@tg.op\ndef f(x: ...) -> ...: return g(x)",
        )
    name = name or function.__name__
    if batch not in (None, "loop"):
        raise DeclarationError("unknown batch mode", operator=name, expected="'loop' or None", got=repr(batch))
    namespace = namespace or re.sub(r"\W", "_", (function.__module__ or "__main__").partition(".")[0])
    if not name.isidentifier() or not namespace.isidentifier():
        raise DeclarationError(
            "an operator's name is an identifier", operator=name, expected="letters, digits, _",
            got=f"{namespace}::{name}",
            hint="give tg.op(name=...)",
        )  # fmt: skip
    signature = read_signature(function, name, loop=batch == "loop", frames=frames, data_dependent=data_dependent)
    require_source(source, name)
    if source is None and signature.workspaces:
        raise DeclarationError(
            "only a kernel in C has a workspace", operator=name, argument=signature.workspaces[0][1],
            expected="@tg.op(kernel=tg.c(...))", got="@tg.op", hint="allocate in the function",
        )  # fmt: skip
    if source is not None and signature.numpy:
        raise DeclarationError(
            "a kernel in C takes tensors", operator=name, expected="Tensor", got="np.ndarray",
            hint="annotate with Tensor, or declare a NumPy operator and add @f.kernel(\"cpu\", tg.c(...))",
        )  # fmt: skip
    register_structures(signature)
    record = Record(signature, function, fresh_name(f"{namespace}::{name}", function), autocast, source)
    lowering = Lowering(record, weigh)
    made = _made(Op, function, name, record, lowering)
    if not signature.written:
        return made
    made.__qualname__ = f"{made.__qualname__}.functional"  # Under which it is pickled.
    return _made(WritingOp, function, name, record, lowering, _functional=made, _operator=WritingOperator(lowering))


def _made(
    base: type[Op[..., Any]], function: Callable[..., Any], name: str, record: Record, lowering: Lowering, **parts: Any
) -> Op[..., Any]:
    made = own_class(name, function.__module__, base)()
    functools.update_wrapper(made, function)
    vars(made).update(parts, _record=record, _lowering=lowering)
    return made
