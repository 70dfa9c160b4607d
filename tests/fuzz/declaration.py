"""Draws the declaration of an operator, and writes it as Python source with a plain torch expression beside it."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torchgraft as tg

from . import native
from .choose import Chooser, Seeded, chance, weighted
from .formulas import draw_formula
from .tensors import OVER_BATCH, Formula, Impossible, Input, Node, Python, words

NAME = "fuzzed"
LOOSE = "independent" in inspect.signature(tg.Op.vjp).parameters
"""Whether there are words for outputs that an input does not move, and for those without a derivative."""
POOL = 24
"""How many formulas are written in C: each is compiled once for each dtype, and then cached by its text."""


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        medium: torch, array or c.
        given: outputs that it reads instead of computing them again.
    """

    kind: str
    inputs: tuple[str, ...]
    medium: str
    given: frozenset[str] = frozenset()
    reads: tuple[str, ...] = ()
    text: str = ""

    @property
    def label(self) -> str:
        return f"{self.medium} {self.kind}"


@dataclass(frozen=True)
class Declaration:
    """An operator.

    Attributes:
        formula: what it computes.
        batch: none, star, hash, loop or elementwise.
        kernel: torch, numpy or c.
        rules: its rules.
        constant: inputs that were declared to have no derivative.
        form: single, tuple or named.
        flaw: a mistake that must be refused, in words.
        source: the declaration as text.
        truth: the expression as text.
    """

    formula: Formula
    batch: str
    kernel: str
    rules: tuple[Rule, ...]
    constant: tuple[str, ...] = ()
    form: str = "single"
    flaw: str | None = None
    source: str = ""
    truth: str = ""

    def reverse_rule(self, name: str) -> Rule | None:
        return next((r for r in self.rules if name in r.inputs and r.kind != "jvp"), None)

    def forward_rule(self, name: str) -> Rule | None:
        found = [r for r in self.rules if name in r.inputs]
        return next((r for r in found if r.kind == "jvp"), None) or next(iter(found), None)

    @property
    def cotangents(self) -> dict[str, str]:
        return cotangents(self.formula)


def cotangents(formula: Formula) -> dict[str, str]:
    if len(formula.outputs) == 1:
        return {formula.outputs[0]: "grad"}
    return {name: f"grad_{name}" for name in formula.outputs if name not in formula.still}


DRAWING_KERNEL, DRAWING_RULE, UNREAD = "the kernel draws", "a rule draws", "a gradient is not read"
FLAWS = (UNREAD, DRAWING_KERNEL, DRAWING_RULE)
"""Mistakes that are refused."""


@functools.cache
def pool(index: int) -> tuple[Formula, str, str]:
    """A formula that is written in C."""
    return draw_formula(Seeded(1000 + index), native=True)


@dataclass(frozen=True)
class Plan:
    """What is drawn before the rules: the formula, and which languages there are."""

    formula: Formula
    batch: str
    form: str
    in_c: bool
    flaw: str | None


def draw_plan(c: Chooser) -> Plan:
    flaw = c.pick(FLAWS) if chance(c, 5) else None
    in_c = flaw is None and chance(c, 15)
    formula, batch, form = pool(c.pick(range(POOL))) if in_c else draw_formula(c, loose=LOOSE and flaw is None)
    return Plan(formula, batch, form, in_c, None if flaw == UNREAD and len(formula.outputs) < 2 else flaw)


def draw_declaration(c: Chooser, plan: Plan, modes: str = "") -> Declaration:
    """A declaration.

    Args:
        modes: the derivatives that it is meant for, in order: most declarations have rules that suffice.
    """
    kernel = weighted(c, {"torch": 3, "numpy": 1, "c": 4}) if plan.in_c else c.pick(("torch", "numpy"))
    return _Maker(c, plan, kernel, modes).declaration()


