"""The context of a call, which user code knows as `ctx` or `self`: what it saves, and says about its tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from .._lower.refuse import explain_saved
from ..errors import TorchgraftError, UnsupportedError
from .dialect import Dialect


def versions(tensors: Iterable[Tensor | None]) -> list[int] | None:
    """Count how often each tensor was written to; None where that is not counted."""
    try:
        return [t._version for t in tensors if t is not None]
    except RuntimeError:  # Inference tensors count no versions.
        return None


class Marks:
    """Methods of both kinds of context that PyTorch's does not have."""

    __slots__ = ()

    def mark_constant(self, *tensors: Tensor) -> None:
        """Say that tensors are constant on purpose.

        In `forward`: a saved tensor that does not depend on the inputs, such as a random mask. In `backward`: a
        gradient whose own derivative is right as it is computed, even where that is detached from the inputs.
        """
        # Tensors are told apart by identity, and kept so that no other one can take over an address.
        vars(self).setdefault("_graft_constants", []).extend(tensors)


def take_constants(ctx: Any) -> list[Tensor]:
    """The tensors marked since this was last asked."""
    constants: list[Tensor] = vars(ctx).pop("_graft_constants", [])
    return constants


class NodeContext(Marks):
    """The context that is an autograd node."""

    _graft_attributes: Sequence[Any] = ()

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The name of `saved_tensors` before PyTorch 0.4."""
        node: Any = self
        saved: tuple[Any, ...] = node.saved_tensors
        return saved


@contextlib.contextmanager
def handing_out(ctx: Any, tell: Callable[[Iterable[Any]], None]) -> Iterator[None]:
    """Within, `tell` hears of what a context hands out: some of it can be had but once, or is made anew each time."""
    if isinstance(ctx, Recorder):
        tell((*ctx.saved_tensors, *ctx.saved_for_forward))
        yield
        return
    if not isinstance(ctx, _Telling):  # It stays so: who differentiates twice will do so again.
        ctx.__class__ = _telling(type(ctx))
    before, ctx._graft_tell = ctx._graft_tell, tell
    try:
        yield
    finally:
        ctx._graft_tell = before


class _Telling(NodeContext):
    """A context that tells what it hands out."""

    _graft_tell: Callable[[Iterable[Any]], None] | None = None

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors of `save_for_backward`."""
        found: tuple[Any, ...] = super().saved_tensors  # type: ignore[misc] # Torch's class stands behind.
        if self._graft_tell is not None:
            self._graft_tell(found)
        return found

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The name of `saved_tensors` before PyTorch 0.4."""
        return self.saved_tensors


def _telling(kind: Any) -> type[Any]:
    """The class of contexts that tell, made once for each class and kept there."""
    if "_graft_telling" not in vars(kind):
        kind._graft_telling = type(kind.__name__, (_Telling, kind), {"__module__": kind.__module__})
    made: type[Any] = kind._graft_telling
    return made


class _Limit(NamedTuple):
    """A limit of code for eager tensors under transforms and tracers, by the words in which torch says so."""

    words: tuple[str, ...]
    problem: str
    expected: str
    hint: str


_LIMITS = (
    _Limit(
        ("doesn't have storage", ".numpy() is not supported", "numpy() on Tensor"),
        "leaves torch under a transform, whose tensors hold no numbers of their own",
        "torch functions, or operators and Functions made of arrays, in a derivative",
        "make an operator of the array code (@tg.op on np.ndarray), and call that",
    ),
    _Limit(
        ("autograd.Function with functorch transforms", "does not have vmap support", "custom_function_call"),
        "calls a Function of torch's class, which does not go under this transform",
        "operators, or Functions of torchgraft, under a transform",
        "change the base class of that one to tg.Function, or adopt it too",
    ),
    _Limit(
        ("vmap: It looks like", "DataDependent", "data-dependent", "DynamicOutputShape"),
        "lets Python decide by the numbers in a tensor, which a transform or a tracer does not show",
        "torch.where, or eager code",
        "compute both branches, and choose: torch.where(x > 0, one, other)",
    ),
)


def _limit_of(text: str) -> _Limit | None:
    return next((limit for limit in _LIMITS if any(words in text for words in limit.words)), None)


_CHANGED = "change a copy (x = x + 1 instead of x += 1), or save a copy: ctx.save_for_backward(x.clone())"


def explained(dialect: Dialect, error: RuntimeError, where: str | None = None) -> RuntimeError:
    """An error of backward; in words of our own, where torch's are about something else than the mistake.

    Args:
        dialect: of the Function.
        error: the error.
        where: the method that raised it; that for reverse mode by default.
    """
    text = str(error)
    if isinstance(error, TorchgraftError):
        return error
    limit = _limit_of(f"{type(error).__name__}: {text}")
    if limit is None:
        return explain_saved(f"{dialect.name}.{dialect.reverse}", error, _CHANGED)
    made = UnsupportedError(
        limit.problem,
        operator=f"{dialect.name}.{dialect.reverse}" if where is None else f"{dialect.name}.{where}",
        expected=limit.expected,
        got=(text.strip().splitlines() or [type(error).__name__])[0].partition(". ")[0],
        hint=limit.hint,
    )
    made.__cause__ = error
    return made


class Recorder(Marks):
    """A context that is no node: it only remembers what it was told, for those who make nodes later.

    Attributes:
        to_save: what was given to `save_for_backward`.
        saved_for_forward: what was given to `save_for_forward`.
        dirty_tensors: what was given to `mark_dirty`.
        non_differentiable: what was given to `mark_non_differentiable`.
        materialize: what was given to `set_materialize_grads`.
        saved_tensors: what `backward` or `jvp` is to find.
        needs_input_grad: which arguments need a gradient.
    """

    __slots__ = (
        "__dict__", "dirty_tensors", "materialize", "needs_input_grad", "non_differentiable", "saved_for_forward",
        "saved_tensors", "to_save",
    )  # fmt: skip

    def __init__(self, needs_input_grad: tuple[bool, ...] = ()) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()
        self.saved_for_forward: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self.materialize = True
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `backward`."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs were changed in place."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no derivative."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether undefined gradients come as zeros; else they come as None."""
        self.materialize = value

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The name of `saved_tensors` before PyTorch 0.4."""
        return self.saved_tensors


def recorder_class(dialect: Dialect) -> Callable[..., Recorder]:
    """The class of recorders for a Function; where its methods take ``self``, recorders are instances of it."""
    if dialect.kind != "instance":
        return Recorder
    return type(dialect.name, (Recorder, dialect.function), {"__module__": dialect.function.__module__})


def node_context_class(dialect: Dialect, base: type[Any], apply: Callable[..., Any]) -> type[Any]:
    """The class of a Function's contexts that are nodes.

    Args:
        dialect: of the Function.
        base: the class that torch has made.
        apply: what the engine calls with the cotangents; that of torch would look for it in 1 us.
    """
    bases = (NodeContext, base, dialect.function) if dialect.kind == "instance" else (NodeContext, base)
    body = {"apply": apply, "__module__": dialect.function.__module__}
    if dialect.kind == "instance":
        body["__init__"] = lambda self: None  # The state of an instance is copied, not made anew.
    return type(base.__name__, bases, body)
