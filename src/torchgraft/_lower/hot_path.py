"""The source of an operator's ``__call__``.

An ``@`` in the templates marks a name of ours; it becomes two underscores, with which no parameter may begin, so that
a parameter called `kernel` or `type` hides nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch.compiler import is_dynamo_compiling

from .. import _torch
from .._generated import compile_source
from .._kernels.ownership import HOT_ALONE, HOT_ALONE_IN_LIST
from .._spec.scalars import Scalar
from .._spec.seed import drawn
from .._spec.signature import Parameter, Signature
from .._spec.structures import Structure
from .draw import END, drawing
from .node import Recorded
from .structures import lacking, refuse
from .watch import WATCHES

_TEMPLATE = """\
def @make(@slow, @find, @compiled, @watches):
    @current = @never

    def @install(@entry):
        nonlocal @current
        @current = @entry

    def __call__(@self, {parameters}):{take}
        {draw}if @is_dynamo_compiling():
            ({outputs},) = @compiled({arguments})
            return {compiled_result}
        {convert}
        @admits, @returns, @kernel, @node, @entry = @current
        if not ({admitted}):
            @found = @find({key}, ({tensors},))
            if @found is None:
                return @slow({arguments})
            @install(@found)
            @admits, @returns, @kernel, @node, @entry = @found
        if @watches or @dispatch_modes() or @forward_ad._current_level >= 0 or @profiler._is_profiler_enabled:
            return @slow({arguments})
        if @node is not None and @is_grad_enabled():
            {node}
        {run}
        return {result}

    return __call__, @install

def @make_run(@returns, @kernel, @entry):
    def run({arguments}):
        {run_alone}
        return {returned}
    return run

def @make_uncounted(@returns, @kernel, @entry):
    def uncounted({arguments}):
        {run_uncounted}
        return ({outputs},)
    return uncounted
"""

INDENT = "\n        "

_DRAW = """\
if {seed} is @drawn and generator is None and {plain} and not @count_function_modes():
            try: {seed} = @randint(@end, ())
            except @runtime_error: {seed} = @seed({seed}, None, ({others}))
        elif generator is not None or not @isinstance({seed}, @tensor):
            {seed} = @seed({seed}, generator, ({others}))
        """
"""The seed of a call; the plain case first, in which torch's own function is all that it costs."""

_RUN = """\
{versions}
{assign}
if not ({fits}{unchanged}):
    ({outputs},) = @entry.settle(({arguments},), @out, {counted})
{owned}"""

_TRUSTED = """\
try:
    {call}
except @runtime_error as @error:
    raise @entry.kernel_of.explained(@error, ({arguments},)) from None"""

OWNED = """
if @references({output}) > @alone or @storage_holders(@storage_address({output})) > 1:
    {output} = {output}.clone()"""


OWNED_LIST = """
for @i, @item in enumerate({output}):
    if @references(@item) > @alone_in_list or @storage_holders(@storage_address(@item)) > 1:
        {output}[@i] = @item.clone()"""


_UNPACKED = """{call}
try:
    ({inner},) = @out
    @fits = @returns({names})
except @errors:  # It is no list, or one of another length.
    @fits = False"""


WITHOUT_GRAD = """\
if @is_grad_enabled():
    @set_grad_enabled(False)
    try:
        {call}
    finally:
        @set_grad_enabled(True)
else:
    {call}"""


@dataclass(frozen=True)
class Checks:
    """Checks that a call can leave out.

    Attributes:
        owned: nobody else holds what the kernels return.
        trusted: nor do they return anything unexpected, or write into their inputs: what surrounds them is ours.
    """

    owned: bool
    trusted: bool


