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
from ..baseline import Baseline, Value, baseline, short
from ..case import Case, Linearization
from ..claims import Refused, attempt, refusal, unclaimed
from ..finding import Finding, LeftOut, Skip, Verdict
from ..risk import is_native
from ..variations import nearby, resized
from .layouts import transposed
from .sizes import variants

# -- eager code against a trace of forward and backward, without a compiler ----------------------------------------


def traced(case: Case) -> Iterator[Finding]:
    """Trace with fake tensors, as compilers do, and run what was recorded on other numbers."""
    if case.target.kind not in ("operator", "library"):
        raise Skip("compilers=True compiles it")
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers")
    other = baseline(case.replaced(nearby(case, spread=2.0**-3)))
    used = [i for i, c in enumerate(base.cotangents) if c is not None]

    def run(*tensors: Tensor) -> list[Tensor]:
        count = len(case.primals)
        cotangents: list[Value] = [None] * len(base.cotangents)
        for i, cotangent in zip(used, tensors[count:], strict=True):
            cotangents[i] = cotangent
        outputs, gradients = _run(case, tensors[:count], case.target.function, cotangents)
        return [*outputs, *(g for g in gradients if g is not None)]

    def arguments(of: Baseline) -> list[Tensor]:
        return [t.clone() for t in (*of.case.primals, *of.cotangents) if t is not None]

    with _torch.quiet_compilers():
        try:
            graph = attempt(lambda: make_fx(run, tracing_mode="fake")(*arguments(base)))
        except Refused as why:
            raise Skip(f"refused: {why}") from why
        found = graph(*arguments(other))
    count = len(base.outputs)
    gradients = iter(found[count:])
    row = [None if g is None else next(gradients, None) for g in base.gradients]
    yield from _compare_compiled(other, found[:count], row, "make_fx, called with other numbers")


# -- eager code against compiled code, forward and backward ----------------------------------------------------------


def aot_eager(case: Case) -> Iterator[Finding]:
    """Compile with ``backend="aot_eager"``, which traces forward and backward and generates no code."""
    yield from _compiled(case, "aot_eager")


def inductor(case: Case) -> Iterator[Finding]:
    """Compile with the default backend."""
    yield from _compiled(case, "inductor")


def _compiled(case: Case, backend: str) -> Iterator[Finding]:
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers, and compiled code draws others")
    with quiet_compiler():
        function = torch.compile(case.target.function, backend=backend)
        try:
            found = attempt(lambda: _run(case, case.primals, function, base.cotangents))
        except Refused as why:
            yield from refusal(case, "compile", why)
            return
        yield from unclaimed(case, "compile")
        wrong = list(_compare_compiled(base, *found, f"torch.compile, backend={backend!r}"))
        yield from wrong
        if not wrong:
            yield from _compiled_again(case, function, backend)


def _compiled_again(case: Case, function: Callable[..., Any], backend: str) -> Iterator[Finding]:
    """Call the compiled function at another size, for which it is compiled with dynamic sizes."""
    other = _other_size(case)
    if other is None:
        return
    base = baseline(other)
    with contextlib.suppress(Refused):
        found = attempt(lambda: _run(other, other.primals, function, base.cotangents))
        yield from _compare_compiled(base, *found, f"torch.compile, backend={backend!r}, at a second size")


def _other_size(case: Case) -> Case | None:
    """A case with the largest axis longer by two, if the target takes it."""
    if case.target.kind == "module" or not case.primals:
        return None
    size = max((n for primal in case.primals for n in primal.shape), default=0)
    if not size:
        return None
    larger = resized(case, size, size + 2)
    try:
        larger = larger.replaced(nearby(larger, spread=2.0**-3))
        baseline(larger)
    except Exception:
        return None
    return larger


def _run(
    case: Case, primals: Sequence[Tensor], function: Callable[..., Any], cotangents: Sequence[Value]
) -> tuple[list[Tensor], list[Value]]:
    """Outputs and gradients; the arguments are made outside of what is compiled."""
    leaves = [primal.detach().clone().requires_grad_() for primal in primals]
    args, kwargs = case.arguments(leaves)
    made = case.target.differentiable(function(*args, **kwargs))
    outputs = [leaf if leaf.layout == torch.strided else leaf.to_dense() for leaf in made]
    copies = [None if c is None else c.clone() for c in cotangents]
    found = Linearization(leaves, outputs).pull(copies, retain_graph=False)
    return [output.detach() for output in outputs], found


