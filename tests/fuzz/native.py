"""The same formulas in C: one source text for an operator's kernel and all of its rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .blocks import CONJUGATE, Expr, diff, variables, write
from .tensors import Argument, Formula, Input, Node


@dataclass
class Function:
    """One C function: its text, what it reads, and its workspaces."""

    name: str
    text: str
    reads: tuple[str, ...]
    workspaces: tuple[tuple[str, str], ...]


def _number(argument: Argument) -> str:
    name = argument.name
    return {
        "bool": f"({name} ? 1.5 : 0.5)",
        "str": f"({name}_length == 5 ? 2.0 : 1.0)",
        "floats": f"{name}_sum",
    }.get(argument.kind, name)


_PARAMETERS = {
    "float": "double {0}", "int": "int64_t {0}", "bool": "bool {0}", "str": "const char *{0}, int64_t {0}_length",
    "floats": "const double *{0}, int64_t {0}_length",
}  # fmt: skip


@dataclass
class C:
    """Writes one C function."""

    formula: Formula
    element: str = "T"
    lines: list[str] = field(default_factory=list)
    workspaces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    results: list[str] = field(default_factory=list)
    tangent_names: dict[str, str] = field(default_factory=dict)
    depth: int = 1

    @property
    def language(self) -> str:
        return "c complex" if self.formula.complex else "c"

    # -- writing --------------------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def loop(self, axes: Sequence[str]) -> None:
        for axis in axes:
            self.say(f"for (int64_t i_{axis} = 0; i_{axis} < {axis}; i_{axis}++) {{")
            self.depth += 1

    def end(self, axes: Sequence[str]) -> None:
        for _ in axes:
            self.depth -= 1
            self.say("}")

    def place(self, name: str, axes: Sequence[str], last: str | None = None) -> str:
        """An element; `last`: another index along the last axis."""
        if self.formula.elementwise:  # locals are told from parameters, which have the names of inputs and outputs
            return name if name in self.parameters else f"v_{name}"
        return f"{name}[{self.index(axes, last)}]"

    def index(self, axes: Sequence[str], last: str | None = None) -> str:
        """The number of an element."""
        index = "0"
        for i, axis in enumerate(axes):
            at = last if last is not None and i == len(axes) - 1 else f"i_{axis}"
            index = at if index == "0" else f"({index}) * {axis} + {at}"
        return index

    def buffer(self, name: str, axes: tuple[str, ...]) -> None:
        """Memory for an intermediate: a local number, or a workspace."""
        if self.formula.elementwise:
            self.say(f"T v_{name};")
        elif not axes:
            self.say(f"T {name}[1];")
        else:
            self.workspaces[name] = axes

    def value(self, e: Expr) -> str:
        names: dict[str, str] = {}
        for name in sorted(variables(e)):
            argument = next((a for a in self.formula.arguments if a.name == name), None)
            if argument is not None:
                self.reads.add(name)
                names[name] = _number(argument)
            else:
                names[name] = self.read(name, self.formula.values[name])
        return write(e, self.language, names)

    def read(self, name: str, value: Input | Node, suffix: str = "") -> str:
        full = name + suffix
        if isinstance(value, Input):
            self.reads.add(full)
            self.parameters.add(full)
            if value.many:
                return f"list_sum({full}, {full}_length, {self.index(value.axes)})"
            if value.optional:
                return f"({full} ? {self.place(full, value.axes)} : 0)"
        return self.place(full, value.axes)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node(self, node: Node, target: str, terms: Sequence[tuple[Expr, str | None]]) -> None:
        """``target = scan(sum(terms))``; a term is an expression, times a variable's tangent where one is named."""
        if node.summed:
            self.loop(node.axes)
            self.say(f"{self.place(target, node.axes)} = 0;")
            self.end(node.axes)
        self.loop(node.span)
        value = " + ".join(
            self.value(e) if tangent is None else f"{self.value(e)} * {self.tangent(tangent)}" for e, tangent in terms
        )
        last = None
        if node.scan in ("flip", "roll"):
            axis = node.axes[-1]
            last = f"({axis} - 1 - i_{axis})" if node.scan == "flip" else f"((i_{axis} + 1) % {axis})"
        self.say(f"{self.place(target, node.axes, last)} {'+=' if node.summed else '='} {value};")
        self.end(node.span)
        if node.scan == "cumsum":
            self.cumsum(target, node.axes)

    def tangent(self, name: str) -> str:
        value = self.formula.values[name]
        if isinstance(value, Input):
            return self.read(name, value, "_tangent")
        return self.place(self.tangent_names[name], value.axes)

    def cumsum(self, target: str, axes: tuple[str, ...]) -> None:
        *outer, axis = axes
        self.loop(outer)
        self.say(
            f"for (int64_t i_{axis} = 1; i_{axis} < {axis}; i_{axis}++) "
            f"{self.place(target, axes)} += {self.place(target, axes, f'i_{axis} - 1')};"
        )
        self.end(outer)

    def forward(self, names: Iterable[str], *, written: Iterable[str] = ()) -> None:
        """Compute nodes; those that are not written to the caller's memory get memory of their own."""
        wanted, own = set(names), set(written)
        for node in reversed(self.formula.nodes):
            if node.name in wanted:
                wanted |= variables(node.expr) & {n.name for n in self.formula.nodes}
        for node in self.formula.nodes:
            if node.name in wanted:
                if node.name not in own:
                    self.buffer(node.name, node.axes)
                self.node(node, node.name, [(node.expr, None)])

    def needed(self, expressions: Iterable[Expr]) -> set[str]:
        return {v for e in expressions for v in variables(e)} & {n.name for n in self.formula.nodes}

    def numbers(self) -> None:
        """Sums of arguments that are lists of numbers, in front of everything."""
        made = []
        for argument in self.formula.arguments:
            if argument.kind == "floats" and argument.name in self.reads:
                n = argument.name
                made.append(f"    double {n}_sum = 0;")
                made.append(f"    for (int64_t j = 0; j < {n}_length; j++) {n}_sum += {n}[j];")
        self.lines[:0] = made

    # -- functions ------------------------------------------------------------------------------------------------

    def function(
        self, symbol: str, before: Sequence[str], arguments: Sequence[str], results: Sequence[str]
    ) -> Function:
        """The whole text.

        Args:
            before: names of cotangents and tangents, which come first.
            arguments: names of inputs and other arguments that it takes, in order.
            results: what it writes.
        """
        self.numbers()
        alone = self.formula.elementwise and len(results) == 1
        tensor = "T {}" if self.formula.elementwise else "const T *{}"
        parameters = [] if self.formula.elementwise else [f"int64_t {axis}" for axis in self.formula.sizes]
        parameters += [tensor.format(name) for name in before]
        for name in arguments:
            argument = next((a for a in self.formula.arguments if a.name == name), None)
            value = next((v for v in self.formula.inputs if v.name == name), None)
            if argument is not None:
                parameters.append(_PARAMETERS[argument.kind].format(name))
            elif value is not None and value.many:
                parameters.append(f"const T *const *{name}, int64_t {name}_length")
            else:
                parameters.append(tensor.format(name))
        parameters += [f"T *{name}" for name in self.workspaces]
        parameters += [] if alone else [f"T *{name}" for name in results]
        lines = list(self.lines)
        if self.formula.elementwise:
            lines += [f"    return {self.results[0]};"] if alone else [
                f"    *{name} = {value};" for name, value in zip(results, self.results, strict=True)
            ]  # fmt: skip
        text = f"{'T' if alone else 'void'} {symbol}({', '.join(parameters)}) {{\n" + "\n".join(lines) + "\n}\n"
        spaces = tuple((name, " ".join(axes)) for name, axes in self.workspaces.items())
        return Function(symbol, text, (*before, *arguments), spaces)


