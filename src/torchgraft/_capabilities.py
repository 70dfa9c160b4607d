"""Capabilities of an operator, read from its record and said in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ._kernels.kernel import Kernel
from ._mesh.cuts import promised_axes
from ._record import Record
from ._rules.kinds import Kind, differentiable_outputs, inert_outputs
from ._rules.rule import Rule
from ._rules.surrogate import function_name
from ._spec.signature import Signature


@dataclass(frozen=True)
class Capability:
    """The answer to whether an operator supports one transform.

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


def capabilities(record: Record, device: str = "cpu") -> dict[str, Capability]:
    """An answer for each transform, on one type of device."""
    inputs = differentiable_inputs(record)
    autocast = f"inputs cast to {record.autocast}" if record.autocast else "widest input dtype"
    kernel = record.kernels.get(device) or record.kernels[None]
    if not kernel.runs_on(device):
        missing = Capability("no", f"add @{record.name}.kernel('{device}')")
        return dict.fromkeys(("reverse", "forward", "second order", "vmap", "compile", "export", "autocast"), missing)
    answers = {
        "reverse": _combine(record, inputs, device, _reverse),
        "forward": _combine(record, inputs, device, _forward),
        "second order": _combine(record, inputs, device, _second_order),
        "vmap": _vmap(record, kernel),
        "compile": _compile(record),
        "export": _export(record),
        "autocast": Capability("yes", autocast),
    }
    if record.eager_node is not None:  # Nobody has read an adopted Function.
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


def _combine(
    record: Record, inputs: list[str], device: str, ask: Callable[[Record, str, str], Capability]
) -> Capability:
    """One answer from that for each input: the weakest."""
    if not inputs:
        return Capability("no", "no input is differentiable")
    answers = {name: ask(record, name, device) for name in inputs}
    refused = {name: c for name, c in answers.items() if c.answer == "no"}
    if refused and len(refused) < len(answers):
        partly = ", ".join(_shown(record, name) for name in answers if name not in refused)
        return Capability("no", "; ".join(dict.fromkeys(c.how for c in refused.values())) + f" (yes for {partly})")
    if refused:
        return Capability("no", "; ".join(dict.fromkeys(c.how for c in refused.values())))
    weaker = [c for answer in ("unknown", "derived") for c in answers.values() if c.answer == answer]
    return weaker[0] if weaker else Capability("yes")


def _reverse(record: Record, name: str, device: str) -> Capability:
    rule = record.reverse_rule(name)
    if rule is None:
        return Capability("no", f'add @{record.name}.vjp("{_shown(record, name)}")')
    hindered = _runs(record, rule, device)
    return Capability("yes", rule.label) if hindered is None else hindered


def _runs(record: Record, rule: Rule, device: str) -> Capability | None:
    """Find what is in the way of a rule, whatever it is used for; None where nothing is."""
    ignored = rule.ignored(record.signature)
    if ignored:
        return Capability("no", f"{rule.label} does not read {ignored[0]}")
    if not rule.runs_on(device):
        return Capability("no", f"{rule.label} is {rule.medium}, for the CPU alone")
    return None


def _forward(record: Record, name: str, device: str) -> Capability:
    rule = record.forward_rule(name)
    if rule is None or (rule.kind == "vjp" and rule.is_operator):
        return Capability("no", f'add @{record.name}.jvp("{_shown(record, name)}")')
    if rule.kind == "adjoint":  # Forward mode calls the operator itself.
        return Capability("yes", rule.label)
    hindered = _runs(record, rule, device)
    if hindered is not None:
        return hindered
    return Capability("derived", "the transpose of the vjp") if rule.kind == "vjp" else Capability("yes", rule.label)