class _Maker:
    def __init__(self, c: Chooser, plan: Plan, kernel: str, modes: str) -> None:
        self.c, self.kernel, self.modes = c, kernel, modes
        self.formula, self.batch, self.form = plan.formula, plan.batch, plan.form
        self.in_c, self.flaw = plan.in_c, plan.flaw
        self.complete = self.flaw is not None or not chance(c, 20)
        self.helpers: set[str] = set()

    # -- choosing rules -------------------------------------------------------------------------------------------

    def declaration(self) -> Declaration:
        c, formula = self.c, self.formula
        rules: list[Rule] = []
        constant: list[str] = []
        left = [v.name for v in formula.inputs]
        while left:
            name = left.pop(0)
            way = "reverse" if self.complete else weighted(c, {"reverse": 6, "forward": 2, "none": 1, "constant": 1})
            if way == "constant":
                constant.append(name)
            elif way == "forward":
                rules.append(self._rule("jvp", (name,)))
            elif way == "reverse":
                kind = self._kind(name)
                group = (name, *self._others(name, left)) if kind == "vjp" else (name,)
                left = [other for other in left if other not in group]
                rules.append(self._rule(kind, group))
                if rules[-1].kind == "vjp" and self._wants_jvp(rules[-1]):
                    rules.append(self._rule("jvp", group))
        made = Declaration(formula, self.batch, self.kernel, tuple(rules), tuple(constant), self.form, self.flaw)
        return replace(made, source=self._source(made), truth=self._truth())

    def _others(self, name: str, left: Sequence[str]) -> list[str]:
        """Inputs whose gradients the rule gives too: optional ones and lists have rules of their own."""
        if self._alone(name):
            return []
        return [other for other in left if not self._alone(other) and self.c.pick((False, True))]

    def _alone(self, name: str) -> bool:
        return self._input(name).many or self._input(name).optional

    def _wants_jvp(self, rule: Rule) -> bool:
        return chance(self.c, 20) or (self.complete and "F" in self.modes and rule.medium != "torch")

    def _input(self, name: str) -> Input:
        found = self.formula.values[name]
        assert isinstance(found, Input)
        return found

    def _kind(self, name: str) -> str:
        if self.flaw == UNREAD:
            return "vjp"
        if self.formula.elementwise and self.c.pick((True, True, False)):
            return "partial"
        if self.formula.linear_in(name) and self.c.pick((True, True, True, False)):
            return "adjoint"
        return "vjp"

    def _medium(self, kind: str, names: Sequence[str]) -> str:
        again = len(self.modes) > 1 and self.complete  # the rule will be differentiated
        options = {"torch": 5, "array": 0 if again and kind != "adjoint" else 3}
        if self.in_c and not any(self._input(name).many for name in names):
            options["c"] = 0 if again and kind != "adjoint" else 6
        return weighted(self.c, options)

    def _rule(self, kind: str, names: tuple[str, ...]) -> Rule:
        medium = self._medium(kind, names)
        visible = [*self.formula.outputs, *self.formula.saved]
        given: frozenset[str] = frozenset()
        if len(self.modes) > 1 and self.complete:  # what reads a floating Saved output is not differentiated again
            visible = list(self.formula.outputs)
        if kind != "adjoint" and medium != "c" and chance(self.c, 35):
            given = frozenset(visible)
        try:
            return self._written(kind, names, medium, given)
        except Impossible:
            kind = "vjp" if kind == "adjoint" else kind
            return self._written(kind, names, medium, frozenset())

    # -- writing rules --------------------------------------------------------------------------------------------

    def _written(self, kind: str, names: tuple[str, ...], medium: str, given: frozenset[str]) -> Rule:
        if medium == "c":
            return self._stub(kind, names)
        language = "numpy" if medium == "array" else "torch"
        p = Python(self._seen(), language, given)
        p.shown = self._cotangents()
        p.sources = tuple(v for v in self.formula.inputs if kind != "adjoint" or v.name not in names)
        if kind in ("vjp", "adjoint"):
            p.sources += tuple(self._seen().node(name) for name in self._seen().outputs)
        if kind in ("vjp", "adjoint"):
            results = p.gradients(names, self._cotangents())
        elif kind == "jvp":
            results = [
                text or self._zeros(p, name) for name, text in zip(p.formula.outputs, p.tangents(names), strict=True)
            ]
        else:
            results = p.partials(names[0])
        lines = [*p.lines, f"return {', '.join(results)}"]
        if self.flaw == DRAWING_RULE:
            draw = self.c.pick(("torch.rand(())" if medium == "torch" else "np.random.rand()", "random.random()"))
            lines[-1] = f"noise = 1.0 + {draw}"
            lines.append(f"return {', '.join(self._noisy(text) for text in results)}")
        if p.helpers:
            self.helpers.add(language)
        reads = [name for name in self._available(kind, names, given) if name in words(lines)]
        if kind == "adjoint" and (words(lines) & {*names, *self.formula.outputs} or self._moved(names) & words(lines)):
            raise Impossible("it reads what it is linear in")
        if medium == "array" and not any(self._is_tensor(name) for name in reads):
            raise Impossible("nothing says that it is on arrays") if kind == "adjoint" else Impossible("no arrays")
        shown = ", ".join(
            f"{name}: np.ndarray" if medium == "array" and self._is_tensor(name) else name for name in reads
        )
        targets = ", ".join(f'"{name}"' for name in names)
        targets += self._independent(kind, names)
        text = f"@{NAME}.{kind}({targets})\ndef _({shown}):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
        return Rule(kind, names, medium, given & set(reads), tuple(reads), text)

    def _independent(self, kind: str, names: Sequence[str]) -> str:
        """The outputs that the inputs do not move, as an argument."""
        moved = self.formula.reaches(names)
        apart = [name for name in self.formula.moving.outputs if name not in moved]
        if kind != "vjp" or not apart:
            return ""
        return f", independent={apart[0]!r}" if len(apart) == 1 else f", independent={apart!r}"

    def _noisy(self, text: str) -> str:
        return f"[noise * g for g in {text}]" if text.startswith("[") else f"noise * ({text})"

    def _seen(self) -> Formula:
        """What rules are made of: all outputs, or, by mistake, all but the last."""
        if self.flaw == UNREAD:
            return replace(self.formula, outputs=self.formula.outputs[:-1])
        return self.formula.moving

    def _cotangents(self) -> dict[str, str]:
        return cotangents(self.formula)

    def _moved(self, names: Sequence[str]) -> set[str]:
        return {n for n in self.formula.reaches(names) if isinstance(self.formula.values[n], Node)} - set(
            self.formula.outputs
        )

    def _zeros(self, p: Python, name: str) -> str:
        p.forward(name)
        return f"{'torch' if p.language == 'torch' else 'np'}.zeros_like({name})"

    def _available(self, kind: str, names: tuple[str, ...], given: frozenset[str]) -> list[str]:
        found = list(self._cotangents().values()) if kind in ("vjp", "adjoint") else []
        found += [f"{name}_tangent" for name in names] if kind == "jvp" else []
        found += [p.name for p in (*self.formula.inputs, *self.formula.arguments)]
        return found + sorted(given)

    def _is_tensor(self, name: str) -> bool:
        value = self.formula.values.get(name.removesuffix("_tangent"))
        if name in self._cotangents().values():
            return True
        return value is not None and not (isinstance(value, Input) and (value.many or value.optional))

    def _stub(self, kind: str, names: tuple[str, ...]) -> Rule:
        symbol = f"{NAME}_{kind}_{'_'.join(names)}"
        if kind in ("vjp", "adjoint"):
            function = native.vjp(self.formula, symbol, names, self._cotangents(), kind=kind)
        else:
            function = native.jvp(self.formula, symbol, names, unit=kind == "partial")
        reads = function.reads
        if kind == "adjoint" and set(names) & set(reads):
            raise Impossible("it reads what it is linear in")
        spaces = "".join(f', {name}: Float[tg.Workspace, "{axes}"]' for name, axes in function.workspaces)
        targets = ", ".join(f'"{name}"' for name in names)
        text = f"@{NAME}.{kind}({targets}, kernel=SOURCE)\ndef _({', '.join(reads)}{spaces}): ...\n"
        return Rule(kind, names, "c", frozenset(), tuple(reads), text)

    # -- writing the operator -------------------------------------------------------------------------------------

    def _annotation(self, value: Input | Node, array: str) -> str:
        kind = "Complex" if self.formula.complex else "Float"
        if self.formula.elementwise:
            return f'{kind}[{array}, "..."]'
        axes = [f"#{axis}" if isinstance(value, Input) and axis in value.wide else axis for axis in value.axes]
        run = {"star": ["*batch"], "hash": ["*#batch"]}.get(self.batch, []) if value.batched else []
        if run == ["*#batch"] and isinstance(value, Node):
            run = ["*batch"]
        return f'{kind}[{array}, "{" ".join(run + axes)}"]'

    def _parameters(self, array: str) -> str:
        parts = []
        for v in self.formula.inputs:
            note = self._annotation(v, array)
            parts.append(f"{v.name}: " + (f"list[{note}]" if v.many else f"{note} | None" if v.optional else note))
        parts += [f"{a.name}: {a.type}" for a in self.formula.arguments]
        return ", ".join(parts)

    def _returns(self, array: str) -> tuple[str, str]:
        """The annotation, and a class that it needs."""
        formula = self.formula
        outputs = [self._annotation(formula.node(name), array) for name in formula.outputs]
        saved = [f'tg.Saved[{self._annotation(formula.node(name), array)}, "{name}"]' for name in formula.saved]
        if self.form == "single":
            return outputs[0], ""
        if self.form == "named":
            fields = "".join(f"    {name}: {note}\n" for name, note in zip(formula.outputs, outputs, strict=True))
            return "Outputs", f"class Outputs(NamedTuple):\n{fields}\n\n"
        return f"tuple[{', '.join(outputs + saved)}]", ""

    def _source(self, made: Declaration) -> str:
        formula, in_c = self.formula, self.kernel == "c"
        array = "np.ndarray" if self.kernel == "numpy" else "Tensor"
        returns, extra = self._returns(array)
        text = ""
        if in_c or any(rule.medium == "c" for rule in made.rules):
            text += f"SOURCE = tg.c(r'''\n{c_source(formula)}''')\n\n\n"
        options = ['batch="loop"'] if self.batch == "loop" else []
        options += ["kernel=SOURCE"] if in_c else []
        text += extra + "@tg.op" + (f"({', '.join(options)})" if options else "") + "\n"
        spaces = ""
        if in_c:
            spaces = "".join(
                f', {name}: Float[tg.Workspace, "{axes}"]' for name, axes in native.kernel(formula, NAME).workspaces
            )
        text += f"def {NAME}({self._parameters(array)}{spaces}) -> {returns}:"
        text += " ...\n" if in_c else "\n" + textwrap.indent(self._body(self.kernel, flawed=True), "    ") + "\n"
        if formula.still:
            names = ", ".join(f'"{name}"' for name in formula.still)
            text += f'\n\n{NAME}.nondifferentiable({names}, reason="it is not wanted")\n'
        for rule in made.rules:
            text += "\n\n" + rule.text
        if made.constant:
            names = ", ".join(f'"{name}"' for name in made.constant)
            text += f"\n\n{NAME}.nondifferentiable({names})\n"
        return "".join(OVER_BATCH[language] + "\n\n" for language in sorted(self.helpers)) + text

    def _body(self, language: str, *, flawed: bool = False) -> str:
        p = Python(self.formula, language)
        names = (*self.formula.outputs, *self.formula.saved)
        for name in names:
            p.forward(name)
        results = list(names)
        if flawed and self.flaw == DRAWING_KERNEL:
            draw = self.c.pick(("torch.rand(())" if language == "torch" else "np.random.rand()", "random.random()"))
            p.lines.append(f"noise = 1.0 + {draw}")
            results = [f"noise * {name}" for name in names]
        made = ", ".join(results)
        return "\n".join([*p.lines, f"return Outputs({made})" if self.form == "named" and flawed else f"return {made}"])

    def _truth(self) -> str:
        p = Python(self.formula, "torch")
        for name in self.formula.outputs:
            p.forward(name)
        parameters = ", ".join(x.name for x in (*self.formula.inputs, *self.formula.arguments))
        # As an operator's, its outputs are new: torch treats an input that is handed on otherwise (under no_grad, say).
        lines = [re.sub(r"^(\w+ = [xyzw])$", r"\1.clone()", line) for line in p.lines]
        lines.append(f"return {', '.join(self.formula.outputs)}")
        if self.formula.elementwise:  # which takes numbers
            like = self.formula.inputs[0].name
            others = [v.name for v in self.formula.inputs[1:]]
            lines = [f"{name} = torch.as_tensor({name}, dtype={like}.dtype)" for name in others] + lines
        return f"def truth({parameters}):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


