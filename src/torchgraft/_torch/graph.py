"""The graph that autograd has recorded, and the pass through it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import _C, Tensor

from .levels import functorch_active

hooks_on_saved: Callable[[bool], Any] = _C._autograd._top_saved_tensors_default_hooks
"""Who packs and unpacks saved tensors (checkpointing, offloading), or None; its argument ignores disabled hooks."""


@contextlib.contextmanager
def hooks_on_saved_off() -> Iterator[None]:
    """Within, nobody packs and unpacks saved tensors, as `torch.func` has it while it records.

    A graph that is recorded and differentiated at once belongs to nobody else: a hook that packs by a copy would cut
    its derivative, and checkpointing would run its whole region again in the middle of it.
    """
    switch: Callable[[bool], bool] = _C._autograd._saved_tensors_hooks_set_tracing
    before = switch(True)
    try:
        yield
    finally:
        switch(before)


def is_same_leaf(one: Tensor, other: Tensor) -> bool:
    """Return True if two tensors stand for one leaf: what hooks for saved tensors unpack is another object."""
    if functorch_active() or not (one.requires_grad and other.requires_grad and one.is_leaf and other.is_leaf):
        return False
    edge = torch.autograd.graph.get_gradient_edge
    with torch.enable_grad():  # To ask a leaf for its edge is to record a view of it.
        return bool(edge(one).node is edge(other).node)


def engine_wants(node: Any, index: int) -> bool:
    """Return True if the backward pass that is running will use the gradient of `node`'s input number `index`."""
    successor = node.next_functions[index][0]
    if successor is None:
        return False
    try:
        return bool(_C._will_engine_execute_node(successor))
    except (RuntimeError, AttributeError):  # It is outside a backward pass, or a leaf that `autograd.grad` captured.
        return True


def nodes_in_graph(outputs: Iterable[Tensor]) -> list[Any]:
    """The autograd nodes that outputs depend on."""
    found: dict[Any, None] = {}
    waiting = [output.grad_fn for output in outputs]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = None
            waiting += [next_node for next_node, _ in node.next_functions]
    return list(found)


def functions_in_graph(outputs: Iterable[Tensor]) -> list[Any]:
    """The classes of `autograd.Function` that took part in a forward pass."""
    classes = (getattr(type(node), "_forward_cls", None) for node in nodes_in_graph(outputs))
    return list(dict.fromkeys(cls for cls in classes if cls is not None))


def gradient_hooks(leaf: Tensor) -> tuple[list[Any], list[Any]]:
    """The hooks of a leaf: those that may change its gradient, and those that run once it is accumulated."""
    before, after = (getattr(leaf, name, None) or {} for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
    return list(before.values()), list(after.values())


def refuses_backward(outputs: Iterable[Tensor]) -> bool:
    """Return True if something that is marked with ``once_differentiable`` stands in the graph.

    Its node raises, and yet ``autograd.grad(..., allow_unused=True)`` goes around it and returns None.
    """
    return any(node.name().endswith(("::Error", "::DelayedError")) for node in nodes_in_graph(outputs))


def input_metadata(node: Any) -> list[tuple[tuple[int, ...], torch.dtype] | None]:
    """Shape and dtype of each tensor that a node of the graph took; None where it does not require grad."""
    edges = [(next_node, index) for next_node, index in node.next_functions]
    found = [None if next_node is None else next_node._input_metadata[index] for next_node, index in edges]
    return [None if data is None else (tuple(data.shape), data.dtype) for data in found]
