"""Draws a formula: inputs, arguments and nodes."""

from __future__ import annotations

from .blocks import ENTIRE, ONE, Expr, add, call, mul, num, var, variables
from .choose import Chooser, chance, some, weighted
from .tensors import SCANS, Argument, Formula, Input, Node

NAMES = ("x", "y", "z", "w")


def draw_formula(c: Chooser, *, native: bool = False, loose: bool = False) -> tuple[Formula, str, str]:
    """A formula, its kind of batch (none, star, hash, loop or elementwise), and its form (single, tuple or named).

    Args:
        native: it is written in C too.
        loose: some inputs may leave an output where it is, and some outputs may have no derivative.
    """
    batch = weighted(c, {"star": 4, "none": 2, "elementwise": 5, "hash": 1, "loop": 0 if native else 2})
    maker = _Maker(c, batch, native, loose)
    return maker.formula(), batch, maker.form


class _Maker:
    def __init__(self, c: Chooser, batch: str, native: bool, loose: bool) -> None:
        self.c, self.batch, self.native, self.loose = c, batch, native, loose
        self.elementwise = batch == "elementwise"
        self.complex = chance(c, 10)
        self.axes = () if self.elementwise else c.pick((("n",), ("n",), ("m", "n")))
        count = c.pick((1, 1, 2, 2, 2, 3, 3, 4))
        self.inputs: list[Input] = []
        for i in range(count):
            self.inputs.append(self._input(i))
        self.arguments = [self._argument(i) for i in range(c.pick((0, 0, 0, 1, 1, 2)))]
        usable = [v.name for v in self.inputs]
        self.linear = some(c, usable, least=1) if chance(c, 50) else []
        self.nodes: list[Node] = []
        self.form = "single"

    # -- inputs -----------------------------------------------------------------------------------------------------

    def _input(self, i: int) -> Input:
        c, batched = self.c, self.batch in ("star", "hash", "elementwise")
        if self.elementwise:
            return Input(NAMES[i], (), True)
        if i == 0:
            axes = c.pick((self.axes, self.axes, self.axes[-1:]))
            return Input(NAMES[i], axes, batched)
        axes = tuple(axis for axis in self.axes if c.pick((True, True, False)))
        batched = batched and c.pick((True, False))
        first = self.inputs[0].axes
        kind = weighted(
            c,
            {
                "plain": 12,
                "optional": 0 if self.complex else 2,
                "many": 2,
                "wide": 0 if self.native or self.batch == "loop" else 2,
            },
        )
        if kind in ("optional", "wide"):
            axes = tuple(axis for axis in axes if axis in first)
        wide = axes[-1:] if kind == "wide" else ()
        return Input(NAMES[i], axes, batched, kind == "optional", kind == "many", wide)

    def _argument(self, i: int) -> Argument:
        return Argument("pq"[i], self.c.pick(("float", "int", "bool", "str", "floats")))

    # -- expressions ------------------------------------------------------------------------------------------------

    def _functions(self) -> tuple[str, ...]:
        return ENTIRE if self.complex else ("sin", "sq", "exp", "tanh", "cos", "recip", "sqrt", "log")

    def _apply(self, function: str, e: Expr) -> Expr:
        """A function of an expression, kept away from poles and from growing fast."""
        if function in ("recip", "sqrt", "log"):
            return call(function, add(num(1.5), call("sq", e)))
        return call(function, mul(num(0.5), e) if function == "exp" and e[0] != "var" else e)

    def _bent(self, name: str) -> Expr:
        """A nonlinear function of one variable."""
        value = next((v for v in self.inputs if v.name == name), None)
        if value is not None and value.optional:  # may be the number 0, which functions of tensors do not take
            return add(ONE, var(name))
        function = self.c.pick(("", *self._functions()))
        return self._apply(function, var(name)) if function else var(name)

    def _term(self, linear: list[str], bent: list[str]) -> Expr:
        e: Expr = num(self.c.pick((1.0, 1.0, 2.0, -0.5, 3.0)))
        for name in linear:
            e = mul(e, var(name))
        for name in bent:
            e = mul(e, self._bent(name))
        if self.arguments and self.c.pick((True, False)):
            e = mul(var(self.arguments[0].name), e)
        return e

    def _expression(self, linear: list[str], bent: list[str]) -> Expr:
        """Of all of the variables, linear in some."""
        e = self._term(linear, bent)
        if chance(self.c, 40):
            e = add(e, self._term(linear, some(self.c, bent, least=0 if linear else 1)))
        if not linear and not self._covered(e):
            e = mul(var(self.inputs[0].name), e)
        if not linear and chance(self.c, 40):
            e = self._apply(self.c.pick(self._functions()), e)
        return e

    def _covered(self, e: Expr) -> bool:
        """Whether it has all of its axes where optional inputs are not there and wide ones have a size of 1."""
        values = {v.name: v for v in (*self.inputs, *self.nodes)}
        found = [values[name] for name in variables(e) if name in values]
        sure = [v for v in found if isinstance(v, Node) or not (v.optional or v.wide)]
        if not sure or (
            any(isinstance(v, Input) and (v.optional or v.wide) for v in found)
            and not any(v.name == self.inputs[0].name for v in sure)
        ):
            return False
        return {a for v in found for a in v.axes} <= {a for v in sure for a in v.axes}

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _node(self, name: str, e: Expr) -> Node:
        values = {v.name: v for v in (*self.inputs, *self.nodes)}
        found = [values[n] for n in variables(e) if n in values]
        span = tuple(axis for axis in ("m", "n") if any(axis in v.axes for v in found))
        summed = tuple(axis for axis in span if chance(self.c, 40))
        left = [axis for axis in span if axis not in summed]
        scan = self.c.pick(SCANS) if left and chance(self.c, 25) else None
        return Node(name, e, span, summed, scan, any(v.batched for v in found))

    def formula(self) -> Formula:
        c = self.c
        bent = [v.name for v in self.inputs if v.name not in self.linear]
        if self.linear and any(v.optional or v.wide for v in self.inputs) and self.inputs[0].name not in self.linear:
            self.linear.insert(0, self.inputs[0].name)
            bent.remove(self.inputs[0].name)
        atoms = list(self.linear)
        saved = []
        for name in ("s", "t")[: c.pick((0, 0, 0, 1, 1, 2))]:
            chosen = atoms if self.linear else some(c, [v.name for v in self.inputs], least=1)
            e = self._expression(atoms, some(c, bent)) if self.linear else self._expression([], chosen)
            if self.linear and not self._covered(e):
                e = self._expression(list(self.linear), [])
            self.nodes.append(self._node(name, e))
            if self.linear:
                atoms = [name]
            else:
                bent.append(name)
            if chance(c, 25) and self._savable(self.nodes[-1]):
                saved.append(name)
        count = c.pick((1, 1, 1, 2, 2, 3))
        self.form = (
            "single" if count == 1 and not saved else "named" if count > 1 and not saved and chance(c, 50) else "tuple"
        )
        names = ("a", "b", "c")[:count] if self.form == "named" else ("out0", "out1", "out2")[:count]
        names = ("out",) if count == 1 else names
        still = tuple(name for name in names[1:] if self.loose and chance(c, 10))
        for name in names:
            if name != names[0] and self.loose and not self.linear and self.batch in ("star", "none") and chance(c, 20):
                few = [self.inputs[0].name, *some(c, [v.name for v in self.inputs[1:]])]
                self.nodes.append(self._node(name, self._expression([], few)))
                continue
            chosen = self.linear if self.linear and c.pick((True, False)) else atoms
            self.nodes.append(self._node(name, self._complete(self._expression(list(chosen), bent))))
        arguments = self._used_arguments(names)
        return Formula(
            tuple(self.inputs), arguments, tuple(self.nodes), tuple(names), tuple(saved), still,
            self.elementwise, self.batch == "hash", self.complex,
        )  # fmt: skip

    def _savable(self, node: Node) -> bool:
        """Whether it has the batch axes that its annotation would say."""
        if self.batch in ("elementwise", "hash"):  # what depends on a part of the inputs may be smaller
            return self._reached(node.expr) >= {v.name for v in self.inputs}
        return node.batched or not self.native

    def _reached(self, e: Expr) -> set[str]:
        reached = variables(e)
        for node in reversed(self.nodes):
            if node.name in reached:
                reached |= variables(node.expr)
        return reached

    def _complete(self, e: Expr) -> Expr:
        """`e` times a function of each input that it does not depend on."""
        reached = self._reached(e)
        for v in self.inputs:
            if v.name not in reached:
                e = mul(e, var(v.name) if v.name in self.linear else add(num(1.5), self._bent(v.name)))
        if self._covered(e):
            return e
        if not self.linear:
            return mul(var(self.inputs[0].name), e)
        return self._expression(list(self.linear), [v.name for v in self.inputs if v.name not in self.linear])

    def _used_arguments(self, outputs: tuple[str, ...]) -> tuple[Argument, ...]:
        """All arguments; those that no output has yet become a factor of one."""
        used = set().union(*(variables(node.expr) for node in self.nodes))
        for argument in self.arguments:
            if argument.name not in used:
                node = self.nodes[-1]
                changed = Node(
                    node.name, mul(var(argument.name), node.expr), node.span, node.summed, node.scan, node.batched
                )
                self.nodes[-1] = changed
        return tuple(self.arguments)