@functools.cache
def c_source(formula: Formula) -> str:
    """The kernel and every rule that it may have: one text for each formula."""
    grads, names = cotangents(formula), [v.name for v in formula.inputs]
    functions = [native.kernel(formula, NAME)]
    plain = [name for name in names if not (formula.values[name].many or formula.values[name].optional)]  # type: ignore[union-attr]
    alone = [name for name in names if not formula.values[name].many]  # type: ignore[union-attr]
    groups = [(name,) for name in alone] + [group for group in _subsets(plain) if len(group) > 1]
    for group in groups:
        tail = "_".join(group)
        functions.append(native.vjp(formula, f"{NAME}_vjp_{tail}", group, grads, kind="vjp"))
        functions.append(native.jvp(formula, f"{NAME}_jvp_{tail}", group))
        if len(group) == 1:
            if formula.elementwise:
                functions.append(native.jvp(formula, f"{NAME}_partial_{tail}", group, unit=True))
            if formula.linear_in(group[0]):
                functions.append(native.vjp(formula, f"{NAME}_adjoint_{tail}", group, grads, kind="adjoint"))
    head = "#include <complex.h>\n" if formula.complex else ""
    head += "#include <math.h>\n\nstatic T square(T u) { return u * u; }\n\n"
    if any(v.many for v in formula.inputs):
        head += (
            "static T list_sum(const T *const *xs, int64_t length, int64_t i) {\n    T sum = 0;\n"
            "    for (int64_t j = 0; j < length; j++) sum += (j + 1) * xs[j][i];\n    return sum;\n}\n\n"
        )
    return head + "\n".join(function.text for function in functions)


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for name in names:
        found += [(*group, name) for group in found]
    return found