def _ordered(formula: Formula, reads: set[str]) -> list[str]:
    return [p.name for p in (*formula.inputs, *formula.arguments) if p.name in reads]


def kernel(formula: Formula, symbol: str) -> Function:
    c = C(formula)
    outputs = (*formula.outputs, *formula.saved)
    c.forward([n.name for n in formula.nodes], written=() if formula.elementwise else outputs)
    c.results = [f"v_{name}" for name in outputs]
    return c.function(symbol, [], _parameters(formula), outputs)


def _parameters(formula: Formula) -> list[str]:
    return [p.name for p in (*formula.inputs, *formula.arguments)]


def vjp(formula: Formula, symbol: str, targets: Sequence[str], cotangents: dict[str, str], *, kind: str) -> Function:
    c = C(formula)
    moved = formula.reaches(targets)
    pairs = [(n, v) for n in formula.nodes if n.name in moved for v in sorted(variables(n.expr) & moved)]
    pairs = [(n, v) for n, v in pairs if diff(n.expr, v)[0:2] != ("num", 0.0)]
    used = {v for _, v in pairs}
    if kind == "adjoint" and c.needed(diff(n.expr, v) for n, v in pairs) & moved:
        raise AssertionError("not linear")
    c.forward(c.needed(diff(n.expr, v) for n, v in pairs))
    for name in targets:
        if formula.elementwise:
            c.buffer(name, ())
        axes = formula.values[name].axes
        c.loop(axes)
        c.say(f"v_{name} = 0;" if formula.elementwise else f"{c.place(f'grad_{name}', axes)} = 0;")
        c.end(axes)
    nodes = [n for n in formula.nodes if n.name in moved and (n.name in used or n.name in formula.outputs)]
    for node in nodes:
        c.buffer(f"g_{node.name}", node.axes)
        c.parameters |= set(cotangents.values())
        c.loop(node.axes)
        start = c.place(cotangents[node.name], node.axes) if node.name in formula.outputs else "0"
        c.say(f"{c.place(f'g_{node.name}', node.axes)} = {start};")
        c.end(node.axes)
    for node in reversed(nodes):
        if node.scan == "cumsum":
            _reversed_cumsum(c, f"g_{node.name}", node.axes)
        last = None
        if node.scan in ("flip", "roll"):
            axis = node.axes[-1]
            last = f"({axis} - 1 - i_{axis})" if node.scan == "flip" else f"((i_{axis} + 1) % {axis})"
        for v in sorted(variables(node.expr) & moved):
            e = diff(node.expr, v)
            if e == ("num", 0.0):
                continue
            c.loop(node.span)
            factor = c.value(e)
            factor = CONJUGATE["c complex"].format(factor) if formula.complex else factor
            value = formula.values[v]
            place = f"g_{v}" if isinstance(value, Node) else f"grad_{v}"
            target = f"v_{v}" if formula.elementwise and isinstance(value, Input) else c.place(place, value.axes)
            c.say(f"{target} += {c.place(f'g_{node.name}', node.axes, last)} * {factor};")
            c.end(node.span)
    c.results = [f"v_{name}" for name in targets]
    grads = [cotangents[name] for name in formula.outputs if name in moved]
    return c.function(symbol, grads, _ordered(formula, c.reads), [f"grad_{name}" for name in targets])