def _second_order(record: Record, name: str, device: str) -> Capability:
    rule = record.reverse_rule(name)
    if rule is None:
        return Capability("no", f'add @{record.name}.vjp("{_shown(record, name)}")')
    hindered = _runs(record, rule, device)
    if hindered is not None:
        return hindered
    if rule.opaque:
        why = f"is {rule.medium}" if rule.is_operator else "reads a floating Saved output"
        return Capability("no", f"{rule.label} {why}: write it with torch functions")
    if rule.kind == "adjoint" and rule.is_operator:
        read = [name for name in rule.reads if _is_input(record.signature, name)]
        missing = [name for name in read if record.reverse_rule(name) is None and name not in record.nondifferentiable]
        if missing:
            return Capability("no", f'add @{record.name}.adjoint("{_shown(record, missing[0])}")')
        return Capability("yes", "adjoints")
    inert = next((output.name for output in inert_outputs(record.signature) if output.name in rule.reads), None)
    if inert is not None:
        return Capability("unknown", f"where no derivative flows through {inert}, which {rule.label} reads")
    return Capability("derived", "the rules are differentiated")


def _shown(record: Record, name: str) -> str:
    """The name of a parameter as callers write it: a field's is ``state.velocity``."""
    return record.signature.names[name].shown


def _is_input(signature: Signature, name: str) -> bool:
    return (
        name in signature.names
        and signature.names[name].is_tensor
        and signature.names[name].tensor.dtypes.differentiable
    )


def _vmap(record: Record, kernel: Kernel) -> Capability:
    signature = record.signature
    if signature.late:
        sizes = " and ".join(sorted(signature.late_names))
        return Capability("no", f"the size {sizes} is known only after the call: pad to the capacity, return a count")
    if signature.loop:
        return Capability("yes", "leading axes; the kernel is looped" if kernel.opaque else "leading axes")
    axes = [p.tensor.axes for _, p in signature.tensors] + [output.type.axes for output in signature.outputs]
    runs = {None if item is None or item.leading_run is None else item.leading_run.text for item in axes}
    if None not in runs and len(runs) == 1:
        return Capability("yes", "elementwise" if signature.elementwise else f"batch axes {runs.pop()}")
    how = "one kernel call for each sample" if kernel.opaque else "torch.vmap of the kernel, a loop where it cannot"
    answer = "loop" if kernel.opaque else "derived"
    batched = [
        p.shown
        for _, p in signature.tensors
        if not p.is_seed and p.tensor.axes is not None and p.tensor.axes.leading_run is not None
    ]
    outputs_batched = all(o.type.axes is not None and o.type.axes.leading_run is not None for o in signature.outputs)
    if batched and outputs_batched:
        return Capability(answer, f"{how}; batch axes where only {', '.join(batched)} is mapped")
    return Capability(answer, how)


def _compile(record: Record) -> Capability:
    if not record.signature.shaped and record.shape_rule is None and record.opaque:
        add = f"add @{record.name}.shape"
        return Capability("no", add if record.signature.returns_list else f"annotate the output's axes, or {add}")
    return Capability("yes", "one call, not fused" if record.sealed else "fused, with its own derivative")


def _export(record: Record) -> Capability:
    compiled = _compile(record)
    if not compiled:
        return compiled
    return Capability("yes", "runs where Python and this operator are" if record.sealed else "decomposes to ATen")


def describe(record: Record) -> str:
    """The operator in words: schema, kernels, rules and transforms."""
    signature = record.signature
    schema = signature.writing_schema() if signature.written else signature.schema()
    lines = [f"{record.qualname}{_signature_text(signature)}", f"  schema   {record.qualname}{schema}"]
    for structure in signature.structures:
        fields = ", ".join(signature.names[name].shown for name in structure.parameters)
        lines.append(f"  takes    {structure.name}: {structure.cls.__name__}, a {structure.kind} of {fields}")
    kernels = ", ".join(
        f"{device or ', '.join(record.default_devices())}: {kernel.kind}" + (', batch="loop"' if signature.loop else "")
        for device, kernel in record.kernels.items()
    )
    lines.append(f"  kernels  {kernels}")
    lines += [f"  cuda     {text}" for text in _cuda_texts(record)]
    if signature.written:
        names = ", ".join(p.name for p in signature.written)
        lines.append(f"  writes   {names}: in place; under transforms, the new value is copied")
    if signature.late:
        lines.append(f"  sizes    {', '.join(map(str, signature.late))}: known only after the call")
    if record.accuracy is not None:
        lines.append(f"  accuracy {record.accuracy:g} of the largest element of each output")
    lines += [f"  random   {_random_text(signature, p.name)}" for p in signature.parameters if p.is_seed]
    lines.append("  rules")
    ruled = [p for _, p in signature.tensors if not p.is_seed]
    width = max((len(p.shown) for p in ruled), default=0)
    lines += [f"    {p.shown:{width}}  {_rule_text(record, p.name)}" for p in ruled]
    lines += [f"    {o.name:{width}}  {_no_derivative(record, o.name)}" for o in inert_outputs(signature)]
    lines.append(f"  mesh     {_mesh_text(record)}")
    lines.append("  transforms")
    answers = capabilities(record)
    width = max(map(len, answers))
    for name, answer in answers.items():
        lines.append(f"    {name:{width}}  {answer}")
        elsewhere = {device: capabilities(record, device)[name] for device in record.devices() if device != "cpu"}
        lines += [
            f"    {'':{width}}  on {'other devices' if device == 'any' else device}, {other}"
            for device, other in elsewhere.items()
            if str(other) != str(answer)
        ]
    return "\n".join(lines)


