"""Functions of tensors made of blocks: sums and scans of elementwise expressions, with their VJPs and JVPs as text.

A `Formula` is a list of nodes. Each one is an expression over the axes of all its variables, summed over some of them,
and then put through a linear map along the last axis that is left. Reverse and forward sweeps over the nodes give the
bodies of rules. `Python` writes them for torch and NumPy, `native.py` in C.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from .blocks import CONJUGATE, ZERO, Expr, diff, put, var, variables, write

SCANS = ("cumsum", "flip", "roll")


@dataclass(frozen=True)
class Input:
    """A tensor input.

    Attributes:
        axes: the core axes.
        batched: whether batch axes stand in front.
        optional: it may be None, which counts as zero.
        many: it is a list, of which the sum of i times the i-th counts.
        wide: core axes that broadcast (``#n``).
    """

    name: str
    axes: tuple[str, ...]
    batched: bool = False
    optional: bool = False
    many: bool = False
    wide: tuple[str, ...] = ()


@dataclass(frozen=True)
class Argument:
    """An argument that is no tensor, which stands for a number in expressions."""

    name: str
    kind: str  # float, int, bool, str, floats

    @property
    def type(self) -> str:
        return {"floats": "list[float]", "str": 'Literal["once", "twice"]'}.get(self.kind, self.kind)

    def number(self) -> str | None:
        """Python code of the number; None where the argument is the number."""
        return {
            "bool": f"(1.5 if {self.name} else 0.5)",
            "str": f'(2.0 if {self.name} == "twice" else 1.0)',
            "floats": f"sum({self.name})",
        }.get(self.kind)

    @property
    def samples(self) -> tuple[object, ...]:
        """Values to call it with."""
        return {
            "float": (0.5, -1.25), "int": (2, 3), "bool": (True, False), "str": ("once", "twice"),
            "floats": ([0.5, 0.25], [1.5]),
        }[self.kind]  # fmt: skip


@dataclass(frozen=True)
class Node:
    """``scan(sum(expr))``.

    Attributes:
        span: the axes of the expression.
        summed: those that are summed over.
        scan: a linear map along the last axis that is left.
    """

    name: str
    expr: Expr
    span: tuple[str, ...]
    summed: tuple[str, ...] = ()
    scan: str | None = None
    batched: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for axis in self.span if axis not in self.summed)

    @property
    def plain(self) -> bool:
        """Whether its value is that of its expression."""
        return not self.summed and self.scan is None


@dataclass(frozen=True)
class Formula:
    """Inputs, arguments and nodes; some nodes are outputs.

    Attributes:
        outputs: names of the nodes that callers see.
        saved: names of the nodes that are Saved outputs.
        still: outputs that are declared to have no derivative.
        elementwise: every annotation is ``"..."``.
        hashed: batch axes broadcast (``*#batch``).
        complex: every tensor is.
    """

    inputs: tuple[Input, ...]
    arguments: tuple[Argument, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    saved: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    elementwise: bool = False
    hashed: bool = False
    complex: bool = False

    @cached_property
    def values(self) -> dict[str, Input | Node]:
        """Everything that is a tensor, by name."""
        return {v.name: v for v in (*self.inputs, *self.nodes)}

    def node(self, name: str) -> Node:
        found = self.values[name]
        assert isinstance(found, Node)
        return found

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """All axes, in the order in which annotations name them."""
        tensors = [*self.inputs, *(self.node(name) for name in (*self.outputs, *self.saved))]
        return tuple(dict.fromkeys(axis for tensor in tensors for axis in tensor.axes))

    @property
    def moving(self) -> Formula:
        """The formula of the outputs that have a derivative."""
        return replace(self, outputs=tuple(name for name in self.outputs if name not in self.still), still=())

    def reaches(self, targets: Iterable[str]) -> set[str]:
        """`targets` and all nodes that depend on them."""
        found = set(targets)
        for node in self.nodes:
            if variables(node.expr) & found:
                found.add(node.name)
        return found

    def linear_in(self, name: str) -> bool:
        """Whether every output is linear in an input, and 0 where it is 0."""
        zero, moved = {name}, self.reaches([name])
        for node in self.nodes:
            if node.name not in moved:
                continue
            value = node.expr
            for other in zero:
                value = put(value, var(other), ZERO)
            if value != ZERO:
                return False
            zero.add(node.name)
            for v in variables(node.expr) & moved:
                if variables(diff(node.expr, v)) & moved:
                    return False
        return True


# -- in Python ------------------------------------------------------------------------------------------------------

_SUM = {"torch": "({}).sum({})", "numpy": "np.sum({}, axis={})"}
_BROADCAST = {"torch": "torch.broadcast_to({}, {})", "numpy": "np.broadcast_to({}, {})"}
_SCAN = {
    "torch": {
        "cumsum": "torch.cumsum({}, -1)", "flip": "torch.flip({}, (-1,))", "roll": "torch.roll({}, 1, -1)",
        "cumsum T": "torch.flip(torch.cumsum(torch.flip({}, (-1,)), -1), (-1,))",
        "flip T": "torch.flip({}, (-1,))", "roll T": "torch.roll({}, -1, -1)",
    },
    "numpy": {
        "cumsum": "np.cumsum({}, axis=-1)", "flip": "np.flip({}, -1)", "roll": "np.roll({}, 1, -1)",
        "cumsum T": "np.flip(np.cumsum(np.flip({}, -1), axis=-1), -1)",
        "flip T": "np.flip({}, -1)", "roll T": "np.roll({}, -1, -1)",
    },
}  # fmt: skip
OVER_BATCH = {
    "torch": """\
def over_batch(t, rank):  # the sum over the axes in front
    return t.flatten(0, t.ndim - rank - 1).sum(0) if t.ndim > rank else t
""",
    "numpy": """\
def over_batch_np(t, rank):
    return np.sum(t, axis=tuple(range(np.ndim(t) - rank)))
""",
}


class Impossible(Exception):
    """A rule of this kind does not exist, or would read what it may not."""


@dataclass
class Python:
    """Writes the body of a kernel or a rule in torch or NumPy.

    Attributes:
        given: names of nodes that are there already: outputs that the rule reads.
        helpers: whether the function `over_batch` is used.
    """

    formula: Formula
    language: str
    given: frozenset[str] = frozenset()
    lines: list[str] = field(default_factory=list)
    helpers: bool = False

    def __post_init__(self) -> None:
        self._known: set[str] = set(self.given)
        self._aliases: set[str] = set()

    # -- reading variables ----------------------------------------------------------------------------------------

    def at(self, name: str, span: tuple[str, ...], suffix: str = "") -> str:
        """A variable, aligned with the axes of an expression; an alias is made where it is first asked for."""
        argument = next((a for a in self.formula.arguments if a.name == name), None)
        if argument is not None:
            return self._alias(f"{name}_", argument.number()) if argument.number() else name
        value = self.formula.values[name]
        base = name + suffix
        if isinstance(value, Node):
            if not suffix:
                self.forward(name)
        elif value.many:
            base = self._alias(f"{base}_sum", f"sum((i + 1) * t for i, t in enumerate({base}))")
        text = self._aligned(base, value.axes, span)
        if isinstance(value, Input) and value.optional:
            return self._alias(f"{base}_{''.join(span)}_", f"0.0 if {base} is None else {text}")
        return text

    def _aligned(self, text: str, axes: tuple[str, ...], span: tuple[str, ...]) -> str:
        if axes == span:
            return text
        return f"{text}[..., {', '.join(':' if axis in axes else 'None' for axis in span)}]"

    def _alias(self, name: str, code: str | None) -> str:
        if name not in self._aliases:
            self._aliases.add(name)
            self.lines.append(f"{name} = {code}")
        return name

    def expr(self, e: Expr, span: tuple[str, ...]) -> str:
        return write(e, self.language, {v: self.at(v, span) for v in sorted(variables(e))})

    def _derivative(self, node: Node, name: str) -> Expr:
        """By a variable, made of what is given where it is."""
        e = diff(node.expr, name)
        for given in sorted(self.given):
            other = self.formula.node(given)
            if other.plain and other.axes == node.span:
                e = put(e, other.expr, var(given))
        return e

    # -- values ---------------------------------------------------------------------------------------------------

    def forward(self, name: str) -> None:
        """Compute a node, and those before it."""
        if name in self._known:
            return
        self._known.add(name)
        node = self.formula.node(name)
        self.lines.append(f"{name} = {self._reduced(node, self.expr(node.expr, node.span))}")

    def _reduced(self, node: Node, text: str) -> str:
        if node.summed:
            text = _SUM[self.language].format(text, self._dims(node.span, node.summed))
        return _SCAN[self.language][node.scan].format(text) if node.scan else text

    def _dims(self, span: tuple[str, ...], summed: Iterable[str]) -> tuple[int, ...]:
        return tuple(span.index(axis) - len(span) for axis in span if axis in set(summed))

    # -- derivatives ----------------------------------------------------------------------------------------------

    def partials(self, name: str) -> list[str]:
        """The partial derivative of each visible output of an elementwise formula."""
        made = self.tangents([name], unit=True)
        return [text if text is not None else f"0.0 * {self.at(name, ())}" for text in made]

    def tangents(self, targets: Sequence[str], *, unit: bool = False) -> list[str | None]:
        """The tangents of the visible outputs; `unit`: for a tangent of one."""
        moved = self.formula.reaches(targets)
        made: dict[str, str] = {}
        for node in self.formula.nodes:
            if node.name not in moved or not self._leads_to_output(node.name):
                continue
            terms, full = [], True
            for name in sorted(variables(node.expr) & moved):
                e = self._derivative(node, name)
                if e == ZERO:
                    continue
                if unit and name in targets:
                    alone = not any(v in self.formula.values for v in variables(e))
                    terms.append(self.expr(e, node.span) + (f" + 0.0 * {self.at(name, node.span)}" if alone else ""))
                    continue
                if name in made:
                    tangent = self._aligned(made[name], self.formula.values[name].axes, node.span)
                else:
                    tangent = self.at(name, node.span, "_tangent")
                terms.append(f"{self.expr(e, node.span)} * {tangent}")
                full = full and self._covers(node, {name} | variables(e))
            text = " + ".join(terms)
            if not full and not unit:
                text = _BROADCAST[self.language].format(text, f"({self.expr(node.expr, node.span)}).shape")
            made[node.name] = f"t_{node.name}"
            self.lines.append(f"t_{node.name} = {self._reduced(node, text)}")
        return [made.get(name) for name in self.formula.outputs]

    def _leads_to_output(self, name: str) -> bool:
        return bool(self.formula.reaches([name]) & set(self.formula.outputs))

    def _covers(self, node: Node, names: Iterable[str]) -> bool:
        """Whether the product of some variables has all axes of a node's expression."""
        found = [self.formula.values[name] for name in names if name in self.formula.values]
        if any(v.wide for v in self.formula.inputs) or self.formula.elementwise or self.formula.hashed:
            return len(found) == len(variables(node.expr) & set(self.formula.values))
        sure = [v for v in found if not (isinstance(v, Input) and v.optional)]
        return {a for v in sure for a in v.axes} == set(node.span) and (
            not node.batched or all(v.batched for v in self.formula.inputs) or any(v.batched for v in sure)
        )

    def gradients(self, targets: Sequence[str], cotangents: dict[str, str]) -> list[str]:
        """The gradients of the targets.

        Args:
            cotangents: the name of each output's.
        """
        moved = self.formula.reaches(targets)
        parts: dict[str, list[str]] = {name: [cotangents[name]] for name in self.formula.outputs if name in moved}
        for node in reversed(self.formula.nodes):
            if node.name not in moved or node.name not in parts:
                continue
            grad = self._cotangent(node, parts[node.name])
            for name in sorted(variables(node.expr) & moved):
                e = self._derivative(node, name)
                if e == ZERO:
                    continue
                text = self._pulled(node, name, grad, e)
                place = f"d_{node.name}_{name}"
                self.lines.append(f"{place} = {text}")
                parts.setdefault(name, []).append(place)
        return [self._gradient(name, parts[name]) for name in targets]

    def _cotangent(self, node: Node, parts: list[str]) -> str:
        text = " + ".join(parts)
        if node.scan:
            text = _SCAN[self.language][f"{node.scan} T"].format(text)
        if len(parts) > 1 or node.scan:
            self.lines.append(f"g_{node.name} = {text}")
            text = f"g_{node.name}"
        return self._aligned(text, node.axes, node.span)

    def _pulled(self, node: Node, name: str, grad: str, e: Expr) -> str:
        """The contribution of a node to the gradient of one of its variables."""
        value = self.formula.values[name]
        factor = self.expr(e, node.span)
        if self.formula.complex:
            factor = (
                CONJUGATE[self.language].format(factor)
                if any(v in self.formula.values for v in variables(e))
                else factor
            )
        text = f"{grad} * {factor}"
        there = set(node.axes) | {
            axis for v in variables(e) if v in self.formula.values
            for axis in self.formula.values[v].axes
            if not isinstance(self.formula.values[v], Input)
            or not (self.formula.values[v].optional or axis in self.formula.values[v].wide)
        }  # fmt: skip
        if set(node.span) - there:
            sizes = ", ".join(self._size(axis) for axis in node.span)
            self.lines.append(f"p_{node.name}_{name} = {text}")
            text = f"p_{node.name}_{name}"
            rank = len(node.span)
            text = _BROADCAST[self.language].format(text, f"(*{text}.shape[:{text}.ndim - {rank}], {sizes})")
        summed = [axis for axis in node.span if axis not in value.axes]
        if summed:
            text = _SUM[self.language].format(text, self._dims(node.span, summed))
        if node.batched and not value.batched and not self.formula.elementwise:
            self.helpers = True
            text = f"over_batch{'_np' if self.language == 'numpy' else ''}({text}, {len(value.axes)})"
        return text

    def _size(self, axis: str) -> str:
        for v in self.sources:
            if axis in v.axes and not (isinstance(v, Input) and (v.optional or axis in v.wide)):
                name = f"{v.name}[0]" if isinstance(v, Input) and v.many else self._shown(v)
                return f"{name}.shape[{v.axes.index(axis) - len(v.axes)}]"
        raise Impossible(f"nothing tells the size of {axis}")

    sources: tuple[Input | Node, ...] = ()
    """What may be asked for a size, in this order."""
    shown: dict[str, str] = field(default_factory=dict)
    """What stands for an output: its cotangent."""

    def _shown(self, v: Input | Node) -> str:
        return self.shown.get(v.name, v.name)

    def _gradient(self, name: str, parts: list[str]) -> str:
        text = " + ".join(parts)
        value = self.formula.values[name]
        if isinstance(value, Input) and value.many:
            self.lines.append(f"{name}_grad = {text}")
            return f"[(i + 1) * {name}_grad for i in range(len({name}))]"
        return text


def words(lines: Iterable[str]) -> set[str]:
    """All names that occur in code."""
    return set(re.findall(r"[A-Za-z_]\w*", "\n".join(lines)))
