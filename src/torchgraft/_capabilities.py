"""What an operator can do, read from its record and said in words."""

from __future__ import annotations

from dataclasses import dataclass

from ._record import Record
from ._rules.kinds import Kind, differentiable_outputs
from ._spec.signature import Signature


@dataclass(frozen=True)
class Capability:
    """One answer.

    Attributes:
        answer: ``yes``; ``derived`` from a rule or from the kernel's body; ``loop``, one sample at a time; ``unknown``
            of code that was written for something else: it is right or raises; ``no``.
        how: how it is done; on what it depends, where that is unknown; what to add, where the answer is no.
    """

    answer: str
    how: str = ""

    def __bool__(self) -> bool:
        return self.answer not in ("no", "unknown")

    def __str__(self) -> str:
        return f"{self.answer}: {self.how}" if self.how else self.answer


def capabilities(record: Record) -> dict[str, Capability]:
    """An answer for each transform."""
    inputs = differentiable_inputs(record)
    answers = {
        "reverse": _combine(record, inputs, _reverse),
        "forward": _combine(record, inputs, _forward),
        "second order": _combine(record, inputs, _second_order),
        "vmap": _vmap(record),
        "compile": _compile(record),
        "export": _export(record),
        "autocast": Capability("yes", f"inputs cast to {record.autocast}" if record.autocast else "widest input dtype"),
    }
    if record.eager_node is not None:  # an adopted Function, which nobody has read
        answers |= {name: Capability("unknown", how) for name, how in _ADOPTED.items() if answers[name]}
    return answers


_ADOPTED = {
    "forward": "the transpose of backward, where both methods are torch code",
    "second order": "where both methods are torch code, and backward does not say once_differentiable",
    "vmap": "torch.vmap of forward, or a loop, where it draws no random numbers",
    "compile": "forward, as a call at least; its derivative, where both methods are torch code",
    "export": "decomposes to ATen, where forward is torch code",
}


def differentiable_inputs(record: Record) -> list[str]:
    """Inputs that can have a derivative and were not declared to have none."""
    if not differentiable_outputs(record.signature):
        return []
    return [
        p.name
        for _, p in record.signature.tensors
        if p.tensor.dtypes.differentiable and p.name not in record.nondifferentiable
    ]


def _combine(record: Record, inputs: list[str], ask: object) -> Capability:
    """One answer from that for each input: the weakest."""
    assert callable(ask)
    if not inputs:
        return Capability("no", "no input is differentiable")
    answers: dict[str, Capability] = {name: ask(record, name) for name in inputs}
    refused = {name: c for name, c in answers.items() if c.answer == "no"}
    if refused and len(refused) < len(answers):
        partly = ", ".join(name for name in answers if name not in refused)
        return Capability("no", "; ".join(dict.fromkeys(c.how for c in refused.values())) + f" (yes for {partly})")
    if refused:
        return Capability("no", "; ".join(dict.fromkeys(c.how for c in refused.values())))
    derived = [c for c in answers.values() if c.answer == "derived"]
    return derived[0] if derived else Capability("yes")


def _reverse(record: Record, name: str) -> Capability:
    rule = record.reverse_rule(name)
    if rule is None:
        return Capability("no", f'add @{record.name}.vjp("{name}")')
    return Capability("yes", rule.label)


def _forward(record: Record, name: str) -> Capability:
    rule = record.forward_rule(name)
    if rule is None:
        return Capability("no", f'add @{record.name}.jvp("{name}")')
    if rule.kind != "vjp":
        return Capability("yes", rule.label)
    if rule.is_operator:
        return Capability("no", f'add @{record.name}.jvp("{name}")')
    return Capability("derived", "the transpose of the vjp")


def _second_order(record: Record, name: str) -> Capability:
    rule = record.reverse_rule(name)
    if rule is None:
        return Capability("no", f'add @{record.name}.vjp("{name}")')
    if rule.opaque:
        why = f"is {rule.medium}" if rule.is_operator else "reads a floating Saved output"
        return Capability("no", f"{rule.label} {why}: write it with torch functions")
    if rule.kind == "adjoint" and rule.is_operator:
        missing = [
            read for read in rule.reads if _is_input(record.signature, read) and record.reverse_rule(read) is None
        ]
        if missing:
            return Capability("no", f'add @{record.name}.adjoint("{missing[0]}")')
        return Capability("yes", "adjoints")
    return Capability("derived", "the rules are differentiated")


