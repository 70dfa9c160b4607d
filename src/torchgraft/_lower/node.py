"""The autograd node: a `Function` in the ctx style, written for one operator and one set of inputs that need gradients.

The source is generated, as `dataclasses` does it: the node saves what the rules of exactly these inputs read, and
its backward is straight-line code. The ctx style is 20 us a call faster than `setup_context`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _torch
from .._generated import compile_source
from .._randomness import trusted
from .._rules.kinds import cotangent_names, inert_outputs, list_names
from .._rules.results import as_results, settle_gradient
from .._spec.plan import LeafCounts, Plan
from .._spec.signature import Signature
from ..errors import DerivativeError
from .conduct import mutated
from .derivatives import Derivatives
from .missing import missing_rule
from .refuse import attached, connect, explain_saved, watched
from .shut import shut
from .vjp import VJP

_TEMPLATE = """\
def forward(ctx, call, {leaves}{copies}):
    {outs} = call.run({arguments})
    ctx.call = call
    if call.originals is not None:
        ({leaves},) = call.originals
    {save}
    {mark}
    return {returned}

def backward(ctx, {given}saved=None):
    {taken}call = ctx.call
    plan = call.plan
    {express}
    if {legacy}:
        return map_legacy(lambda *grads: backward(ctx, *grads, {keyword}saved), ({grads},))
    if any_autocast():
        with autocast_off():
            return backward(ctx, {grads}, {keyword}saved)
    {unpacked}
    recording = is_grad_enabled() or forward_ad._current_level >= 0
    {check_stale}
    {pulls}
    {shut}
    return None, {results}
