"""The C function behind an operator or a rule: what it takes, in which order, and how that is written in C.

It sees one sample: the sizes of its axes, in the order in which the annotations name them, then the arguments in their
order, then the outputs. Sizes that are known only after the call come last, by pointer: it writes them, and fills the
first part of memory that is as large as their bounds say. The function of an elementwise operator sees one element, and
returns the result. A tensor whose axes the annotations do not fix is passed whole, with its sizes and strides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from .._spec.axes import Axes
from .._spec.dtypes import Dtypes, complex_twin, name_of, real_twin
from .._spec.signature import Output, Parameter, Signature, TensorType
from .._spec.workspace import Memory
from ..errors import DeclarationError, DtypeError
from .c_arguments import (
    Argument,
    Array,
    Arrays,
    Complexes,
    DeviceName,
    Number,
    Numbers,
    Scratch,
    SeedOfSample,
    Text,
    Texts,
    Written,
    of_items,
    whole,
    whole_values,
)
from .source import Language

C_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.complex64: "float _Complex",
    torch.complex128: "double _Complex",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.uint8: "uint8_t",
    torch.uint16: "uint16_t",
    torch.uint32: "uint32_t",
    torch.uint64: "uint64_t",
    torch.bool: "bool",
}
"""How C names the elements of a tensor."""

_IN_CPP = {"float _Complex": "std::complex<float>", "double _Complex": "std::complex<double>"}

_RESERVED = frozenset(
    {
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
        "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
        "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
        "volatile", "while", "bool", "true", "false", "NULL", "T", "T_real", "T_complex", "class", "new",
        "delete", "this", "template", "typename", "operator", "namespace", "private", "public", "protected",
        "using", "virtual", "try", "catch", "throw", "asm", "export", "friend", "mutable", "and", "or", "not",
        "xor",
    }
)  # fmt: skip


_EITHER = {"Inexact", "Num"}
"""Kinds of dtypes that are real or complex: beside them, Float and Complex are the twins of ``T``."""


def spell(code: str, language: Language) -> str:
    """C code with the names that its types have in a language."""
    for in_c, in_cpp in _IN_CPP.items() if language == "c++" else ():
        code = code.replace(in_c, in_cpp)
    return code


@dataclass(frozen=True)
class Result:
    """An output of the C function.

    Attributes:
        name: as the annotations have it.
        element: the C type of its elements.
        core: the axes of one sample; None where it is passed whole.
        begins: the argument whose values it holds before the call, and by whose name the function knows it; or None.
    """

    name: str
    element: str
    core: Axes | None
    begins: str | None = None

    @property
    def field(self) -> str:
        """The parameter's place in the frame of the call."""
        return f"tg_f->o_{self.name}"

    def parameters(self) -> list[str]:
        """The parameters of the C function."""
        if self.begins:
            return []
        return [f"{self.element} *{self.name}", *(whole(self.name) if self.core is None else [])]

    def fields(self) -> Iterator[str]:
        """Its members of the frame."""
        yield f"tg_tensor o_{self.name}"

    def values(self) -> list[str]:
        """The expressions that the function is called with."""
        if self.begins:
            return []
        if self.core is None:
            return [f"({self.element} *){self.field}.data", *whole_values(self.field)]
        return [f"({self.element} *)tg_at(tg_c, &{self.field}, tg_i)"]


class Results(Result):
    """An output that is a list of tensors: a pointer to pointers, their sizes where they differ, and a length."""

    def parameters(self) -> list[str]:
        return [f"{self.element} *const *{self.name}", *of_items(self.name, self.core), f"int64_t {self.name}_length"]

    def fields(self) -> Iterator[str]:
        yield f"tg_tensor *o_{self.name}; const int64_t **o_{self.name}_sizes; int64_t o_{self.name}_length"

    def values(self) -> list[str]:
        sizes = [f"{self.field}_sizes"] if of_items(self.name, self.core) else []
        return [f"({self.element} *const *)tg_p_{self.name}", *sizes, f"{self.field}_length"]


