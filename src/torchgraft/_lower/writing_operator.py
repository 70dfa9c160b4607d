"""The operator of the dispatcher that writes, beside the one that returns the new values.

Compilers call it where no gradient is recorded: what is not written is not copied then. Whatever else comes here goes
the way of a call from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._kernels.written import written_places
from .._spec.conversion import convert
from ..errors import UnsupportedError
from .dispatcher_op import DispatcherOp
from .eager_call import EagerCall
from .lowering import Lowering
from .writing_call import WritingCall


class WritingOperator:
    """A writing operator's name in the dispatcher, and its call from Python.

    Args:
        lowering: of the function behind it, which writes nothing.

    Attributes:
        torch_op: the `OpOverload`.
    """

    def __init__(self, lowering: Lowering) -> None:
        self.record = lowering.record
        self._lowering = lowering
        self._call: WritingCall | None = None
        made = DispatcherOp(self.record.qualname, self.record.signature.writing_schema(), tags=lowering.tags())
        self.torch_op: Any = made.torch_op
        made.backend(self._backend)
        made.fake(self._fake)
        made.vmap(self._vmap)
        made.dtensors(self._apart)
        made.at_key("Autograd", self._autograd, with_keyset=True)
        made.decomposition(self._decompose)
        for key in _torch.AUTOCAST_KEYS:
            made.at_key(key, self._apart)

    def make_call(self) -> WritingCall:
        """Make the call from Python, for the declarations that there are."""
        self._call = WritingCall(EagerCall(self._lowering), self.torch_op)
        return self._call

    @property
    def _current(self) -> WritingCall:
        return self._call or self.make_call()

    def _values(self, args: Sequence[Any]) -> list[Any]:
        return convert(self.record.signature, self.record.with_defaults(args))

    def _packed(self, result: Any) -> Any:
        """The outputs as the dispatcher takes them."""
        return result if result is None or isinstance(result, Tensor) else tuple(result)

    def _backend(self, *args: Any) -> Any:
        with _torch.outside_level(), torch.no_grad():
            return self._packed(self._current.again(self._values(args)))

    def _apart(self, *args: Any) -> Any:
        return self._packed(self._current.apart(*self._values(args)))

    def _autograd(self, keyset: Any, *args: Any) -> Any:
        values = self._values(args)
        leaves = self.record.leaves(values)
        recorded = torch.is_grad_enabled() and any(leaf.requires_grad for leaf in leaves)
        if recorded or _torch.tangents_possible() or _torch.functorch_active() or _torch.any_dtensor(leaves):
            return self._apart(*values)
        return _torch.redispatch_below_autograd(self.torch_op, keyset)(*values)

    def _fake(self, *args: Any) -> Any:
        values = self.record.promoted(self._values(args))
        return self._packed(self._beside(self._lowering.call(values)))

    def _beside(self, outputs: Sequence[Tensor]) -> Any:
        """The outputs that callers get, from all of the function's."""
        signature = self.record.signature
        shown = [v for v, output in zip(outputs, signature.outputs, strict=True) if not output.saved]
        return signature.pack_beside(shown[len(signature.written) :])

    def _decompose(self, *args: Any) -> Any:
        """The torch body and the copies in the operator's place, for compilers, which then write in place."""
        if self.record.opaque or not _torch.tracing_final_graph():
            return NotImplemented
        return self._apart(*args)

    def _vmap(self, info: Any, in_dims: Any, *args: Any) -> Any:
        signature = self.record.signature
        made, _ = self._lowering.vmap(info, in_dims, *args)
        outputs = [made] if isinstance(made, Tensor) else list(made)
        for i, after in zip(written_places(signature), outputs, strict=False):
            if in_dims[i] is None:
                raise UnsupportedError(
                    "is written, and has one place for the results of all samples", operator=signature.name,
                    argument=signature.parameters[i].name, expected="a tensor that is mapped", got="one that is not",
                    hint=f"map it, or call {signature.name}.functional, which returns the new values",
                )  # fmt: skip
            args[i].movedim(in_dims[i], 0).copy_(after)
        result = self._packed(self._beside(outputs))
        return result, None if result is None else 0 if isinstance(result, Tensor) else (0,) * len(result)