def _reversed_cumsum(c: C, name: str, axes: tuple[str, ...]) -> None:
    *outer, axis = axes
    c.loop(outer)
    c.say(
        f"for (int64_t i_{axis} = {axis} - 1; i_{axis} > 0; i_{axis}--) "
        f"{c.place(name, axes, f'i_{axis} - 1')} += {c.place(name, axes)};"
    )
    c.end(outer)


def jvp(formula: Formula, symbol: str, targets: Sequence[str], *, unit: bool = False) -> Function:
    """A jvp; `unit`: the partial derivatives of an elementwise formula."""
    c = C(formula)
    moved = formula.reaches(targets)
    steps: list[tuple[Node, list[tuple[Expr, str | None]]]] = []
    for node in formula.nodes:
        terms = [(diff(node.expr, v), v) for v in sorted(variables(node.expr) & moved)]
        terms = [(e, None if unit and v in targets else v) for e, v in terms if e != ("num", 0.0)]
        if terms and formula.reaches([node.name]) & set(formula.outputs):
            steps.append((node, terms))
    c.forward(c.needed(e for _, terms in steps for e, _ in terms))
    c.tangent_names = {node.name: f"{node.name}_tangent" for node, _ in steps}
    for node, terms in steps:
        if node.name not in formula.outputs or formula.elementwise:
            c.tangent_names[node.name] = f"t_{node.name}"
            c.buffer(f"t_{node.name}", node.axes)
        c.node(node, c.tangent_names[node.name], terms)
    c.results = [f"v_t_{name}" for name in formula.outputs]
    suffix = f"_{targets[0]}" if unit else "_tangent"
    before = [] if unit else [f"{name}_tangent" for name in targets]
    if not before and not c.reads & {v.name for v in formula.inputs}:
        c.reads.add(targets[0])  # a rule in C reads some tensor
    return c.function(
        symbol, before, _ordered(formula, c.reads - set(before)), [f"{name}{suffix}" for name in formula.outputs]
    )
