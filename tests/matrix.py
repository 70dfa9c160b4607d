"""The matrix of operators and transforms: how one cell is judged, what each is expected to be, and its documentation.

`python -m tests.matrix` writes `docs/transforms.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

import torchgraft as tg

from .cases import CASES, Case
from .transforms import TRANSFORMS, Subject, Transform

YES, REFUSED, ABSENT = "yes", "refused", "n/a"
MATRIX = [case for case in CASES if case.in_matrix]
DOCUMENT = Path(__file__).parents[1] / "docs" / "transforms.md"
PINNED_TORCH = "2.13"
HEAD = """\
# Operators and transforms

This page says what becomes of {operators} small operators (`tests/operators.py`, `examples/`) under {transforms}
transforms of torch {torch}. Together the operators use every feature of a declaration. `make test-all` tests
every cell.

- **yes**: values, shapes, dtypes and recording equal those of the same function in plain torch.
- **refused**: raises an error of torchgraft's that names the operator and what to add.
- **n/a**: plain torch itself cannot do it with its own function.

There is no fourth answer. Beside the table, `make fuzz` draws declarations (inputs, axes, outputs, kernels and rules in
torch, NumPy and C, made of functions whose derivatives are known) and stacks of up to four transforms. It compares each
with the same expression in plain torch: value, structure, dtype, and whether a gradient is there. What fails is shrunk
to a program that stands alone. The tests run it for a while. `tests/fuzz/refusals.md` lists what is refused although
the rules suffice.

Operators that behave alike share a column:
"""

# What plain torch itself cannot do with the reference: by transform, the cases.
_COMPLEX_INPUTS = {"complex_exp", "modulate", "rfft2_adjoint"}
_COMPLEX_OUTPUTS = {"complex_exp", "modulate", "spectrum", "rfft2"}
_COMPLEX = _COMPLEX_INPUTS | _COMPLEX_OUTPUTS
NOT_IN_TORCH: dict[str, set[str]] = {
    "jacrev": _COMPLEX,
    "jacfwd": _COMPLEX,
    "hessian": _COMPLEX_INPUTS,
    "jacfwd(jacfwd)": _COMPLEX,
    "jacrev(jacrev)": _COMPLEX,
    "jacrev(jacfwd)": _COMPLEX,
    "jacfwd(jacrev(jacfwd))": _COMPLEX_INPUTS,
    "jacfwd(jacfwd(jacfwd))": _COMPLEX_INPUTS,
    "vmap(jacrev)": _COMPLEX,
    "vmap(jacfwd)": _COMPLEX,
    "vmap(hessian)": _COMPLEX_INPUTS,
    "hessian(vmap)": _COMPLEX_INPUTS,
    "functional.jacobian": _COMPLEX_OUTPUTS,
    "functional.hessian": _COMPLEX_INPUTS,
    "functional.hessian, outer forward-mode": _COMPLEX_OUTPUTS,
    "a wrapper subclass, backward": _COMPLEX_INPUTS,
    "compile(jacfwd)": _COMPLEX,
    "compile(hessian)": _COMPLEX_INPUTS,
    "hessian(compile)": _COMPLEX_INPUTS,
    "jacfwd(compile)": _COMPLEX,
}
# Nor what asks for the sizes of results that are known only after the call.
_SIZES = (
    "vmap, each subset of inputs, in_dims 0, 1, -1", "vmap(vmap), each input in either", "vmap(grad)", "grad(vmap)",
    "vmap(jvp)", "jvp(vmap)", "vmap(jacrev)", "vmap(jacfwd)", "vmap(hessian)", "hessian(vmap)", "vmap(vmap(grad))",
    "functional.hessian, outer forward-mode", "compile(jvp)", "compile(forward_ad.dual_level)", "compile(jacfwd)",
    "compile(hessian)", "compile(vmap)", "compile(vmap(grad))", "backward of compile(vmap)", "vmap(compile)",
    "fake tensors", "fake tensors, backward", "meta tensors", "a counter of operations, vmap(grad)",
)  # fmt: skip
NOT_IN_TORCH |= {name: NOT_IN_TORCH.get(name, set()) | {"chosen"} for name in _SIZES}


def compile_(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """What `Subject.compiler` is for compiled cells."""
    return torch.compile(function, **{"backend": "aot_eager", "fullgraph": True, **options})


def eager(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """What `Subject.compiler` is where only values are wanted."""
    return function


def judge(case: Case, transform: Transform) -> str:
    """What a cell is; a result that is neither right nor refused raises.

    The reference runs in eager code. Only where the operator raises is the reference put through the compiler too, to
    see whether plain torch can do it.
    """
    try:
        got = _run(case, transform, case.call, compile_)
    except Exception as error:
        try:
            _run(case, transform, case.reference, compile_)
        except Exception:
            return ABSENT
        if is_ours(error):
            return REFUSED
        raise
    try:
        expected = _run(case, transform, case.reference, eager)
    except Exception:
        return ABSENT
    assert_same(got, expected)
    return YES


def _run(case: Case, transform: Transform, op: Callable[..., Any], compiler: Callable[..., Any]) -> Any:
    if transform.slow and compiler is compile_:
        torch._dynamo.reset()
    return transform.run(Subject.of(case, op, compiler))


def is_ours(error: BaseException | None) -> bool:
    """Whether an error is torchgraft's, bare or wrapped by a compiler."""
    seen: set[int] = set()
    queue = [error]
    while queue:
        item = queue.pop()
        if item is None or id(item) in seen:
            continue
        if isinstance(item, tg.TorchgraftError) or _quotes_ours(item):
            return True
        seen.add(id(item))
        queue += [item.__cause__, item.__context__]
    return False


