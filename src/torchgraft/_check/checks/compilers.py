"""Compilers and exporters give what eager code gives."""

from __future__ import annotations

import contextlib
import io
import itertools
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from ... import _torch
from ..baseline import Baseline, Difference, Value, baseline
from ..case import Case, Linearization
from ..finding import Finding, LeftOut, Skip, Verdict
from ..options import options
from ..variations import nearby, resized, values_of
from .layouts import transposed
from .sizes import variants
from .state import OTHERS
from .ways import (
    Made,
    Refused,
    Words,
    attempt,
    compared,
    may_refuse,
    placed,
    require_dense,
    require_fixed,
    tensors,
    used,
)  # fmt: skip

# -- eager code against a trace, against compiled code, and against an exported program -------------------------------

HINT = "compute with tensors only, and keep numbers that depend on them out of ctx"
COMPILED_OUTPUT = Words(
    "compiled-output", "An output of compiled code is another than in eager code",
    "the fake kernel, or something that was traced once and stays as it was", HINT,
)  # fmt: skip
EXPORTED_OUTPUT = Words(
    "exported-output", "The exported program gives another output",
    "a number was taken for a constant when the call was traced", "compute with tensors only",
)  # fmt: skip


def _compiled_gradient(difference: Difference) -> Words:
    cause, hint = "the backward depends on numbers or sizes that tracing took for constants", HINT
    if difference.found is None:
        cause = "no gradient comes where it is traced: the derivative is not registered with autograd"
        hint = "register it with torch.library.register_autograd, not inside of a kernel for a device"
    return Words("compiled-gradient", "A gradient of compiled code is another than in eager code", cause, hint)


def _runner(case: Case, function: Callable[..., Any]) -> Callable[[Sequence[Tensor], Sequence[Value]], Made]:
    """Make a function that returns outputs and gradients for all tensors of a call, and cotangents.

    Those that have no derivative, such as indices, must be given too: a trace takes no others.
    """
    primals = case.primals
    call, places = case.arguments(primals), {id(primal): i for i, primal in enumerate(primals)}

    def run(tensors: Sequence[Tensor], cotangents: Sequence[Value]) -> Made:
        leaves = [primal.detach().clone().requires_grad_() for primal in tensors[: len(primals)]]
        data = iter(tensors[len(primals) :])

        def given(tensor: Tensor) -> Tensor:
            return leaves[places[id(tensor)]] if id(tensor) in places else next(data)

        args, kwargs = _torch.pytree.tree_map_only(Tensor, given, call)
        outputs = _dense(case.target.differentiable(function(*args, **kwargs)))
        copies = [None if c is None else c.clone() for c in cotangents]
        found = Linearization(leaves, outputs).vjp(copies, retain_graph=False)
        return [output.detach() for output in outputs], found

    return run


def _tensors(case: Case) -> list[Tensor]:
    """The primals, then the other tensors of a call."""
    rows = zip(case.leaf_names, case.leaves, strict=True)
    data = [leaf for name, leaf in rows if isinstance(leaf, Tensor) and name not in case.names]
    return [tensor.clone() for tensor in (*case.primals, *data)]


def _dense(outputs: Sequence[Tensor]) -> list[Tensor]:
    return [output if output.layout == torch.strided else output.to_dense() for output in outputs]


def traced(case: Case) -> Iterator[Finding]:
    """Trace with fake tensors, as compilers do, and run what was recorded on other numbers."""
    require_operator(case)
    base, count = baseline(case), len(_tensors(case))
    require_fixed(base)
    other = baseline(case.replaced(nearby(case, spread=2.0**-3)))

    run = _runner(case, case.target.function)

    def flat(*tensors: Tensor) -> list[Tensor]:
        outputs, gradients = run(tensors[:count], placed(base, tensors[count:]))
        return [tensor for tensor in (*outputs, *gradients) if tensor is not None]

    def arguments(of: Baseline) -> list[Tensor]:
        return [*_tensors(of.case), *(c.clone() for c in of.cotangents if c is not None)]

    with _torch.quiet_compilers():
        try:
            graph = attempt(lambda: make_fx(flat, tracing_mode="fake")(*arguments(base)))
        except Refused as why:
            raise Skip(f"refused: {why}") from why
        found = graph(*arguments(other))
    gradients = iter(found[len(base.outputs) :])
    row = [None if g is None else next(gradients, None) for g in base.gradients]
    yield from compared(
        other, "make_fx, called with other numbers", lambda: (found[: len(base.outputs)], row),
        output=COMPILED_OUTPUT, gradient=_compiled_gradient,
    )  # fmt: skip
    yield from _linearized(base)