def _compare_compiled(base: Baseline, outputs: list[Tensor], gradients: list[Value], how: str) -> Iterator[Finding]:
    where = f"{how}; {base.case.label}"
    for difference in base.differing_outputs(outputs):
        yield difference.finding(
            "compiled-output", "An output of compiled code is another than in eager code", where,
            cause="the fake kernel, or something that was traced once and stays as it was", hint=HINT,
        )  # fmt: skip
    for difference in base.differing_gradients(gradients):
        cause, hint = "the backward depends on numbers or sizes that tracing took for constants", HINT
        if difference.found is None:
            cause = "no gradient comes where it is traced: the derivative is not registered with autograd"
            hint = "register it with torch.library.register_autograd, not inside of a kernel for a device"
        title = "A gradient of compiled code is another than in eager code"
        yield difference.finding("compiled-gradient", title, where, cause=cause, hint=hint)


HINT = "compute with tensors only, and keep numbers that depend on them out of ctx"


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


# -- `torch.export`, saved and loaded, against the call --------------------------------------------------------------


def exported(case: Case) -> Iterator[Finding]:
    """Export, save, load, run."""
    base = baseline(case)
    if base.random:
        raise Skip("it draws random numbers")
    with quiet_compiler(), torch.no_grad():
        args, kwargs = case.arguments([primal.clone() for primal in case.primals])
        try:
            found = attempt(lambda: _round_trip(case, args, kwargs))
        except Refused as why:
            yield from refusal(case, "export", why)
            return
    yield from unclaimed(case, "export")
    for difference in base.differing_outputs(found):
        yield difference.finding(
            "exported-output", "The exported program gives another output", f"torch.export; {case.label}",
            cause="a number was taken for a constant when the call was traced", hint="compute with tensors only",
        )  # fmt: skip