def _quotes_ours(error: BaseException) -> bool:
    """Whether Dynamo of torch 2.15 only quotes an error that fake tensors met."""
    quoted = (
        re.search(r"got (\w+): operator \\?'", str(error)) if type(error).__module__ == "torch._dynamo.exc" else None
    )
    return quoted is not None and issubclass(getattr(tg, quoted[1], Exception), tg.TorchgraftError)


def assert_same(got: Any, expected: Any) -> None:
    """Equal structure, shapes, dtypes, values, and recording: a detached result is not the same."""
    got_leaves, _ = tree_flatten(got)
    leaves, _ = tree_flatten(expected)
    assert len(got_leaves) == len(leaves), f"{len(got_leaves)} results in the place of {len(leaves)}"
    for a, b in zip(got_leaves, leaves, strict=True):
        if not isinstance(b, Tensor):
            assert a == b or abs(a - b) < 1e-9
            continue
        assert isinstance(a, Tensor), f"{a} in the place of a tensor of shape {tuple(b.shape)}"
        assert a.requires_grad == b.requires_grad, "detached" if b.requires_grad else "recording"
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9, equal_nan=False)


def expected(case: Case, transform: Transform) -> str:
    """What the declaration of the operator says about a cell."""
    if case.name in NOT_IN_TORCH.get(transform.name, ()):
        return ABSENT
    return REFUSED if transform.needs & case.cannot else YES


def is_pinned_torch() -> bool:
    """Whether this is the torch for which the documentation is written."""
    return torch.__version__.startswith(PINNED_TORCH)


def render() -> str:
    """The documentation of the matrix: one column for all operators that behave alike."""
    columns: dict[tuple[str, ...], list[Case]] = {}
    for case in MATRIX:
        columns.setdefault(tuple(expected(case, transform) for transform in TRANSFORMS), []).append(case)
    lines = [HEAD.format(operators=len(MATRIX), transforms=len(TRANSFORMS), torch=PINNED_TORCH)]
    titles = [chr(ord("A") + i) for i in range(len(columns))]
    for title, cases in zip(titles, columns.values(), strict=True):
        cannot = sorted(set().union(*(case.cannot for case in cases)))
        why = f" - without {'; '.join(cannot)}" if cannot else ""
        lines.append(f"- **{title}**: {', '.join(f'`{case.name}`' for case in cases)}{why}")
    group = None
    for i, transform in enumerate(TRANSFORMS):
        if transform.group != group:
            group = transform.group
            lines += ["", f"## {group}", "", f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
        lines.append(f"| {transform.name} | {' | '.join(column[i] for column in columns)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
    print(f"wrote {DOCUMENT}")