"""


class Recorded(NamedTuple):
    """A call that a node records; a tuple, since the hot path may make one in each call.

    Attributes:
        run: the kernel, on all arguments.
        plan: of the call.
        scalars: the arguments that are no tensors.
        originals: the inputs with their tangents, which the node saves in the place of its own; None without any.
    """

    run: Callable[..., Any]
    plan: Plan
    scalars: tuple[Any, ...]
    originals: tuple[Tensor, ...] | None = None


def as_run(signature: Signature, outputs: Sequence[Tensor]) -> Any:
    """The outputs as a `Recorded` run returns them: a single one itself, unless it stands in a list."""
    return outputs[0] if len(outputs) == 1 and not signature.returns_list else outputs


class NodeFactory:
    """Makes the nodes of one operator.

    Args:
        derivatives: of the operator.
        counts: the tensors of each tensor parameter.
        mask: which of all tensors need a gradient.
        batched: the plan has batch axes.
        hidden: the caller sees `Saved` outputs too, as the dispatcher does.
    """

    def __init__(
        self, derivatives: Derivatives, counts: LeafCounts, mask: Sequence[bool], *, batched: bool, hidden: bool
    ) -> None:
        self.derivatives = derivatives
        self.record = derivatives.record
        self.signature = derivatives.record.signature
        self.counts = counts
        self.mask = tuple(mask)
        self.batched = batched
        self.hidden = hidden
        self.saved: list[str] = []
        self.namespace: dict[str, Any] = {
            "is_grad_enabled": torch.is_grad_enabled,
            "any_autocast": _torch.any_autocast,
            "autocast_off": _torch.autocast_off,
            "is_legacy_batched": _torch.is_legacy_batched,
            "map_legacy": _torch.map_legacy,
            "dispatch_modes": _torch.dispatch_modes,
            "forward_ad": _torch.forward_ad,
            "profiler": _torch.profiler,
            "as_results": as_results,
            "settle": settle_gradient,
            "connected": _connected,
            "profiled": _profiled,
            "partial": functools.partial,
            "watched": watched,
            "missing": self._missing,
            "mutated": mutated,
            "version": _torch.version,
            "stale": self._stale,
            "explained": lambda error: explain_saved(self.record.name, error, "change a copy: x = x + 1, not x += 1"),
        }

    def make(self) -> type[Any]:
        """The `Function` subclass; its name is the operator's, and so is that of `grad_fn`."""
        source = _TEMPLATE.format(**self._parts())
        names = compile_source(source, f"{self.record.qualname} node", self.namespace)
        forward, backward = names["forward"], names["backward"]
        if self.record.node_scope is not None:
            forward, backward = self.record.node_scope(forward, backward, self.counts, self.mask)
        body = {"forward": staticmethod(forward), "backward": staticmethod(_torch.no_dynamo(backward))}
        return types.new_class(
            self.record.name, (_torch.SingleLevelFunction,), exec_body=lambda names: names.update(body)
        )

    # -- the pieces -------------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, str]:
        signature = self.signature
        groups = self._groups()
        self.expressions = self._forward_expressions(groups)
        # Beside a star stands the list, whatever its length: `*o0` in the place of `o0, o1, o2`.
        stars = ["*" if output.many else "" for output in signature.outputs]
        outs = [f"{star}o{i}" for i, star in enumerate(stars)]
        shown = [i for i, output in enumerate(signature.outputs) if self.hidden or not output.saved]
        inert = [outs[i] for i in shown if self._is_constant(i)]
        pulls = self._pulls(groups)
        returned = ", ".join(outs[i] for i in shown)
        leaf_count = len(self.mask)
        grads = ", ".join(f"{stars[i]}g{i}" for i in shown)
        single = len(shown) == 1 and not signature.returns_list
        stale = any(self._reads_output(vjp) for vjp, _ in self._wanted(groups))
        return {
            "leaves": ", ".join(f"t{i}" for i in range(leaf_count)),
            "copies": "",
            "outs": f"({', '.join(outs)},)" if signature.returns_list else ", ".join(outs),
            "arguments": self._arguments(groups),
            "save": f"ctx.save_for_backward({', '.join(self.saved)})" if self.saved else "pass",
            "mark": f"ctx.mark_non_differentiable({', '.join(inert)})" if inert else "",
            "returned": returned if single else f"({returned},)" if signature.returns_list else f"({returned})",
            "given": "*grads, " if signature.returns_list else f"{grads}, ",
            "taken": f"({grads},) = grads\n    " if signature.returns_list else "",
            "keyword": "saved=" if signature.returns_list else "",
            "grads": grads,
            "legacy": " or ".join(
                f"any(map(is_legacy_batched, g{i}))" if stars[i] else f"is_legacy_batched(g{i})" for i in shown
            ),
            "express": "\n    ".join(self._express(groups)),
            "unpacked": "\n    ".join(self._unpacked()),
            "check_stale": "if call.originals is not None and forward_ad._current_level >= 0: stale()" if stale else "",
            "pulls": "\n    ".join(pulls) or "pass",
            "shut": self._shut(shown),
            "results": self._gradients(),
        }

    def _is_constant(self, number: int) -> bool:
        """Tell whether an output never requires grad."""
        output = self.signature.outputs[number]
        return output.saved or not output.type.dtypes.differentiable

    def _gradients(self) -> str:
        """The gradients that backward returns, one for each tensor of forward."""
        return ", ".join(f"d{i}" if needed else "None" for i, needed in enumerate(self.mask))

    def _groups(self) -> dict[str, list[int] | None]:
        """For each tensor parameter the numbers of its leaves; None where it is absent."""
        groups: dict[str, list[int] | None] = {}
        number = 0
        for (_, parameter), count in zip(self.signature.tensors, self.counts, strict=True):
            groups[parameter.name] = None if count is None else list(range(number, number + count))
            number += count or 0
        return groups

    def _forward_expressions(self, groups: dict[str, list[int] | None]) -> dict[str, str]:
        """The expression of each parameter in forward."""
        expressions: dict[str, str] = {}
        scalar = 0
        for parameter in self.signature.parameters:
            if not parameter.is_tensor:
                expressions[parameter.name] = f"call.scalars[{scalar}]"
                scalar += 1
                continue
            numbers = groups[parameter.name]
            if numbers is None:
                expressions[parameter.name] = "None"
            elif parameter.many:
                expressions[parameter.name] = f"[{', '.join(f't{i}' for i in numbers)}]"
            else:
                expressions[parameter.name] = f"t{numbers[0]}"
        return expressions

    def _arguments(self, groups: dict[str, list[int] | None]) -> str:
        return ", ".join(self.expressions[parameter.name] for parameter in self.signature.parameters)

    def _save(self, name: str) -> str:
        """The name under which backward finds a tensor of forward, or a list that is saved with a star."""
        if name not in self.saved:
            self.saved.append(name)
        return f"s{self.saved.index(name)}"

    def _save_leaf(self, number: int) -> str:
        """The name under which backward finds an input's value before the call."""
        return self._save(f"t{number}")

    def _read(self, name: str, groups: dict[str, list[int] | None]) -> str:
        """The expression in backward of something that a rule reads."""
        signature = self.signature
        if name in signature.names:
            parameter = signature.names[name]
            if not parameter.is_tensor:
                return self.expressions[name]
            numbers = groups[name]
            if numbers is None:
                return "None"
            if parameter.many:
                return f"[{', '.join(map(self._save_leaf, numbers))}]"
            return self._save_leaf(numbers[0])
        positions = {output.name: i for i, output in enumerate(signature.outputs)}
        if name in positions:
            return self._save(f"{'*' if signature.outputs[positions[name]].many else ''}o{positions[name]}")
        cotangents = {grad: positions[output] for output, grad in cotangent_names(signature).items()}
        return f"g{cotangents[name]}"

    def _wanted(self, groups: dict[str, list[int] | None]) -> list[tuple[VJP | None, tuple[str, ...]]]:
        """The vjps to call, each with the inputs whose gradients are needed; None for those without a rule."""
        wanted: dict[Any, list[str]] = {}
        vjps: dict[Any, VJP | None] = {}
        for _, parameter in self.signature.tensors:
            numbers = groups[parameter.name]
            if numbers is None or not any(self.mask[i] for i in numbers):
                continue
            rule = self.record.reverse_rule(parameter.name)
            key: Any = rule if rule is not None else parameter.name
            wanted.setdefault(key, []).append(parameter.name)
            vjps[key] = None if rule is None else self.derivatives.vjp(rule)
        return [(vjps[key], tuple(names)) for key, names in wanted.items()]

    def _reads_output(self, vjp: VJP | None) -> bool:
        outputs = {output.name for output in self.signature.outputs}
        return vjp is not None and bool(outputs & set(vjp.reads))

    def _pulls(self, groups: dict[str, list[int] | None]) -> list[str]:
        lines: list[str] = []
        for number, (vjp, names) in enumerate(self._wanted(groups)):
            if vjp is None:
                numbers = [i for i in groups[names[0]] or () if self.mask[i]]
                lines += [f"d{i} = missing(ctx, {i}, {names[0]!r})" for i in numbers]
                continue
            reads = [self._read(read, groups) for read in vjp.reads]
            leaves = [i for name in vjp.inputs for i in groups[name] or ()]
            # An absent input has no leaf, but the rule returns something for it, which `call` drops.
            direct = None if self.batched or len(leaves) != len(vjp.inputs) else vjp.direct
            call, label = f"call{number}", f"label{number}"
            self.namespace[call] = vjp.call if direct is None else self._trusting(call, direct)
            self.namespace[label] = vjp.label
            arguments = ", ".join(reads if direct else ["plan", *reads])
            function = call if vjp.opaque else f"partial(watched, {label}, {call}) if recording else {call}"
            plain = f"profiler._is_profiler_enabled{'' if vjp.opaque else ' or recording'}"
            made = f"{call}({arguments}) if not ({plain}) else profiled({label}, {function}, {arguments})"
            several = ", ".join(f"d{i}" for i in leaves)
            versions = f"({', '.join(self._versions(vjp, reads, groups))},)"
            lines.append(f"before = {versions}")
            if direct and len(leaves) == 1:
                lines.append(f"d{leaves[0]} = {made}")
            else:
                lines.append(f"made = {made}")
                if direct:
                    lines.append(f"if type(made) is not tuple or len(made) != {len(leaves)}:")
                    lines.append(f"    made = as_results({label}, made, {vjp.inputs!r}, many=False)")
                lines.append(f"({several},) = made")
            lines.append(f"if {versions} != before:")
            lines.append(f"    raise mutated({label}, {vjp.reads!r})")
            needed = [i for i in leaves if self.mask[i]]
            for i in needed:
                lines.append(f"leaf = plan.leaves[{i}]")
                lines.append(
                    f"if type(d{i}) is not Tensor or d{i}.shape != leaf.shape or d{i}.dtype is not leaf.dtype:"
                )
                lines.append(f"    d{i} = settle({label}, leaf, d{i})")
            lines += self._connecting(number, vjp, reads, leaves, needed)
        self.namespace["Tensor"] = Tensor
        return lines

    def _trusting(self, name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
        """A rule whose first calls are looked at; its place in the node's code is then taken by the bare function."""
        if trusted(rule) is not rule:
            return trusted(rule)

        def first(*values: Any) -> Any:
            made = rule(*values)
            self.namespace[name] = trusted(rule)
            return made

        return first

    def _shut(self, shown: Sequence[int]) -> str:
        """Refuse what comes back through outputs that have no derivative."""
        inert = [i for i in shown if self.signature.outputs[i].inert]
        needed = ", ".join(f"d{i}" for i, need in enumerate(self.mask) if need)
        self.namespace["shut"] = functools.partial(shut, self.record, [self.signature.outputs[i].name for i in inert])
        return f"({needed},) = shut([{', '.join(f'g{i}' for i in inert)}], [{needed}])" if inert else "pass"

    def _unpacked(self) -> list[str]:
        """The saved tensors, asked for once: checkpointing hands them out no second time."""
        several = "".join(f"{'*' if name.startswith('*') else ''}s{i}, " for i, name in enumerate(self.saved))
        return (
            [
                "try:",
                f"    ({several}) = saved = ctx.saved_tensors if saved is None else saved",
                "except RuntimeError as error:",
                "    raise explained(error)",
            ]
            if self.saved
            else ["pass"]
        )

    def _express(self, groups: dict[str, list[int] | None]) -> list[str]:
        """Call the functions of rules in C themselves, where neither a graph nor a profile is recorded."""
        wanted = self._wanted(groups)
        if inert_outputs(self.signature):
            return []
        calls: list[str] = []
        results: list[str] = []
        for number, (vjp, _) in enumerate(wanted):
            if vjp is None or vjp.native is None or self.batched:
                return []
            leaves = [i for name in vjp.inputs for i in groups[name] or ()]
            self.namespace[f"native{number}"] = vjp.native
            reads = ", ".join(self._read(read, groups) for read in vjp.reads)
            calls.append(f"made{number} = native{number}(plan, {reads})")
            several = ", ".join(f"d{i}" for i in leaves)
            results.append(f"{several} = made{number}")
        done = " and ".join(f"made{i} is not None" for i in range(len(wanted)))
        body = [*self._unpacked(), *calls, f"if {done}:"]
        body += [f"    {line}" for line in [*results, f"return None, {self._gradients()}"]]
        busy = (
            "is_grad_enabled() or dispatch_modes() or forward_ad._current_level >= 0 or profiler._is_profiler_enabled"
        )
        return [f"if not ({busy}):", *(f"    {line}" for line in body)]

    def _versions(self, vjp: VJP, reads: list[str], groups: dict[str, list[int] | None]) -> list[str]:
        """The versions of the tensors that a vjp reads, each as backward writes it."""
        tensors: list[str] = []
        versions: list[str] = []
        lists = list_names(self.signature)
        for name, written in zip(vjp.reads, reads, strict=True):
            parameter = self.signature.names.get(name)
            if name in lists:
                versions.append(f"*map(version, {written})")
            elif parameter is None or (parameter.is_tensor and not parameter.many and groups[name] is not None):
                tensors.append(written)
            elif parameter.is_tensor and parameter.many:
                tensors.extend(item for item in written[1:-1].split(", ") if item)
        return [*(f"version({tensor})" for tensor in tensors), *versions]

    def _connecting(self, number: int, vjp: VJP, reads: list[str], leaves: list[int], needed: list[int]) -> list[str]:
        grads = [i for i, read in enumerate(vjp.reads) if read in cotangent_names(self.signature).values()]
        self.namespace[f"connect{number}"] = (vjp, tuple(grads), [leaves.index(i) for i in needed])
        results = ", ".join(f"d{i}" for i in needed)
        # A residual hangs on every input, also on one that requires grad at another transform level only.
        inputs = list(map(self._save_leaf, range(len(self.mask)))) if vjp.residual else []
        return [
            "if recording:",
            f"    read, inputs = ({', '.join(reads)},), [{', '.join(inputs)}]",
            f"    ({results},) = connected(connect{number}, plan, ({results},), read, inputs)",
        ]

    def _missing(self, ctx: Any, index: int, name: str) -> None:
        """An input without a rule: no gradient if nobody waits for it, an error if somebody does."""
        if _torch.engine_wants(ctx, index):
            raise missing_rule(self.record, name, "reverse")

    def _stale(self) -> None:
        raise DerivativeError(
            "forward over reverse at one level: a rule reads an output, which was saved without its tangent",
            operator=self.record.name,
            expected="torch.func.jvp over torch.func.grad, or a rule that reads inputs only",
            got="a backward pass inside torch.autograd.forward_ad.dual_level",
        )


def _connected(
    about: tuple[VJP, tuple[int, ...], list[int]],
    plan: Any,
    made: Sequence[Tensor],
    reads: Sequence[Any],
    inputs: list[Tensor],
) -> list[Tensor]:
    vjp, grads, positions = about
    tensors = [source for source in _items(reads) if isinstance(source, Tensor)] + inputs

    def hanging() -> Sequence[bool]:
        return attached(functools.partial(vjp.call, plan), reads, grads, positions)

    return connect(vjp.label, vjp.opaque, made, tensors, _items([reads[i] for i in grads]), hanging)


def _items(values: Sequence[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _profiled(label: str, call: Callable[..., Any], *arguments: Any) -> Any:
    with torch.profiler.record_function(label):
        return call(*arguments)