class HotPath:
    """The generated functions of one operator.

    Attributes:
        make_run: ``make_run(returns, kernel, entry)`` gives the checked kernel.
        make_uncounted: the same for inputs that do not count their mutations; it returns a tuple.
    """

    template: ClassVar[str] = _TEMPLATE

    def __init__(self, signature: Signature, title: str, never: Any, checks: Checks) -> None:
        self.signature = signature
        self.checks = checks
        self.tensors = [p for _, p in signature.tensors]
        self.scalars = [p for p in signature.parameters if not p.is_tensor]
        self.names = [f"@o{i}" for i in range(len(signature.outputs))]
        # With a star a name stands for all tensors of a list, both where it is assigned and where it is read.
        self.outputs = [f"{'*' if o.many else ''}{n}" for n, o in zip(self.names, signature.outputs, strict=True)]
        self.shown = [i for i, output in enumerate(signature.outputs) if not output.saved]
        self.arguments = ", ".join(p.name for p in signature.parameters)
        namespace = compile_source(self._source().replace("@", "__"), title, self._namespace(never))
        self._make: Callable[..., Any] = namespace["__make"]
        self.make_run: Callable[..., Any] = namespace["__make_run"]
        self.make_uncounted: Callable[..., Any] = namespace["__make_uncounted"]

    @property
    def _single(self) -> bool:
        """The kernel returns one tensor, and nothing around it."""
        return self.signature.alone and not self.signature.returns_list

    def make(
        self, slow: Any, find: Any, compiled: Any, watches: Any = WATCHES
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Make ``__call__``, which is slow while there are `watches`, and the function that installs what it admits."""
        call, install = self._make(slow, find, compiled, watches)
        call.__qualname__ = self.signature.name  # Python calls it so where an argument is missing.
        return call, install

    def _namespace(self, never: Any) -> dict[str, Any]:
        names: dict[str, Any] = {
            "never": never,
            "is_dynamo_compiling": is_dynamo_compiling,
            "dispatch_modes": _torch.dispatch_modes,
            "forward_ad": _torch.forward_ad,
            "profiler": _torch.profiler,
            "structure": self.signature.beside if self.signature.written else self.signature.structure,
            "type": type,
            "getattr": getattr,
            "tuple": tuple,
            "references": sys.getrefcount,
            "alone": HOT_ALONE,
            "alone_in_list": HOT_ALONE_IN_LIST,
            "storage_holders": _torch.storage_holders,
            "storage_address": _torch.storage_address,
            "errors": (TypeError, ValueError),
            "runtime_error": RuntimeError,
            "is_grad_enabled": torch.is_grad_enabled,
            "set_grad_enabled": _torch.set_grad_enabled,
            "new": tuple.__new__,  # The class itself takes three times as long.
            "recorded": Recorded,
            "isinstance": isinstance,
            "tensor": torch.Tensor,
            "drawn": drawn,
            "seed": drawing(self.signature) if self.signature.seed is not None else None,
            "count_function_modes": _torch.count_function_modes,
            "randint": torch.randint,
            "end": END,
        }
        names |= {f"default_{p.name}": p.default for p in self.signature.given if not p.required}
        inner = [inner for structure in self.signature.structures for inner in structure.all]
        names |= {"attribute_error": AttributeError, "lacking": partial(lacking, self.signature.name)}
        names |= {f"class_{s.identifier}": s.cls for s in inner}
        names |= {f"refuse_{s.identifier}": partial(refuse, self.signature.name, s) for s in inner}
        names |= {f"convert_{p.name}": self._converter(p) for p in self.scalars}
        names |= {f"type_{p.name}": p.scalar.type for p in self.scalars}
        names |= {f"absent_{p.name}": _torch.absent(i) for i, p in self.signature.tensors if p.optional}
        return {} | {f"__{name}": value for name, value in names.items()}

    def _converter(self, parameter: Parameter) -> Callable[[Any], Any]:
        scalar, operator = parameter.scalar, self.signature.name

        def convert(value: Any) -> Any:
            return None if value is None and parameter.optional else scalar.convert(value, operator, parameter.shown)

        return convert

    def _source(self) -> str:
        return self.template.format(
            parameters=self._parameters(),
            take="".join(f"{INDENT}{line}" for line in self._take()),
            draw=self._draw(),
            arguments=self.arguments,
            convert=INDENT.join(self._conversions()) or "pass",
            tensors=", ".join(self._leaves()),
            admitted=self._admitted(),
            key=self._key(),
            **self._parts(),
        )

    def _parts(self) -> dict[str, str]:
        """The parts of the template that are about running the kernel."""
        outputs = ", ".join(self.outputs)
        returned = f"({outputs},)" if self.signature.returns_list else outputs
        lists = {i for i, output in enumerate(self.signature.outputs) if output.many}
        # To the Dynamo of torch 2.11, what a star assigns is a tuple.
        compiled = [f"[*{self.names[i]}]" if i in lists else self.names[i] for i in self.shown]
        return {
            "node": self._node().replace("\n", f"{INDENT}    "),
            "run": self._run(early=self._result(), recording=True).replace("\n", INDENT),
            "run_alone": self._run(early=returned).replace("\n", INDENT),
            "run_uncounted": self._run(early=None).replace("\n", INDENT),
            "result": self._result(),
            "compiled_result": self._packed(compiled, self.signature.structure),
            "outputs": outputs,
            "returned": returned,
        }

    def _result(self) -> str:
        """The result that callers get, as one expression."""
        return self._packed([self.names[i] for i in self.shown], self.signature.structure)

    def _take(self) -> list[str]:
        """Lines that put the fields of structures into variables of their own; none where there are none."""
        lines = [f"    {line}" for s in self.signature.structures for line in _fields(s, s.name)]
        failed = ["except @attribute_error as @error:", "    raise @lacking(@error) from None"]
        return ["try:", *lines, *failed] if lines else []

    def _parameters(self) -> str:
        parts: list[str] = []
        for parameter in self.signature.given:
            if parameter.keyword_only and "*" not in parts:
                parts.append("*")
            parts.append(parameter.name + ("" if parameter.required else f"=@default_{parameter.name}"))
        return ", ".join([*parts, "generator=None"] if self.signature.seed is not None else parts)

    def _draw(self) -> str:
        """The line that draws a seed, before Dynamo and the dispatcher see the call; of other operators nothing."""
        if self.signature.seed is None:
            return ""
        others = [p for p in self.tensors if not p.is_seed]
        plain = next((p.name for p in others if not (p.optional or p.many)), "None")
        return _DRAW.format(
            seed=self.signature.parameters[self.signature.seed].name,
            plain=f"@type({plain}) is @tensor and {plain}.is_cpu",
            others="".join(f"{p.name}, " for p in others),
        )

    def _admitted(self) -> str:
        """The test that the entry is about arguments like these."""
        tests = [f"@admits({', '.join(self._leaves())})"]
        if self.signature.shape_arguments:  # They come last: to compare a tracer's symbol is to make a number of it.
            tests.append(f"({', '.join(self._shape_arguments())},) == @entry.shape_arguments")
        return " and ".join(tests)

    def _leaves(self) -> list[str]:
        return [f"@absent_{p.name} if {p.name} is None else {p.name}" if p.optional else p.name for p in self.tensors]

    def _conversions(self) -> list[str]:
        """Numbers are converted; what has the right type already is told by its type alone."""
        lines: list[str] = []
        for p in self.scalars:
            call = f"{p.name} = @convert_{p.name}({p.name})"
            right = f"{p.name} is not None and " if p.optional else ""
            lines.append(
                call if needs_conversion(p.scalar) else f"if {right}@type({p.name}) is not @type_{p.name}: {call}"
            )
        return lines

    def _key(self) -> str:
        items = [f"@getattr({p.name}, 'shape', None)" for p in self.tensors]
        return f"({', '.join([*items, *self._shape_arguments()])},)"

    def _shape_arguments(self) -> list[str]:
        """Arguments that shapes depend on, lists as tuples, which can be part of a key."""
        many = {p.name for p in self.scalars if p.scalar.many}
        return [f"({name} and @tuple({name}))" if name in many else name for name in self.signature.shape_arguments]

    def _node(self) -> str:
        """The statements that apply the node, and return what the caller sees."""
        call = f"@node({self._recorded()}, {self._node_leaves()})"
        if self.signature.returns_list:
            targets = ", ".join(self.outputs[i] for i in self.shown)
            return f"({targets},) = {call}\nreturn {self._result()}"
        if self.signature.structure is None:
            return f"return {call}"
        single = len(self.signature.visible) == 1
        if self.signature.structure is tuple:
            return f"return ({call},)" if single else f"return {call}"
        return f"return @structure({'' if single else '*'}{call})"

    def _recorded(self) -> str:
        """The call that the node records."""
        scalars = ", ".join(p.name for p in self.scalars)
        return f"@new(@recorded, (@entry.run, @entry.plan, ({scalars},), None))" if scalars else "@entry.recorded"

    def _node_leaves(self) -> str:
        leaves = ", ".join(p.name for p in self.tensors)
        if any(p.optional for p in self.tensors):  # The node was made for the tensors that are there.
            return f"*[t for t in ({leaves},) if t is not None]"
        return leaves

    def _packed(self, outputs: list[str], structure: type | None) -> str:
        """The outputs that callers get, as one expression."""
        if structure is None:
            return outputs[0]
        return f"{'' if structure is tuple else '@structure'}({', '.join(outputs)},)"

    def _run(self, *, early: str | None, recording: bool = False) -> str:
        """The kernel and the checks of what it returned, all of them at every call; a trusted kernel's call alone.

        Args:
            early: what to return where the inputs turn out not to count their mutations (inference tensors do not);
                None to leave out that they have not been mutated.
            recording: grad mode may be on, and is switched off for the kernel.
        """
        if self.checks.trusted:
            call = f"return @kernel({self.arguments})" if recording and self._single else self._assign(recording=False)
            return _TRUSTED.format(call=call.replace("\n", "\n    "), arguments=self.arguments)
        versions: list[str] = []
        unchanged: list[str] = []
        for i, p in enumerate(self.tensors if early is not None else ()):
            here = f"{p.name} is not None and " if p.optional else ""
            versions.append(f"@v{i} = {here}{p.name}._version")
            unchanged.append(f" and @v{i} == ({here}{p.name}._version)" if here else f" and {p.name}._version == @v{i}")
        if early is not None:
            versions = ["try:", *(f"    {line}" for line in versions), "except @runtime_error:"]
            versions += [
                f"    ({', '.join(self.outputs)},) = @entry.uncounted({self.arguments})",
                f"    return {early}",
            ]
        counted = f"({', '.join(f'@v{i}' for i in range(len(self.tensors)))},)"
        return _RUN.format(
            versions="\n".join(versions) or "pass",
            arguments=self.arguments,
            assign=self._assign(recording=recording),
            outputs=", ".join(self.outputs),
            fits="@fits" if self.signature.returns_list else f"@returns({', '.join(self.outputs)})",
            owned="" if self.checks.owned else self._owned(),
            unchanged="".join(unchanged),
            counted=counted if early is not None else "None",
        ).strip()

    def _owned(self) -> str:
        outputs = zip(self.names, self.signature.outputs, strict=True)
        return "".join((OWNED_LIST if o.many else OWNED).format(output=name) for name, o in outputs)

    def _assign(self, *, recording: bool) -> str:
        """The call of the kernel, and its outputs one by one."""
        call = f"{'@o0 = ' if self._single else ''}@out = @kernel({self.arguments})"
        if recording:
            call = WITHOUT_GRAD.format(call=call)
        if self._single:
            return call
        names = ", ".join(self.outputs)
        if not self.signature.returns_list:
            return f"{call}\ntry:\n    ({names},) = @out\nexcept @errors:\n    {' = '.join(self.names)} = None"
        inner = names if self.signature.alone else ", ".join(f"({o},)" if o[0] == "*" else o for o in self.outputs)
        if self.checks.trusted:
            return f"{call}\n({inner},) = @out"
        return _UNPACKED.format(call=call, inner=inner, names=names)


def _fields(structure: Structure, value: str) -> Iterator[str]:
    """Lines that check a structure's class, and read its fields."""
    name = structure.identifier
    yield f"if @type({value}) is not @class_{name}: raise @refuse_{name}({value})"
    for field, kept in structure.fields:
        if isinstance(kept, str):
            yield f"{kept} = {value}.{field}"
        else:
            yield f"@{kept.identifier} = {value}.{field}"
            yield from _fields(kept, f"@{kept.identifier}")


def needs_conversion(scalar: Scalar) -> bool:
    """Return True if only a conversion can tell that a value is right: lists, choices and devices."""
    return scalar.many or bool(scalar.choices) or scalar.type is torch.device