def _cuda_texts(record: Record) -> Iterator[str]:
    """Say what a C kernel is good for on CUDA, and what it costs, or why it is none there."""
    kernel = record.kernels.get("cuda") or record.kernels[None]
    if kernel.native is None or not kernel.runs_on("cuda"):
        return
    if not kernel.native.prototype.scalar and kernel.native.source.per_sample:
        yield "one thread a sample: good for many small samples, slow for few large ones"
    from ._build.cuda.doubles import said  # Most programs print no operator.

    doubles = said(record.natives())
    if doubles:
        yield doubles


def _random_text(signature: Signature, seed: str) -> str:
    """Say who draws the seed, and how many there are."""
    run = "leading axes" if signature.loop else None if signature.batch_run is None else signature.batch_run.text
    samples = f"; each sample along {run} has its own" if run is not None else ""
    return f"{seed} is drawn by torch's generator where it is left out{samples}"


def _mesh_text(record: Record) -> str:
    """Say which axes of DTensors are cut, and which are gathered."""
    promised = promised_axes(record)
    linear = ", ".join(_shown(record, name) for name in record.rules["adjoint"])
    gathered = [
        token.text
        for axes in dict.fromkeys(p.tensor.axes for _, p in record.signature.tensors if not p.is_seed)
        for token in (axes.tokens if axes is not None else ())
        if token.text not in {name for names in promised.values() for name in names}
    ]
    whole = ", ".join(dict.fromkeys(gathered)) or ("" if promised["batch"] else "everything")
    parts = {
        "cuts": ", ".join([*promised["batch"], *promised["parallel"]]),
        "cuts and sums over": ", ".join(promised["reduction"]),
        "passes sums through": linear,
        "gathers": whole,
    }
    return "; ".join(f"{words} {names}" for words, names in parts.items() if names)


def _signature_text(signature: Signature) -> str:
    parameters = []
    for p in signature.parameters:
        kind = f"{'list of ' if p.many else ''}{p.type}{' | None' if p.optional else ''}"
        kind = "Seed" if p.is_seed else f"tg.Mutated[{kind}]" if p.written else kind
        text = f"{p.shown}: {kind}"
        parameters.append(text if p.required else f"{text} = {p.default!r}")
    outputs = ", ".join(f"{o.name}: {o}{' (saved)' if o.saved else ''}" for o in signature.returned)
    return f"({', '.join(parameters)}) -> {outputs or None}"


def _rule_text(record: Record, name: str) -> str:
    if name in record.nondifferentiable:
        return _no_derivative(record, name)
    if not _is_input(record.signature, name):
        return "not differentiable: its dtype has no derivative"
    kinds: tuple[Kind, ...] = ("vjp", "jvp", "partial", "adjoint")
    found = [record.rules[kind][name] for kind in kinds if name in record.rules[kind]]
    texts = [
        f"{rule.label} {rule.medium}, reads {', '.join(rule.reads) or 'nothing'}"
        + (f", independent of {', '.join(rule.independent)}" if rule.independent else "")
        for rule in found
    ]
    if name in record.surrogates:
        texts.append(f"surrogate of {function_name(record.surrogates[name])}")
    return "; ".join(texts) or "none"


def _no_derivative(record: Record, name: str) -> str:
    reason = record.nondifferentiable[name]
    return f"nondifferentiable: {reason}" if reason else "nondifferentiable"