def _linearized(base: Baseline) -> Iterator[Finding]:
    """Compare gradients of the linear map that `torch.func.linearize` makes; to refuse is right."""
    case, places = base.case, used(base)
    given = [cotangent for cotangent in base.cotangents if cotangent is not None]

    def outputs(*primals: Tensor) -> tuple[Tensor, ...]:
        made = case.outputs(primals)
        return tuple(made[i] for i in places)

    with contextlib.suppress(Exception):
        linear = torch.func.linearize(outputs, *case.primals)[1]
        moves = [primal.clone().requires_grad_() for primal in case.primals]
        found = torch.autograd.grad(linear(*moves), moves, given, allow_unused=True)
        yield from compared(base, "torch.func.linearize", lambda: ((), found), gradient=LINEARIZED)


LINEARIZED = Words(
    "linearized-gradient", "The gradient of the linearized map is another than that of the function",
    "the jvp is not of the same function as the backward, or is not linear in the tangent; or a rule writes into a "
    "part of a tensor of its own, as in w[0] = 1, which torch.func.linearize loses",
    "write no tensor in part: torch.cat, torch.where and torch.nn.functional.pad make a new one",
)  # fmt: skip


@may_refuse("compile")
def compiled(case: Case, backend: str) -> Iterator[Finding]:
    """Compile forward and backward; then call at another size, for which it is compiled with dynamic sizes.

    The backend ``"aot_eager"`` traces them and generates no code.
    """
    base = baseline(case)
    require_fixed(base, ", and compiled code draws others")
    with quiet_compiler():
        function = torch.compile(case.target.function, backend=backend)

        def compare(base: Baseline, at: str) -> Iterator[Finding]:
            how = f"torch.compile, backend={backend!r}{at}"
            run = _runner(base.case, function)
            found = attempt(lambda: run(_tensors(base.case), base.cotangents))
            yield from compared(base, how, lambda: found, output=COMPILED_OUTPUT, gradient=_compiled_gradient)

        wrong = list(compare(base, ""))
        yield from wrong
        other = None if wrong else _other_size(case)
        if other is not None:
            with contextlib.suppress(Refused):
                yield from compare(other, ", at a second size")


def _other_size(case: Case) -> Baseline | None:
    """The baseline of a case with the largest axis longer by two, if the target takes it."""
    size = max((n for primal in case.primals for n in primal.shape), default=0)
    if case.target.kind != "module" and size:
        with contextlib.suppress(Exception):
            larger = resized(case, size, size + 2)
            return baseline(larger.replaced(nearby(larger, spread=2.0**-3)))
    return None


@contextlib.contextmanager
def quiet_compiler() -> Iterator[None]:
    """Within, compilers begin without a memory of what they compiled, and say nothing; nor do they keep any."""
    torch.compiler.reset()
    try:
        with _torch.quiet_compilers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.compiler.reset()


@may_refuse("export")
def exported(case: Case) -> Iterator[Finding]:
    """Export, save, load, run."""
    base = baseline(case)
    require_fixed(base)
    args, kwargs = case.arguments([primal.clone() for primal in case.primals])

    def round_trip() -> list[Tensor]:
        file = io.BytesIO()
        torch.export.save(torch.export.export(_Module(case), args, kwargs, strict=False), file)
        file.seek(0)
        return _dense(torch.export.load(file).module()(*args, **kwargs))

    with quiet_compiler(), torch.no_grad():
        found = attempt(round_trip)
    yield from compared(base, "torch.export", lambda: (found, ()), output=EXPORTED_OUTPUT)


