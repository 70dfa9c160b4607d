"""Forward mode: the tangents of an operator's outputs, from whichever rules it has."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _torch
from .._randomness import is_looked_at
from .._rules.kinds import cotangent_names, differentiable_outputs, inert_outputs
from .._rules.results import flat_results, settle_gradient, settle_tangent
from .._rules.rule import Rule
from .._spec.outputs import flattened, grouped, leaf_names
from .._spec.plan import Plan, leaves_of, seeded
from ..errors import DerivativeError, TorchgraftError
from .conduct import unwritten, within_level
from .derivatives import Derivatives
from .missing import missing_rule
from .refuse import attached, connect, refuse_lost, watched
from .vjp import VJP, apply, call_operator, make_partials
from .watch import Watch


class JVP:
    """The tangents of one call.

    Args:
        derivatives: of the operator.
        values: the primal arguments.
        tangents: for each leaf its tangent, or None.
        outputs: all outputs of the call, a list among them flattened.
        lead: leading batch axes beside the annotations.
    """

    def __init__(
        self,
        derivatives: Derivatives,
        values: Sequence[Any],
        tangents: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        plan: Plan,
        lead: int,
    ) -> None:
        self.derivatives = derivatives
        self.record = derivatives.record
        self.signature = self.record.signature
        self.values = values
        self.plan = plan
        self.lead = lead
        seen = seeded(self.signature, values, plan)
        self.env: dict[str, Any] = {p.name: v for p, v in zip(self.signature.parameters, seen, strict=True)}
        made = grouped(self.signature.outputs, outputs)
        self.env |= {o.name: v for o, v in zip(self.signature.outputs, made, strict=True)}
        self.outputs = differentiable_outputs(self.signature)
        self.differentiable: list[Tensor] = flattened(self.outputs, [self.env[o.name] for o in self.outputs])
        self.names = leaf_names(self.outputs, len(self.differentiable))
        self.tangents: dict[str, list[Tensor | None]] = {}
        for leaf, tangent in zip(plan.leaves, tangents, strict=True):
            self.tangents.setdefault(leaf.owner, []).append(tangent)
        self.totals: list[Tensor | None] = [None] * len(self.differentiable)

    def run(self) -> list[Tensor | None]:
        """One tangent for each output of the operator, lists flattened; None for those that have none."""
        derived: list[Rule] = []
        done: set[Rule] = set()
        for name, tangents in self.tangents.items() if self.differentiable else ():  # Integers have no tangent.
            if all(tangent is None for tangent in tangents):
                continue
            rule = self.record.forward_rule(name)
            if rule is None:
                raise missing_rule(self.record, name, "forward")
            if rule in done:
                continue
            done.add(rule)
            if rule.kind == "vjp":
                derived.append(rule)
            else:
                self._add({"jvp": self._jvp, "partial": self._partial, "adjoint": self._adjoint}[rule.kind](rule, name))
        for rule in derived:
            if is_looked_at(rule.call):
                self._look(rule)
        if derived:
            self._add(self._transpose([self.derivatives.vjp(rule) for rule in derived]))
        groups = grouped(self.outputs, self._owned()) if self.outputs else []
        by_name = {output.name: group for output, group in zip(self.outputs, groups, strict=True)}
        # Who uses the tangent of an output without a derivative cannot be refused any more.
        by_name |= {o.name: _each(_no_number, self.env[o.name]) for o in inert_outputs(self.signature)}
        nothing = {o.name: _each(lambda _: None, self.env[o.name]) for o in self.signature.outputs}
        return flattened(self.signature.outputs, [{**nothing, **by_name}[o.name] for o in self.signature.outputs])

    def _add(self, terms: Sequence[Tensor | None]) -> None:
        for i, term in enumerate(terms):
            if term is not None:
                total = self.totals[i]
                self.totals[i] = term if total is None else _sum(total, term)

    def _owned(self) -> list[Tensor | None]:
        """The tangents, copied where their memory is another tensor's: who writes into an output writes there too."""
        given = [tangent for tangents in self.tangents.values() for tangent in tangents if tangent is not None]
        outputs = flattened(self.signature.outputs, [self.env[output.name] for output in self.signature.outputs])
        taken = set(map(_torch.memory, [*self.record.leaves(self.values), *outputs, *given]))
        owned: list[Tensor | None] = []
        for total in self.totals:
            owned.append(total.clone() if total is not None and _torch.memory(total) in taken else total)
            taken.add(_torch.memory(total))
        return owned

    def _settle(self, label: str, terms: Sequence[Any]) -> list[Tensor]:
        return [
            settle_tangent(label, f"tangent of {name}", term, made)
            for name, made, term in zip(self.names, self.differentiable, terms, strict=True)
        ]

    def _filled(self, name: str) -> list[Tensor]:
        """The tangents of an input, zeros where there are none."""
        value = self.env[name]
        primals = value if self.signature.names[name].many else [value]
        return [torch.zeros_like(p) if t is None else t for p, t in zip(primals, self.tangents[name], strict=True)]

    def _tangent_value(self, name: str) -> Any:
        if name not in self.tangents:  # An optional input may be absent.
            return None
        filled = self._filled(name)
        return filled if self.signature.names[name].many else filled[0]

    # -- one kind of rule each --------------------------------------------------------------------------------

    def _jvp(self, rule: Rule, name: str) -> Sequence[Tensor]:
        tangents = {f"{given}_tangent": self._tangent_value(given) for given in rule.inputs}
        env = self.env | tangents
        reads = [env[read] for read in rule.reads]
        places = [i for i, read in enumerate(rule.reads) if tangents.get(read) is not None]
        operator = self.derivatives.operator(rule)

        def run(*reads: Any) -> Sequence[Any]:
            if operator is not None:
                results = tuple((tuple(made.shape), made.dtype) for made in self.differentiable)
                return call_operator(operator, self.plan, reads, results)
            count = len(self.differentiable)
            return apply(
                self.record, rule, self.plan, reads, lambda r: flat_results(rule.label, r, self.outputs, count)
            )

        def hanging() -> Sequence[bool]:
            return attached(run, reads, places, range(len(self.differentiable)))

        with unwritten(rule.label, rule.reads, reads):
            made = run(*reads) if rule.is_operator else watched(rule.label, run, *reads)
        linear = [tangent for given in rule.inputs for tangent in self.tangents.get(given, ()) if tangent is not None]
        return self._connect(rule, self._settle(rule.label, made), reads, linear, hanging)

    def _partial(self, rule: Rule, name: str) -> Sequence[Tensor]:
        reads = [self.env[read] for read in rule.reads]
        make = functools.partial(make_partials(self.record, rule, self.derivatives.operator(rule)), self.plan)
        with unwritten(rule.label, rule.reads, reads):
            partials = make(*reads) if rule.opaque else watched(rule.label, make, *reads)
        # A factor that is constant in its inputs hangs on the tangent with which it is multiplied.
        partials = self._connect(rule, partials, reads, hanging=lambda: [True] * len(self.outputs))
        tangent = self._filled(name)[0]
        terms = [
            self.derivatives.weigh(tangent, p).expand(self.env[o.name].shape)
            for o, p in zip(self.outputs, partials, strict=True)
        ]
        return self._settle(rule.label, terms)

    def _adjoint(self, rule: Rule, name: str) -> Sequence[Tensor]:
        """An operator is its own derivative in an input in which it is linear."""
        values = list(self.values)
        position = list(self.signature.names).index(name)
        values[position] = self._tangent_value(name)
        outputs = grouped(self.signature.outputs, self.derivatives.call(values, self.lead))
        made = {output.name: value for output, value in zip(self.signature.outputs, outputs, strict=True)}
        return flattened(self.outputs, [made[output.name] for output in self.outputs])

    def _transpose(self, vjps: Sequence[VJP]) -> Sequence[Tensor | None]:
        """The transpose of the VJP, which is linear in the cotangent: ``J t = d/dg <J^T g, t>``.

        Known as the double-backward trick (J. Townsend, 2017, "A new trick for calculating Jacobian vector products").
        """
        for vjp in vjps:
            if vjp.opaque and not vjp.residual:  # Nothing is recorded in an array rule.
                raise missing_rule(self.record, vjp.inputs[0], "forward")
        recording = torch.is_grad_enabled()
        with _torch.hooks_on_saved_off(), torch.enable_grad():
            cotangents = [_torch.requires_grad_inside(torch.zeros_like(made)) for made in self.differentiable]
            names = tuple(cotangent_names(self.signature).values())
            env = {**self.env, **dict(zip(names, grouped(self.outputs, cotangents), strict=True))}
            gradients: list[Tensor] = []
            tangents: list[Tensor] = []
            lost: dict[VJP, str] = {}
            for vjp in vjps:
                reads = [env[read] for read in vjp.reads]
                with (
                    Watch(reads, linear=cotangents) as watch,
                    within_level(vjp.label),
                    unwritten(vjp.label, vjp.reads, reads),
                ):
                    made = vjp.call(self.plan, *reads)
                name = next((name for name in map(watch.lost, made) if name is not None), None)
                if name is not None and not vjp.opaque:
                    if any(map(watch.lost_linear, made)):  # A part of the tangent would be missing.
                        raise _detached(vjp)
                    lost[vjp] = name
                given = [t for name in vjp.inputs for t in self._transposed(name)]
                for leaf, value, tangent in zip(leaves_of(self.plan, vjp.inputs), made, given, strict=True):
                    if tangent is None:
                        continue
                    gradient = settle_gradient(vjp.label, leaf, value)
                    if not gradient.requires_grad:
                        raise _detached(vjp)
                    gradients.append(gradient)
                    tangents.append(tangent)
            try:
                terms = torch.autograd.grad(gradients, cotangents, tangents, create_graph=recording, allow_unused=True)
            except Exception as error:  # Torch cannot transpose a step of the rule, which has no frame.
                if not isinstance(error, TorchgraftError):
                    rules = ", ".join(vjp.label for vjp in vjps)
                    error.add_note(f"raised by torch as it transposed {rules}, of which forward mode is derived")
                raise
        found: Sequence[Tensor | None] = terms  # The stubs know nothing of allow_unused.
        filled = [torch.zeros_like(c) if t is None else t for c, t in zip(cotangents, found, strict=True)]
        for vjp in vjps:
            reads = [env[r] for r in vjp.reads if r not in names]
            if vjp.opaque:
                filled = self._connect(vjp, filled, reads)
            if vjp in lost:
                filled = refuse_lost(vjp.label, lost[vjp], filled, [*reads, *tangents])
        return filled

    def _look(self, rule: Rule) -> None:
        """Run a rule on cotangents that are not zero, as those of the transpose are: there, no draw would be seen."""
        if rule.is_operator:  # No transpose is derived of it.
            return
        vjp = self.derivatives.vjp(rule)
        hidden = _torch.dispatch_modes() > 0  # A tracer would run it, and others would count it.
        try:
            with _torch.directly() if hidden else within_level(rule.label):
                self._run_on_ones(vjp)
        except TorchgraftError:
            raise
        except Exception:  # A rule that needs its surroundings runs in them later, and raises there.
            if not hidden:
                raise

    def _run_on_ones(self, vjp: VJP) -> None:
        outputs = {grad: self.env[output] for output, grad in cotangent_names(self.signature).items()}
        if all(_torch.holds_numbers([made, *_torch.wrapped_in(made)][-1]) for made in self.differentiable):
            env = self.env | {grad: _each(_ones, made) for grad, made in outputs.items()}
            vjp.call(self.plan, *(_torch.plain_samples(env[read]) for read in vjp.reads))

    def _transposed(self, name: str) -> Sequence[Tensor | None]:
        """The tangents of an input of a vjp; None where a rule of its own pushes them, which has counted them."""
        tangents, rule = self.tangents.get(name, []), self.record.forward_rule(name)
        return tangents if rule is not None and rule.kind == "vjp" else [None] * len(tangents)

    def _connect(
        self,
        rule: Rule | VJP,
        made: Sequence[Any],
        reads: Sequence[Any],
        linear: Sequence[Tensor] = (),
        hanging: Callable[[], Sequence[bool]] = tuple,  # It is not asked of opaque rules.
    ) -> list[Any]:
        sources = [item for value in reads for item in (value if isinstance(value, list) else [value])]
        if rule.residual:
            sources += [*self.record.leaves(self.values), *(t for ts in self.tangents.values() for t in ts)]
        tensors = [source for source in sources if isinstance(source, Tensor)]
        return connect(rule.label, rule.opaque, made, tensors, linear, hanging)


def _each(function: Callable[[Tensor], Any], made: Any) -> Any:
    """The function on an output, or on each tensor of one that is a list."""
    return [function(item) for item in made] if isinstance(made, list) else function(made)


def _ones(made: Tensor) -> Tensor:
    return torch.ones_like(_torch.plain_sample(made))


def _no_number(made: Tensor) -> Tensor:
    return torch.full_like(made, math.nan)


def _sum(one: Tensor, other: Tensor) -> Tensor:
    try:
        return one + other
    except IndexError:  # Over no samples, torch cannot add a mapped and an unmapped tensor without axes.
        return (one[None] + other[None])[0]


def _detached(vjp: VJP) -> DerivativeError:
    return DerivativeError(
        "forward mode cannot be derived from the rule: its result, or a part of it, is detached from grad",
        operator=vjp.label,
        expected="torch functions from grad to the result",
        got="a result that does not require grad",
        hint=f"add a rule for forward mode, @{vjp.label.partition('.')[0]}.jvp",
    )