class _Module(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.target = case.target

    def forward(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs in one list: a named tuple would have to be registered to be saved."""
        return self.target.differentiable(self.target.function(*args, **kwargs))


def _round_trip(case: Case, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The outputs of the program that was exported, saved and loaded."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(_Module(case), args, kwargs, strict=False), file)
    file.seek(0)
    outputs = torch.export.load(file).module()(*args, **kwargs)
    return [leaf if leaf.layout == torch.strided else leaf.to_dense() for leaf in outputs]


# -- shapes, strides and dtypes without numbers: what compilers are told of a result ---------------------------------


FAKE_HINT = "compute the fake result's shape from the shapes of the inputs, and its strides as the kernel lays it out"


def fake(case: Case) -> Iterator[Finding]:
    """Real and fake calls at several sizes and, for operators, in several layouts."""
    baseline(case)
    if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in case.leaves):
        raise Skip("sparse tensors have no fake ones of their own")
    operator = case.target.kind in ("operator", "library")
    if not operator and is_native(case.target):
        raise Skip("it is given the memory of tensors, and fake ones have none")
    try:
        yield from _compare_fake(case, case.primals, "as given", _torch.fake_call, strides=True)
    except Refused as why:
        yield from refusal(case, "compile", why)
        return
    extra = [("on device meta", case, case.primals, _meta_call)] if operator else []
    laid_out = [transposed(primal) for primal in case.primals]
    if operator and any(primal is not None for primal in laid_out):
        primals = [p if other is None else other for p, other in zip(case.primals, laid_out, strict=True)]
        extra.append(("transposed inputs", case, primals, _torch.fake_call))
    extra += [(what, other, other.primals, _torch.fake_call) for what, other in variants(case) if _takes(other)]
    for what, other, primals, call in extra:
        try:
            found = list(_compare_fake(other, primals, what, call, strides=operator and call is _torch.fake_call))
        except Refused:
            continue
        yield from found
        if found:
            return


FakeCall = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def _compare_fake(case: Case, primals: list[Tensor], what: str, call: FakeCall, *, strides: bool) -> Iterator[Finding]:
    args, kwargs = case.arguments(primals)
    found = _tensors(attempt(partial(call, case.target.function, args, kwargs)))
    with torch.no_grad():
        expected = _tensors(attempt(partial(case.call, [primal.clone() for primal in primals])))
    where = f"{what}; {case.label}"
    if len(found) != len(expected):
        title = f"Fake tensors give {len(found)} outputs, real ones {len(expected)}"
        yield Finding("fake-outputs", Verdict.FAIL, title, where, hint=FAKE_HINT)
        return
    for i, (made, real) in enumerate(zip(found, expected, strict=True)):
        name = "the output" if len(found) == 1 else f"output {i}"
        for code, ours, theirs in _differences(made, real, strides):
            title = f"The fake result has {code} {ours}, the real one {theirs}"
            cause = f"the fake kernel does not compute the {code} as the kernel does, and compilers rely on it"
            yield Finding(f"fake-{code}", Verdict.FAIL, title, f"{name}; {where}", cause=cause, hint=FAKE_HINT)


def _differences(made: Tensor, real: Tensor, strides: bool) -> Iterator[tuple[str, object, object]]:
    if tuple(made.shape) != tuple(real.shape):
        yield "shape", tuple(made.shape), tuple(real.shape)
    elif made.dtype != real.dtype:
        yield "dtype", made.dtype, real.dtype
    elif strides and real.numel() and _strides(made) != _strides(real):
        yield "stride", made.stride(), real.stride()


def _strides(tensor: Tensor) -> list[int]:
    """Return the strides of axes with more than one element; the others mean nothing."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in _torch.pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _meta_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    moved = _torch.pytree.tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    return function(*moved[0], **moved[1])


def _takes(case: Case) -> bool:
    try:
        case.values(nearby(case))
    except Exception:
        return False
    return True


# -- PyTorch's own checks of operators' registrations ----------------------------------------------------------------


MEANING = {
    "test_schema": (
        "The schema is not what the kernel does",
        "say in mutates_args what is written to, and return no views",
    ),
    "test_autograd_registration": (
        "The derivative is registered at a wrong place",
        "use torch.library.register_autograd",
    ),
    "test_faketensor": (
        "The fake kernel gives other shapes, strides or dtypes than the kernel",
        "correct register_fake",
    ),
    "test_aot_dispatch_dynamic": (
        "Traced with dynamic sizes it gives another result",
        "correct register_fake and the backward",
    ),
}


def opcheck(case: Case) -> Iterator[Finding]:
    """Each of its tests."""
    if case.target.inert:
        raise LeftOut("an output is nondifferentiable, and opcheck asks for the gradient of all")
    baseline(case)
    overload = _overload(case)
    if overload is None:
        raise Skip("no operator of torch.library")
    args, kwargs = _arguments(case)
    with quiet_compiler(), _torch.nan_is_equal():
        results: dict[str, Any] = torch.library.opcheck(overload, args, kwargs, raise_exception=False)
    for test, result in results.items():
        if isinstance(result, Exception):
            title, hint = MEANING.get(test, (f"{test} fails", "see torch.library.opcheck"))
            severity = Verdict.PASS if _of_torch(result) else Verdict.FAIL
            yield Finding(
                f"opcheck-{test.removeprefix('test_').replace('_', '-')}", severity, title, f"{test}; {case.label}",
                cause=short(result), hint=hint,
            )  # fmt: skip


def _overload(case: Case) -> Any:
    operator = case.target.operator
    return operator.torch_op if operator is not None else _torch.overload_of(case.target.origin)


def _arguments(case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the operator in `torch.ops`, with primals that require grad."""
    args, kwargs = case.arguments([primal.clone().requires_grad_() for primal in case.primals])
    if case.target.operator is None:
        return args, kwargs
    record = case.target.operator._record
    given = {**dict(zip(record.signature.names, args, strict=False)), **kwargs}
    return tuple(given.get(p.name, p.default) for p in record.signature.parameters), {}


def _of_torch(error: BaseException) -> bool:
    """Tell whether an error is a fault of torch itself, raised outside of the user's code."""
    if not isinstance(error, (LookupError, AttributeError)):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    inside = itertools.dropwhile(lambda name: not name.startswith(_TORCH), files)
    return all(name.startswith((_TORCH, _STANDARD)) for name in inside)


_TORCH, _STANDARD = str(Path(torch.__file__).parent), sysconfig.get_path("stdlib")