def _is_input(signature: Signature, name: str) -> bool:
    return (
        name in signature.names
        and signature.names[name].is_tensor
        and signature.names[name].tensor.dtypes.differentiable
    )


def _vmap(record: Record) -> Capability:
    signature = record.signature
    if signature.loop:
        return Capability("yes", "leading axes; the kernel is looped" if record.opaque else "leading axes")
    axes = [p.tensor.axes for _, p in signature.tensors] + [output.type.axes for output in signature.outputs]
    runs = {None if item is None or item.leading_run is None else item.leading_run.text for item in axes}
    if None not in runs and len(runs) == 1:
        return Capability("yes", "elementwise" if signature.elementwise else f"batch axes {runs.pop()}")
    how = "one kernel call for each sample" if record.opaque else "torch.vmap of the kernel, a loop where it cannot"
    answer = "loop" if record.opaque else "derived"
    batched = [
        p.name for _, p in signature.tensors if p.tensor.axes is not None and p.tensor.axes.leading_run is not None
    ]
    outputs_batched = all(o.type.axes is not None and o.type.axes.leading_run is not None for o in signature.outputs)
    if batched and outputs_batched:
        return Capability(answer, f"{how}; batch axes where only {', '.join(batched)} is mapped")
    return Capability(answer, how)


def _compile(record: Record) -> Capability:
    if not record.signature.shaped and record.shape_rule is None and record.opaque:
        return Capability("no", f"annotate the output's axes, or add @{record.name}.shape")
    return Capability("yes", "one call, not fused" if record.opaque else "fused, with its own derivative")


def _export(record: Record) -> Capability:
    compiled = _compile(record)
    if not compiled:
        return compiled
    return Capability("yes", "runs where Python and this operator are" if record.opaque else "decomposes to ATen")


def describe(record: Record) -> str:
    """The operator in words: schema, kernels, rules and transforms."""
    signature = record.signature
    lines = [f"{record.qualname}{_signature_text(signature)}", f"  schema   {record.qualname}{signature.schema()}"]
    kernels = ", ".join(
        f"{device or record.devices()[-1]}: {kernel.kind}" + (', batch="loop"' if signature.loop else "")
        for device, kernel in record.kernels.items()
    )
    lines.append(f"  kernels  {kernels}")
    lines.append("  rules")
    width = max(len(p.name) for _, p in signature.tensors)
    lines += [f"    {p.name:{width}}  {_rule_text(record, p.name)}" for _, p in signature.tensors]
    lines.append("  transforms")
    answers = capabilities(record)
    width = max(map(len, answers))
    lines += [f"    {name:{width}}  {answer}" for name, answer in answers.items()]
    return "\n".join(lines)


def _signature_text(signature: Signature) -> str:
    parameters = []
    for p in signature.parameters:
        text = f"{p.name}: {'list of ' if p.many else ''}{p.type}{' | None' if p.optional else ''}"
        parameters.append(text if p.required else f"{text} = {p.default!r}")
    outputs = ", ".join(f"{o.name}: {o.type}{' (saved)' if o.saved else ''}" for o in signature.outputs)
    return f"({', '.join(parameters)}) -> {outputs}"


def _rule_text(record: Record, name: str) -> str:
    if name in record.nondifferentiable:
        return "nondifferentiable"
    if not _is_input(record.signature, name):
        return "not differentiable: its dtype has no derivative"
    kinds: tuple[Kind, ...] = ("vjp", "jvp", "partial", "adjoint")
    found = [record.rules[kind][name] for kind in kinds if name in record.rules[kind]]
    texts = [f"{rule.label} {rule.medium}, reads {', '.join(rule.reads) or 'nothing'}" for rule in found]
    return "; ".join(texts) or "none"
