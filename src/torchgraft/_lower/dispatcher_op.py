"""The dispatcher's registry: one name for each declaration, never deleted.

Each declaration has a name of its own for as long as the process lives. A redefinition in a notebook does not reach
into graphs that were compiled or exported from the old one, and two operators made by one factory never share a name:
the number that an operator returns depends on nothing but the operator. Names, not overloads of one name: torch 2.13
aborts at exit when an operator has three overloads of which two have the same schema.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from .. import _torch
from ..errors import DeclarationError
from . import fingerprint

_lock = threading.Lock()
_libraries: dict[str, torch.library.Library] = {}
_declared: set[str] = set()
_here = threading.local()


def fresh_name(qualname: str, function: Callable[..., Any]) -> str:
    """The name for a new declaration of `qualname`.

    The name itself goes to the first function of a module; a redefinition, and a function that another function made,
    has a fingerprint beside it: which of them comes first is no matter of the operator.
    """
    with _lock:
        if qualname not in _declared and _torch.is_declared(qualname):
            raise DeclarationError(
                f"'{qualname}' is an operator of another library",
                operator=qualname,
                expected="a name that is free",
                got=qualname,
                hint="give tg.op(namespace=...), or rename the function",
            )
        name = qualname
        if qualname in _declared or "<locals>" in function.__qualname__:
            name = base = f"{qualname}__{fingerprint.of_function(function)}"
            number = 1
            while name in _declared:
                number += 1
                name = f"{base}_{number}"
        _declared.update({qualname, name})
    return name


def is_being_defined(qualname: str) -> bool:
    """Tell whether this thread defines an operator: `torch.library` then asks `torch.ops` for it, in vain."""
    return getattr(_here, "defines", None) == qualname


def companion(qualname: str, what: str) -> str:
    """The name of an operator that serves another one: ``ns::f__vmap`` beside ``ns::f``."""
    return f"{qualname}__{what}"


class DispatcherOp:
    """One operator of the dispatcher and what is registered for it.

    Attributes:
        torch_op: the `OpOverload`.
        schema: its schema, without the name.
        tags: its tags, beside that it is fit for compilers.
    """

    def __init__(self, qualname: str, schema: str, *, tags: tuple[torch.Tag, ...] = ()) -> None:
        namespace, self._name = qualname.split("::")
        with _lock:
            library = _libraries.get(namespace)
            if library is None:
                library = _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
        self.schema = schema
        self.tags = tags
        self._library = library
        self._qualname = qualname
        _here.defines = qualname
        library.define(self._name + schema, tags=(torch.Tag.pt2_compliant_tag, *tags))
        _here.defines = None
        self.torch_op: Any = getattr(getattr(torch.ops, namespace), self._name).default

    def __call__(self, *args: Any) -> Any:
        return self.torch_op(*args)

    def backend(self, function: Callable[..., Any]) -> None:
        """The kernel of every backend."""
        kernel = _torch.no_dynamo(_torch.outside_handlers(function))
        self._library.impl(self._name, kernel, "CompositeExplicitAutograd")

    def fake(self, function: Callable[..., Any]) -> None:
        """The kernel for fake and meta tensors."""
        _torch.register_fake(self._library, self._qualname, function)

    def dtensors(self, function: Callable[..., Any]) -> None:
        """Register a function for DTensors that arrive below autograd."""
        _torch.register_dtensor_rule(self._library, self._qualname, _torch.no_dynamo(function))

    def at_key(self, key: str, function: Callable[..., Any], *, with_keyset: bool = False) -> None:
        """The kernel of one dispatch key."""
        kernel = function if function is _torch.fallthrough_kernel else _torch.no_dynamo(function)
        self._library.impl(self._name, kernel, key, with_keyset=with_keyset)

    def vmap(self, function: Callable[..., Any]) -> None:
        """The batching rule, ``function(info, in_dims, *args)``."""
        torch.library.register_vmap(self._qualname, _torch.no_dynamo(function), lib=self._library)

    def decomposition(self, function: Callable[..., Any]) -> None:
        """Register the function for tracers below autograd: the operator keeps its derivative, and is fused."""
        self.torch_op.py_impl(_torch.COMPOSITE_IMPLICIT)(function)