class _Module(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.target = case.target

    def forward(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs in one list: a named tuple would have to be registered to be saved."""
        return self.target.differentiable(self.target.function(*args, **kwargs))


# -- shapes, strides and dtypes without numbers: what compilers are told of a result ---------------------------------

FAKE_HINT = "compute the fake result's shape from the shapes of the inputs, and its strides as the kernel lays it out"

FakeCall = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def require_operator(case: Case) -> None:
    """Skip what has no kernel of its own for fake tensors, which take the import of a compiler."""
    if case.target.kind not in ("operator", "library"):
        raise Skip("compilers=True compiles it")


@may_refuse("compile", wholly=False)
def fake(case: Case) -> Iterator[Finding]:
    """Real and fake calls of an operator at several sizes, in several layouts, and with several options."""
    require_operator(case)
    baseline(case)
    require_dense(case, "sparse tensors have no fake ones of their own")
    fake_call = partial(_torch.fake_call, symbols=bool(case.target.late))
    yield from _compare_fake(case, case.primals, "as given", fake_call, strides=True)
    extra = [("on device meta", case, case.primals, _meta_call)]
    laid_out = [transposed(primal) for primal in case.primals]
    if any(primal is not None for primal in laid_out):
        primals = [p if other is None else other for p, other in zip(case.primals, laid_out, strict=True)]
        extra.append(("transposed inputs", case, primals, fake_call))
    changed = ((variant.what, variant.case) for variant in variants(case))
    for what, other in (*changed, *itertools.islice(options(case), OTHERS)):
        with contextlib.suppress(Exception):  # The target takes no such size or option.
            other.values(nearby(other))
            extra.append((what, other, other.primals, fake_call))
    for what, other, primals, call in extra:
        with contextlib.suppress(Refused):
            strides = call is fake_call
            found = list(_compare_fake(other, primals, what, call, strides=strides))
            yield from found
            if found:
                return


def _compare_fake(case: Case, primals: list[Tensor], what: str, call: FakeCall, *, strides: bool) -> Iterator[Finding]:
    args, kwargs = case.arguments(primals)
    found = tensors(attempt(partial(call, case.target.function, args, kwargs)))
    with torch.no_grad():
        expected = tensors(attempt(partial(case.call, [primal.clone() for primal in primals])))
    where = f"{what}; {case.label}"
    if len(found) != len(expected):
        title = f"Fake tensors give {len(found)} outputs, real ones {len(expected)}"
        yield Words("fake-outputs", title, hint=FAKE_HINT).at(where)
        return
    for i, (made, real) in enumerate(zip(found, expected, strict=True)):
        name = "the output" if len(found) == 1 else f"output {i}"
        sizes = zip(made.shape, real.shape, strict=False)  # A symbol stands for a size that only the real call knows.
        shape = (*(size if _is_symbol(n) else n for n, size in sizes), *made.shape[real.dim() :])
        looks = {"shape": (shape, tuple(real.shape)), "dtype": (made.dtype, real.dtype)}
        known = not any(map(_is_symbol, made.shape))
        if strides and known and real.numel() and made.shape == real.shape:
            # Strides of axes with one element or none mean nothing.
            means = [size > 1 for size in real.shape]
            if any(m and a != b for m, a, b in zip(means, made.stride(), real.stride(), strict=True)):
                looks["stride"] = (made.stride(), real.stride())
        for code, (ours, theirs) in [pair for pair in looks.items() if pair[1][0] != pair[1][1]][:1]:
            title = f"The fake result has {code} {ours}, the real one {theirs}"
            cause = f"the fake kernel does not compute the {code} as the kernel does, and compilers rely on it"
            yield Words(f"fake-{code}", title, cause, FAKE_HINT).at(f"{name}; {where}")


def _is_symbol(size: object) -> bool:
    return isinstance(size, torch.SymInt)


def _meta_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = _torch.pytree.tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    return function(*args, **kwargs)


# -- PyTorch's own checks of operators' registrations ----------------------------------------------------------------

MEANING = {
    "test_schema": (
        "The schema is not what the kernel does", "say in mutates_args what is written to, and return no views"
    ),
    "test_autograd_registration": (
        "The derivative is registered at a wrong place", "use torch.library.register_autograd"
    ),
    "test_faketensor": (
        "The fake kernel gives other shapes, strides or dtypes than the kernel", "correct register_fake"
    ),
    "test_aot_dispatch_dynamic": (
        "Traced with dynamic sizes it gives another result", "correct register_fake and the backward"
    ),
}  # fmt: skip


def opcheck(case: Case) -> Iterator[Finding]:
    """Each of its tests."""
    if case.target.has_inert:
        raise LeftOut("an output is nondifferentiable, and opcheck asks for the gradient of all")
    baseline(case)
    args, kwargs = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    operator = case.target.operator
    if operator is not None:  # Operators in `torch.ops` take all arguments by position.
        args, kwargs = tuple(values_of(operator._record, args, kwargs)), {}
    overload = _torch.overload_of(case.target.origin) if operator is None else operator.torch_op
    if overload is None:
        raise Skip("no operator of torch.library")
    with quiet_compiler(), _torch.nan_is_equal():
        results: dict[str, Any] = torch.library.opcheck(overload, args, kwargs, raise_exception=False)
    for test, result in results.items():
        if isinstance(result, Exception):
            title, hint = MEANING.get(test, (f"{test} fails", "see torch.library.opcheck"))
            severity = Verdict.PASS if _of_torch(result) else Verdict.FAIL
            code = f"opcheck-{test.removeprefix('test_').replace('_', '-')}"
            yield Words(code, title, "", hint, severity).at(f"{test}; {case.label}", result)


def _of_torch(error: BaseException) -> bool:
    """Tell whether an error is a fault of torch itself, raised outside of the user's code."""
    if not isinstance(error, (LookupError, AttributeError)):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    inside = itertools.dropwhile(lambda name: not name.startswith(_TORCH), files)
    return all(name.startswith((_TORCH, _STANDARD)) for name in inside)


_TORCH, _STANDARD = str(Path(torch.__file__).parent), sysconfig.get_path("stdlib")
