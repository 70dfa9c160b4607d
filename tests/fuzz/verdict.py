"""The comparison of an operator with an expression; programs that stand alone have its text at their end."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

import torchgraft as tg

# -- comparison -------------------------------------------------------------------------------------------------------


def verdict(case: Any, op: Any, truth: Any, dtype: Any, names: Any) -> str:
    """right, refused, skipped, wrong or unnamed, with a text behind it."""
    eager = {
        "compiler": lambda f, **options: f,
        "exporter": lambda f, xs: f,
        "tracer": lambda f, xs: f,
        "linearizer": lambda f, xs: (f(*xs), lambda *vs: torch.func.jvp(f, xs, vs)[1]),
    }
    compiled = {name: names[name] for name in eager if name in names}
    try:
        names.update({name: eager[name] for name in compiled})
        expected = case(truth, dtype)
    except Exception as error:
        return f"skipped: {type(error).__name__}: {error}"
    finally:
        names.update(compiled)
    try:
        got = case(op, dtype)
    except Exception as error:
        if compiled:
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(0)  # a graph that raises leaves levels open
            torch.autograd.forward_ad._current_level = -1
            with contextlib.suppress(RuntimeError):
                torch._C._exit_dual_level(level=0)
            try:
                case(truth, dtype)
            except Exception as plain:
                return f"skipped: {type(plain).__name__}: {plain}"
        zero = all(y is None or not y.detach().any() for y in expected)
        if zero and "does not require grad" in str(error) and not inside(error):
            return "skipped: the derivative of a constant is an error of torch's, or zero"
        kind = "refused" if ours(error) or is_named(error) or raised_by_a_rule(error) else "unnamed"
        return f"{kind}: {type(error).__name__}: {error}"
    finally:
        names.update({name: eager[name] for name in compiled})
    try:
        found = difference(got, expected, lambda: (case(truth, torch.float64), shaken(case, truth, dtype, names)))
    except Exception as error:  # a fake tensor, which an exported program may hold
        found = f"wrong: a result cannot be read: {type(error).__name__}: {error}"
    finally:
        names.update(compiled)
    if found and compiled:
        try:
            plain = difference(case(truth, dtype), expected, lambda: (expected, expected))
        except Exception as error:
            return f"skipped: {type(error).__name__}: {error}"
        if plain:
            return f"skipped: the expression too becomes another when it is compiled: {plain}"
    return found or "right"


def ours(error: Any) -> bool:
    """Whether an error is torchgraft's, bare or wrapped by a compiler."""
    queue, seen = [error], set()
    while queue:
        item = queue.pop()
        if isinstance(item, tg.TorchgraftError):
            return True
        if item is not None and id(item) not in seen:
            seen.add(id(item))
            queue += [item.__cause__, item.__context__]
    return False


def is_named(error: Any) -> bool:
    """Whether the text of an error, or a note to it, names the operator."""
    return any("fuzzed" in text for text in (str(error), *getattr(error, "__notes__", ())))


def raised_by_a_rule(error: Any) -> bool:
    """Whether torch lacks support for a step of a user's kernel or rule, whose frame bears the operator's name."""
    folder, last, trace = tg.__file__.rpartition("/")[0], "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        handed_on = code.co_name == "__torch_function__"
        ours = code.co_filename.startswith((folder, "<torchgraft")) and not handed_on
        last = code.co_name if ours or code.co_name.startswith("fuzzed") else last
        trace = trace.tb_next
    lacks = ("Batching rule not implemented", "select(): index 0 out of range")  # the second adds 0-d tensors
    return last.startswith("fuzzed") and any(text in str(error) for text in lacks)


def inside(error: Any) -> bool:
    """Whether torchgraft's own code was running."""
    folder, trace = tg.__file__.rpartition("/")[0], error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(folder):
        trace = trace.tb_next
    return trace is not None


def depends(result: Any) -> bool:
    """Whether the gradient of a result with respect to any leaf differs from zero."""
    leaves, queue, seen = [], [result.grad_fn], set()
    while queue:
        node = queue.pop()
        if node is not None and node not in seen:
            seen.add(node)
            leaves += [node.variable] if hasattr(node, "variable") else []
            queue += [following for following, _ in node.next_functions]
    real = torch.view_as_real(result) if result.is_complex() else result
    weights = torch.linspace(0.5, 1, real.numel(), dtype=real.dtype).reshape(real.shape)
    try:
        grads = torch.autograd.grad((real * weights).sum(), leaves, allow_unused=True, retain_graph=True)
    except RuntimeError:  # a backward pass has freed the graph, or torch cannot differentiate again: nobody can tell
        return False
    return any(grad is not None and bool(grad.any()) for grad in grads)


def shaken(case: Any, truth: Any, dtype: Any, names: Any) -> Any:
    """The expression in double precision, of inputs that are off by rounding errors."""
    tensor, eps = names["tensor"], torch.finfo(dtype).eps

    def rounded(shape: Any, dtype: Any, seed: Any) -> Any:
        made = tensor(shape, dtype, seed)
        signs = torch.linspace(-9, 9, made.numel(), dtype=torch.float64).sin().sign()
        return made * (1 + eps * signs.reshape(made.shape))

    names["tensor"] = rounded
    try:
        return case(truth, torch.float64)
    finally:
        names["tensor"] = tensor


def difference(got: Any, expected: Any, exact: Any) -> str | None:
    """What is wrong, in words; None if nothing is."""
    if len(got) != len(expected):
        return f"wrong: {len(got)} results in the place of {len(expected)}"
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a is None or b is None:
            other = b if a is None else a
            if other is not None and other.detach().abs().sum() != 0:
                return f"wrong: result {i}: {'None for a derivative' if a is None else 'a derivative for None'}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"wrong: result {i}: {tuple(a.shape)} {a.dtype} in the place of {tuple(b.shape)} {b.dtype}"
        if a.requires_grad != b.requires_grad and depends(a if a.requires_grad else b):
            return f"wrong: result {i}: detached" if b.requires_grad else f"wrong: result {i}: a derivative too many"
        x, y = a.detach(), b.detach()
        if not torch.allclose(x, y, rtol=1e-9, atol=1e-10, equal_nan=True):
            near, moved = (made[i].detach() for made in exact())
            if not torch.isfinite(near).all() or near.abs().max() > 1e8:
                return "skipped: the numbers grow beyond comparison"
            if y.dtype is near.dtype and not torch.equal(near.nan_to_num(), y.nan_to_num()):
                return "skipped: the expression is not the same twice"
            eps = torch.finfo(b.dtype).eps
            scale = eps * (1 + near.abs().max()) + (near - moved).abs().max() + (near - y).abs().max()
            if not ((x - near).abs() <= 100 * scale).all():
                return f"wrong: result {i}: {x} in the place of {y}"
    return None