class Prototype:
    """The parameters of a C function.

    Args:
        signature: of the operator; of a rule, what it reads and what it returns.
        symbol: the name of the function.
        sizes: of a rule: the axes whose sizes its operator's function takes, and so it.
        called: of the user's function that this one calls, if it is ours.

    Attributes:
        sizes: names of the axes whose sizes it takes.
        users: of the user's function.
        late: axes whose size it writes; a rule, which comes later, takes them as any other size.
        is_rule: sizes, and shapes of results, are given by the caller: what a rule reads does not tell them all.

    Raises:
        DeclarationError: an annotation has no counterpart in C.
    """

    def __init__(
        self,
        signature: Signature,
        symbol: str,
        *,
        sizes: Sequence[str] | None = None,
        called: Prototype | None = None,
    ) -> None:
        self.signature = signature
        self.symbol = symbol
        self.users = called or self
        self.is_rule = sizes is not None
        self.sizes = list(self._sizes() if sizes is None else sizes)
        self.late = () if self.is_rule else signature.late
        self._check_runs()
        self._check_late()
        self._check_names()

    # -- what there is ------------------------------------------------------------------------------------------

    def _types(self) -> list[tuple[str, TensorType]]:
        tensors = [(p.name, p.tensor) for _, p in self.signature.tensors]
        return [*tensors, *((output.name, output.type) for output in self.signature.outputs)]

    def _sizes(self) -> list[str]:
        names: dict[str, None] = {}
        for name, kind in self._types():
            core = self.core(name, kind.axes)
            names |= {t.name: None for t in (core.tokens if core else ()) if t.name is not None}
        return [name for name in names if name not in self.signature.late_names]

    @cached_property
    def _lists(self) -> set[str]:
        """The names of lists of tensors, each of which the function may be told the sizes of."""
        parameters = {p.name for _, p in self.signature.tensors if p.many}
        return parameters | {output.name for output in self.signature.outputs if output.many}

    def core(self, name: str, axes: Axes | None) -> Axes | None:
        """The axes of one sample, batch axes left out; None where the function is told them."""
        if axes is None:
            return None
        for position, token in enumerate(axes.tokens):
            if token.variadic and not self._is_batch(position, token.name):
                return None
            if token.anonymous and name not in self._lists:
                raise self._refuse("the C function would not know its size", name, "a name for each axis", axes.text)
        return Axes(" ".join(t.text for t in axes.tokens if not t.variadic), self.signature.name, axes.where)

    @property
    def scalar(self) -> bool:
        """True if the function sees one element."""
        return self.signature.elementwise

    @property
    def count(self) -> str | None:
        """The size that is the number of samples, of a function that sees all of them."""
        return None

    def _is_batch(self, position: int, name: str | None) -> bool:
        """Tell whether a run of axes is left out of what the function sees."""
        return self.scalar or (position == 0 and name is not None)

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Arguments of the function, without sizes and outputs."""
        arguments = [self._argument(parameter) for parameter in self.signature.parameters]
        for position, name, workspace in self.signature.workspaces:
            arguments.insert(position, self._scratch(name, workspace))
        return tuple(arguments)

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """The tensors among the arguments."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Array))

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The outputs, in their order."""
        return tuple(map(self._result, self.signature.outputs))

    def _result(self, output: Output) -> Result:
        core = self.core(output.name, output.type.axes)
        if output.many and core is None:
            raise self._refuse("a C function makes lists of samples alone", output.name, "annotated axes", str(output))
        if output.many and self.is_rule:
            raise self._refuse(
                "a rule in C returns no list of tensors", output.name, "one tensor for each result", str(output),
                "write the rule in torch or NumPy",
            )  # fmt: skip
        element = self.element(output.after or output.name, output.type.dtypes)
        return (Results if output.many else Result)(output.name, element, core, None if self.scalar else output.after)

    @cached_property
    def returns_result(self) -> bool:
        """True if it returns its only output, instead of writing it to a given address."""
        return self.scalar and len(self.signature.outputs) == 1

    @cached_property
    def gives_shapes(self) -> bool:
        """True if the caller gives the shapes of the outputs."""
        told = self.signature.returns_list or any(result.core is None for result in self.results)
        return told or (self.is_rule and not self.scalar)

    @cached_property
    def gives_batch(self) -> bool:
        """True if the caller says over which elements a rule goes, since what it reads may be smaller."""
        return self.is_rule and self.scalar

    @cached_property
    def whole(self) -> bool:
        """True if a tensor is passed whole, so that there are no samples."""
        return any(core is None for core in (*(a.core for a in self.arrays), *(r.core for r in self.results)))

    @cached_property
    def has_ready_calls(self) -> bool:
        """True if Python can call it without the dispatcher: it takes tensors, by samples, and plain numbers alone.

        Where it says sizes, and where it makes a list, each call has outputs of its own to make.
        """
        plain = all(a.from_python() is not None for a in self.arguments if a.schema)
        return plain and not (self.whole or self.late or self.signature.returns_list)

    @cached_property
    def trailing(self) -> tuple[str, ...]:
        """Values after the arguments: sizes of axes, shapes of outputs; None where inputs tell them."""
        untold = self.whole and not set(self.sizes) <= self._bound
        sizes = ("tg_sizes",) if (self.is_rule and not self.scalar) or untold else ()
        return (*sizes, "tg_shapes") if self.gives_shapes or self.gives_batch else sizes

    @cached_property
    def tells_sizes(self) -> bool:
        """True if its tensors, when none is left out, tell the sizes of all axes, and so the outputs' shapes."""
        return set(self.sizes) <= self._bound and not self.whole

    @cached_property
    def _bound(self) -> set[str | None]:
        """The axes of the samples: what is passed whole has none."""
        tokens = [token for array in self.arrays if array.core is not None for token in array.core.tokens]
        return {token.name for token in tokens if not token.broadcast}

    def schema(self, *, bare: bool = False) -> str:
        """The schema of the function in the dispatcher, without a name.

        Args:
            bare: without what the caller may leave out.
        """
        slots = [f"{argument.schema} {argument.name}" for argument in self.arguments if argument.schema]
        slots += [] if bare else [f"SymInt[]? {name}" for name in self.trailing]
        returns = ", ".join("Tensor[]" if isinstance(result, Results) else "Tensor" for result in self.results)
        return f"({', '.join(slots)}) -> " + (returns if len(self.results) == 1 else f"({returns})")

    # -- C --------------------------------------------------------------------------------------------------------

    def element(self, name: str, dtypes: Dtypes) -> str:
        """The C type of a tensor's elements, in terms of ``T``."""
        if dtypes.exact is not None:
            if dtypes.exact not in C_TYPES:
                known = ", ".join(map(name_of, C_TYPES))
                raise self._refuse("there is no such type in C", name, known, name_of(dtypes.exact))
            return C_TYPES[dtypes.exact]
        if dtypes.kind == "Float" and self._kinds & {"Complex", *_EITHER}:
            return "T_real"
        if dtypes.kind == "Complex" and self._kinds & {"Float", *_EITHER}:
            return "T_complex"
        return "T" if dtypes.numeric else f"T_{name}"

    @cached_property
    def _kinds(self) -> set[str]:
        return {kind.dtypes.kind for _, kind in self._types()}

    def typedefs(self, dtypes: Mapping[str, torch.dtype]) -> dict[str, str]:
        """Definitions of ``T`` and its like for the dtypes of one call.

        Args:
            dtypes: the dtype of each tensor, outputs too, by name.

        Raises:
            DtypeError: ``T`` would have to be two types.
        """
        found: dict[str, str] = {}
        for name, kind in self._types():
            if name not in dtypes:
                continue
            element, dtype = self.element(name, kind.dtypes), dtypes[name]
            if dtype not in C_TYPES:
                raise self._refuse("there is no such type in C", name, ", ".join(map(name_of, C_TYPES)), name_of(dtype))
            if element in ("T_real", "T_complex"):
                found |= {"T_real": C_TYPES[real_twin(dtype)], "T_complex": C_TYPES[complex_twin(dtype)]}
                found |= {} if self._kinds & _EITHER else {"T": found["T_real"]}
            elif element.startswith("T") and found.setdefault(element, C_TYPES[dtype]) != C_TYPES[dtype]:
                raise DtypeError(
                    "a C function has one type of elements", operator=self.signature.name, argument=name,
                    expected=found[element], got=f"{C_TYPES[dtype]}, of {name_of(dtype)}",
                    hint="cast one of them, or annotate them with Float and Complex, which are T_real and T_complex",
                )  # fmt: skip
        return found

    @cached_property
    def type_names(self) -> set[str]:
        """``T`` and its like, as far as they occur."""
        elements = [*(a.element for a in self.arrays), *(r.element for r in self.results)]
        elements += [a.element for a in self.arguments if isinstance(a, Scratch)]
        return {element for element in elements if element == "T" or element.startswith("T_")}

    def parameters(self) -> list[str]:
        """The parameters as C writes them."""
        sizes = [f"int64_t {name}" for name in self.sizes]
        arguments = [text for argument in self.arguments for text in argument.parameters()]
        outputs = [] if self.returns_result else [text for result in self.results for text in result.parameters()]
        return sizes + arguments + outputs + [f"int64_t *{late.name}" for late in self.late]

    def names(self) -> list[str]:
        """The names of the parameters."""
        return [text.replace("*", " ").split()[-1] for text in self.parameters()]

    @cached_property
    def ambiguous(self) -> set[str]:
        """Parameters that would be taken for their neighbours: sizes and lengths, where several of a type follow."""
        own = {a.name for a in self.arguments} | {result.name for result in self.results}
        typed = [(text.removesuffix(name), name) for text, name in zip(self.parameters(), self.names(), strict=True)]
        runs = [[name for _, name in run] for _, run in itertools.groupby(typed, key=lambda pair: pair[0])]
        return {name for run in runs if len(run) > 1 for name in run if name not in own}

    def declaration(self, *, fails: bool = False, language: Language = "c") -> str:
        """The prototype, as a user has it in a header.

        Args:
            fails: the function returns an error code.
            language: in which complex numbers have other names.

        Example:
            >>> print(Prototype(correlate2d.signature, "correlate2d").declaration())
            void correlate2d(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *x, const T *kernel, T *out)
        """
        return f"{self.result_type(fails=fails)} {self.symbol}({self.parameter_text(language)})"

    def result_type(self, *, fails: bool) -> str:
        """The C type of the function's result."""
        return self.results[0].element if self.returns_result else "int" if fails else "void"

    def parameter_text(self, language: Language) -> str:
        """The parameters, as they stand in a head."""
        return spell(", ".join(self.parameters()) or "void", language)

    # -- reading the signature ------------------------------------------------------------------------------------

    def _argument(self, parameter: Parameter) -> Argument:
        name, optional = parameter.name, parameter.optional
        if parameter.is_tensor:
            element, core = self.element(name, parameter.tensor.dtypes), self.core(name, parameter.tensor.axes)
            if parameter.many and (self.scalar or core is None):
                raise self._refuse("a C function takes lists of samples alone", name, "annotated axes", "a list")
            if self.scalar and optional:
                raise self._refuse("an element cannot be left out", name, "a tensor", "an optional tensor")
            if parameter.written and not self.scalar:
                after = next(output.name for output in self.signature.outputs if output.after == name)
                return Written(name, optional, element, core, self.scalar, after)
            kind = SeedOfSample if parameter.is_seed else Arrays if parameter.many else Array
            return kind(name, optional, element, core, self.scalar)
        scalar = parameter.scalar
        if scalar.type is complex:
            return Complexes(name, optional, scalar.many)
        if scalar.type is str:
            return (Texts if scalar.many else Text)(name, optional)
        if scalar.type is torch.device:
            return DeviceName(name, optional)
        return (Numbers if scalar.many else Number)(name, optional, scalar)

    def _scratch(self, name: str, workspace: Memory) -> Scratch:
        if self.scalar:
            raise self._refuse("an element needs no memory", name, "no workspace", str(workspace))
        element = "T" if workspace.dtype is None else C_TYPES[workspace.dtype]
        return Scratch(name, False, element, workspace.axes(self.signature.name, name))

    # -- refusing -------------------------------------------------------------------------------------------------

    def _refuse(self, problem: str, argument: str, expected: str, got: str, hint: str | None = None) -> Exception:
        return DeclarationError(
            problem, operator=self.signature.name, argument=argument, expected=expected, got=got, hint=hint
        )

    def _check_runs(self) -> None:
        """Batch axes are those of every output, and of no whole array."""
        runs = {
            (token.name, token.text): name
            for name, kind in self._types()
            if not self.scalar and self.core(name, kind.axes) and kind.axes and (token := kind.axes.leading_run)
        }
        if len({name for name, _ in runs}) > 1:
            text = ", ".join(f"{name}: {text}" for (_, text), name in runs.items())
            raise self._refuse("a C function has one run of batch axes", list(runs.values())[-1], "*batch", text)
        if runs and self.whole:
            raise self._refuse(
                "a whole array has no samples", next(iter(runs.values())),
                "no *batch beside a tensor that is passed whole",
                ", ".join(f"{name}: {kind}" for name, kind in self._types()),
            )  # fmt: skip
        for output in self.signature.outputs:
            if runs and not self.is_rule and output.type.axes and output.type.axes.leading_run is None:
                run = next(iter(runs))[1]
                raise self._refuse(
                    "a C function sees one sample: it cannot sum over the batch axes", output.name,
                    f"{run} {output.type.axes}", str(output.type), "sum in torch, or take the array as a bare Tensor",
                )  # fmt: skip

    def _check_late(self) -> None:
        """Each output's memory is as large as what the inputs tell before the call."""
        for late in self.late:
            if late.bound is None or not late.reads <= set(self.sizes):
                raise self._refuse(
                    f"a C function must be given memory before it says how large {late.name} is", "data_dependent",
                    f"a bound in the sizes that it knows: {', '.join(self.sizes) or 'numbers'}", str(late),
                    f'write data_dependent="{late.name} <= {next(iter(self.sizes), 100)}", or a larger size',
                )  # fmt: skip
        for output in self.signature.outputs if self.late else ():
            axes = output.type.axes
            assert axes is not None
            within = [token.text for token in axes.tokens if not self.signature.late_names.isdisjoint(token.reads[0])]
            if within or self.core(output.name, axes) is None or axes.run is not None:
                raise self._refuse(
                    f"the size {within[0]} is computed from one that the C function has not said yet" if within
                    else "samples would have outputs of different sizes", output.name,
                    "single axes, whose sizes are known or in data_dependent=", str(output.type),
                    f"name the axis, and give its bound: \"{self.late[0]}  m <= ...\"" if within else None,
                )  # fmt: skip

    def _check_names(self) -> None:
        names = self.names() + [result.name for result in self.results if self.returns_result]
        if self.symbol in (*_RESERVED, *names):
            raise self._refuse(
                f"'{self.symbol}' cannot be the name of a C function", self.symbol,
                "a name that differs, and no keyword", self.symbol, "give another name, tg.c(..., function=...)",
            )  # fmt: skip
        for name in names:
            if name in _RESERVED or names.count(name) > 1 or name.startswith("tg_"):
                raise self._refuse(
                    f"'{name}' cannot be a parameter of a C function", name, "names that differ, and no keyword of C",
                    ", ".join(names), f"rename '{name}' in the signature",
                )  # fmt: skip
