"""The record of an operator: everything that was declared about it, in one place.

Lowerings, capabilities, documentation and tests read this record; nothing is declared twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._kernels.kernel import Kernel
from ._kernels.make import make_kernel
from ._rules.kinds import Kind, cotangent_names
from ._rules.rule import Rule
from ._rules.surrogate import read_surrogates
from ._spec.conversion import common_dtype
from ._spec.domain import Domain, check_domains, declared_domains
from ._spec.plan import LeafCounts, Plan, flatten, make_plan, replace
from ._spec.reference import Reference
from ._spec.shape_rule import ShapeRule
from ._spec.signature import Output, Signature
from .errors import DeclarationError, DeviceError

if TYPE_CHECKING:
    from ._build.native_function import NativeFunction
    from ._build.prototype import Prototype
    from ._build.source import Source

_MEMO_SIZE = 1024


class Record:
    """All declarations about one operator.

    Attributes:
        signature: its parameters and outputs.
        qualname: ``namespace::name`` in the dispatcher; another one for each redefinition.
        kernels: by device type; the key None is the kernel for every other device.
        rules: by kind, then by input.
        nondifferentiable: inputs and outputs that were declared to have no derivative, and the reason if one was given.
        shape_rule: output shapes given by hand.
        autocast: the dtype to which floating inputs are cast under autocast; None promotes them to the widest.
        domains: of arguments and axes, for what checks the operator.
        samples: functions that yield arguments, for the same.
        reference: what its values are compared with.
        surrogates: functions whose derivatives the rules of named inputs are meant to give, in the place of its own.
        parallel: axes along which slices are computed each by itself, beside the batch axes.
        reduction: axes over whose slices the outputs are sums.
        state: another object after each declaration; what was derived of the one before is stale.
        accuracy: to which its values are right, relative to the largest element of each output; None is its dtype's.
        eager_node: makes the autograd node of eager code, where the rules alone would not make the best one; or None.
        call_scope: makes what surrounds a call through the dispatcher, from its arguments; or None.
        node_scope: wraps the forward and the backward of the nodes that the dispatcher uses; or None.
    """

    def __init__(
        self,
        signature: Signature,
        function: Callable[..., Any],
        qualname: str,
        autocast: torch.dtype | None,
        source: Source | None = None,
    ) -> None:
        self.signature = signature
        self.parallel: tuple[str, ...] = ()
        self.reduction: tuple[str, ...] = ()
        self.function = function
        self.qualname = qualname
        self.autocast = autocast
        self.kernels: dict[str | None, Kernel] = {
            None: make_kernel(signature, function, numpy=signature.numpy, source=source)
        }
        self.rules: dict[Kind, dict[str, Rule]] = {"vjp": {}, "jvp": {}, "partial": {}, "adjoint": {}}
        self.nondifferentiable: dict[str, str | None] = {}
        self.shape_rule: ShapeRule | None = None
        self.domains: dict[str, Domain] = {}
        self.samples: list[Callable[..., Any]] = []
        self.reference: Reference | None = None
        self.surrogates: dict[str, Callable[..., Any]] = {}
        self.accuracy: float | None = None
        self.eager_node: Callable[[LeafCounts, tuple[bool, ...]], type[Any] | None] | None = None
        self.call_scope: Callable[[Sequence[Any]], contextlib.AbstractContextManager[None]] | None = None
        self.node_scope: Callable[..., tuple[Callable[..., Any], Callable[..., Any]]] | None = None
        self._plans: dict[Any, Plan] = {}
        self._seen: dict[str, str] = {}  # Functions in C share it, see `NativeFunction`.
        self.declare_domains(declared_domains(function))
        self._forget()

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def opaque(self) -> bool:
        """True if tracers cannot see into the operator."""
        return self.kernels[None].opaque

    @property
    def sealed(self) -> bool:
        """True if compiled code calls the operator as a whole.

        A body in torch would have a symbol of its own for each of its late sizes, where the operator promises one.
        """
        return self.opaque or bool(self.signature.late)

    @property
    def is_captured(self) -> bool:
        """True if CUDA graphs hold its calls: nothing happens on the host, or only that a kernel is launched."""
        return not self.sealed or (not self.signature.late and self.kernels[None].runs_on("cuda"))

    # -- declaring ------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Forget the plans of calls, and have all functions in C share what they have seen."""
        self.state = object()
        self._plans.clear()
        for native in self.natives():
            native.seen = self._seen

    def add_kernel(self, device: str | None, kernel: Kernel) -> None:
        """Add the kernel for a device type, or replace it; None is every device that has no kernel of its own."""
        self.kernels[device] = kernel
        self._forget()

    def declare_shapes(self, rule: ShapeRule) -> None:
        """Say how output shapes follow from the arguments."""
        self.shape_rule = rule
        self._forget()

    def add_rule(self, rule: Rule) -> None:
        """Add a rule; a second one for the same input and mode raises and leaves everything as it was."""
        for name in rule.inputs:
            other = self._conflict(rule.kind, name)
            if other is not None:
                shown = self.signature.names[name].shown
                raise DeclarationError(
                    f"input '{shown}' already has the rule {other}",
                    operator=rule.label,
                    argument=shown,
                    expected="one rule for each input and mode",
                    got=f"{other} and {rule.label}",
                    hint="delete one of them; a vjp and a jvp may stand together",
                )
        for name in rule.inputs:
            self.rules[rule.kind][name] = rule
        self._forget()

    def declare_nondifferentiable(self, names: Sequence[str], reason: str | None) -> None:
        """Say of inputs and outputs that they have no derivative."""
        inputs = {p.name for _, p in self.signature.tensors}
        outputs = {output.name for output in self.signature.outputs if output.floating}
        for name in names:
            if name not in inputs | outputs:
                raise DeclarationError(
                    f"there is no tensor input and no floating output '{name}'",
                    operator=self.name,
                    argument=name,
                    expected=", ".join([*sorted(inputs), *sorted(outputs)]),
                    got=name,
                )
            rule = self._rule_of(name)
            if rule is not None:
                raise DeclarationError(
                    f"{'input' if name in inputs else 'output'} '{name}' already has the rule {rule.label}",
                    operator=self.name,
                    argument=name,
                    expected=f"no rule that counts with a derivative of {name}",
                    got=rule.label,
                    hint=None if name in inputs else "say it before the rules are declared",
                )
        self.nondifferentiable.update(dict.fromkeys(names, reason))
        inert = [replace_fields(o, inert=True) if o.name in names else o for o in self.signature.outputs]
        self.signature = replace_fields(self.signature, outputs=tuple(inert))
        self._forget()

    def declare_axes(self, parallel: tuple[str, ...], reduction: tuple[str, ...]) -> None:
        """Say along which axes slices are independent, and over which the outputs are sums."""
        self.parallel, self.reduction = parallel, reduction
        self._forget()

    def declare_surrogates(self, names: Sequence[str], of: Callable[..., Any]) -> None:
        """Say of which function the rules of inputs are meant to be the derivative."""
        inputs = [p.name for _, p in self.signature.tensors if p.name not in self.nondifferentiable]
        for name in names:
            if name not in inputs or name in self.surrogates:
                raise DeclarationError(
                    f"input '{name}' has a surrogate already" if name in inputs
                    else f"there is no tensor input '{name}' that may have a derivative",
                    operator=self.name, argument=name, expected=", ".join(inputs), got=name,
                )  # fmt: skip
        self.surrogates |= read_surrogates(dict.fromkeys(names, of), DeclarationError)

    def _rule_of(self, name: str) -> Rule | None:
        """A rule for an input, or one that counts with a derivative of an output."""
        if name in self.signature.names:
            return self.reverse_rule(name) or self.forward_rule(name)
        cotangent = cotangent_names(self.signature).get(name)
        rules = [rule for rules in self.rules.values() for rule in rules.values()]
        return next((rule for rule in rules if rule.kind in ("jvp", "partial") or cotangent in rule.reads), None)

    def declare_domains(self, domains: Mapping[str, Domain]) -> None:
        """Add domains, or replace those of the same names; calls do not change by it."""
        paths = {p.path: p.name for p in self.signature.parameters}
        merged = {**self.domains, **{paths.get(name, name): domain for name, domain in domains.items()}}
        check_domains(self.signature, merged)
        self.domains = merged

    def _conflict(self, kind: Kind, name: str) -> str | None:
        if name in self.nondifferentiable:
            return f"{self.name}.nondifferentiable[{name}]"
        rivals: tuple[Kind, ...] = ("vjp", "jvp", "partial", "adjoint")
        if kind in ("vjp", "jvp"):
            rivals = (kind, "partial", "adjoint")
        for rival in rivals:
            if name in self.rules[rival]:
                return self.rules[rival][name].label
        return None

    def reverse_rule(self, name: str) -> Rule | None:
        """The rule that gives the gradient with respect to an input."""
        return next((self.rules[k][name] for k in ("vjp", "partial", "adjoint") if name in self.rules[k]), None)

    def forward_rule(self, name: str) -> Rule | None:
        """The rule that gives the tangent; a vjp does where no better one stands."""
        kinds: tuple[Kind, ...] = ("jvp", "partial", "adjoint", "vjp")
        return next((self.rules[k][name] for k in kinds if name in self.rules[k]), None)

    def movers(self, output: Output) -> list[str]:
        """The inputs with whose derivatives an output changes, as far as rules say."""
        if output.inert:
            return []
        inputs = [(p.name, self.reverse_rule(p.name)) for _, p in self.signature.tensors]
        moving = [name for name, rule in inputs if rule is None or output.name not in rule.independent]
        return [name for name in moving if name not in self.nondifferentiable]

    def natives(self) -> list[NativeFunction]:
        """The functions in C and C++ that users have written: kernels, then rules."""
        rules = dict.fromkeys(rule for named in self.rules.values() for rule in named.values())
        kernels = [kernel.native for kernel in self.kernels.values() if kernel.native is not None]
        return [*kernels, *(rule.native for rule in rules if rule.native is not None)]

    def prototypes(self) -> list[Prototype]:
        """Prototypes of the C functions that are, or could be, the kernel and the rules.

        Raises:
            DeclarationError: an annotation has no counterpart in C.
        """
        from ._build.prototype import Prototype  # Programs without C need nothing of it.

        natives = [kernel.native.prototype for kernel in self.kernels.values() if kernel.native is not None]
        kernel = natives[0] if natives else Prototype(self.signature, self.name)
        rules = dict.fromkeys(rule for named in self.rules.values() for rule in named.values())
        return [kernel, *(rule.prototype(self.signature) for rule in rules)]

    # -- calling --------------------------------------------------------------------------------------------

    def kernel_for(self, device: torch.device) -> Kernel:
        """The kernel for a device; on the one without numbers any will do.

        Raises:
            DeviceError: there is none.
        """
        kernel = self.kernels.get("cpu" if device.type == "meta" else device.type) or self.kernels[None]
        if device.type != "meta" and not kernel.runs_on(device.type):
            raise DeviceError(
                f"is called on {device}, for which there is no kernel",
                operator=self.name,
                expected=", ".join(self.devices()),
                got=str(device),
                hint=f"pass tensors on one of these, or add a kernel: @{self.name}.kernel('{device.type}')",
            )
        return kernel

    def devices(self) -> list[str]:
        """Device types that have a kernel; ``any`` for a torch kernel that serves all others."""
        named = [device for device in self.kernels if device is not None]
        return named + [device for device in self.default_devices() if device not in named]

    def default_devices(self) -> list[str]:
        """Device types that the kernel without a device serves."""
        if not self.opaque:
            return ["any"]
        return [device for device in ("cpu", "cuda") if self.kernels[None].runs_on(device)]

    def with_defaults(self, args: Sequence[Any]) -> list[Any]:
        """All arguments; the dispatcher leaves out trailing ones that equal their defaults."""
        return [*args, *(parameter.default for parameter in self.signature.parameters[len(args) :])]

    def promoted(self, values: list[Any]) -> list[Any]:
        """`values` with the inputs of a `Real` operator cast to their common dtype."""
        common = common_dtype(self.signature, values)
        if common is None:
            return values
        result = list(values)
        for i, parameter in self.signature.tensors:
            if parameter.tensor.dtypes.promotes and values[i] is not None:
                result[i] = [v.to(common) for v in values[i]] if parameter.many else values[i].to(common)
        return result

    def plan(self, values: Sequence[Any], lead: int = 0) -> Plan:
        """The plan of a call, remembered by shapes and dtypes where these are plain numbers."""
        leaves = flatten(self.signature, values)
        key: Any = (
            lead,
            tuple((leaf.shape, leaf.dtype, leaf.device) for leaf in leaves),
            tuple(values[i] is None if not p.many else len(values[i]) for i, p in self.signature.tensors),
            self.shape_values(values),
        )
        try:
            plan = self._plans.get(key)
        except TypeError:  # SymInts cannot be hashed
            return make_plan(self.signature, values, lead=lead, shape_rule=self.shape_rule)
        if plan is None:
            plan = make_plan(self.signature, values, lead=lead, shape_rule=self.shape_rule)
            if len(self._plans) >= _MEMO_SIZE:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def shape_values(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The non-tensor arguments on which a shape may depend, fit for a key."""
        named = zip(self.signature.parameters, values, strict=True)
        return tuple(
            tuple(value) if isinstance(value, list) else value
            for p, value in named
            if p.name in self.signature.shape_arguments
        )

    def replace(self, values: Sequence[Any], leaves: Sequence[Tensor]) -> list[Any]:
        """`values` with other tensors in the places of its tensors."""
        return replace(self.signature, values, leaves)

    def leaves(self, values: Sequence[Any]) -> list[Tensor]:
        """The tensors among `values`, lists flattened."""
        return flatten(self.signature, values)
