"""The C function behind an operator: what it takes, in which order, and how that is written in C.

It sees one sample: the sizes of its axes, in the order in which the annotations name them, then the operator's
arguments in their order, then the outputs. That of an elementwise operator sees one element, and returns the result.
"""

from __future__ import annotations

import torch

from .._errors import DeclarationError
from .._spec.arguments import Scalar
from .._spec.axes import Axes
from .._spec.dtypes import Dtypes, complex_twin, name_of, real_twin
from .._spec.signature import Parameter, Signature

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

_SCALARS = {bool: "bool", int: "int64_t", float: "double", str: "char", torch.dtype: "int32_t"}

_RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false NULL T T_real T_complex class new delete this template typename operator namespace private public protected "
    "using virtual try catch throw asm export friend mutable and or not xor".split()
)


class Prototype:
    """What the C function of an operator takes.

    Attributes:
        signature: of the operator.
        symbol: the name of the function.
        scalar: it sees one element.
        sizes: names of the axes whose sizes it takes.

    Raises:
        DeclarationError: an annotation has no counterpart in C.
    """

    def __init__(self, signature: Signature, symbol: str) -> None:
        self.signature = signature
        self.symbol = symbol
        self.scalar = signature.elementwise
        self.sizes: list[str] = []
        types = [(p.name, p.tensor.axes) for _, p in signature.tensors]
        for name, axes in [*types, *((output.name, output.type.axes) for output in signature.outputs)]:
            for token in self._core(name, axes).tokens:
                if token.name is not None and not token.variadic and token.name not in self.sizes:
                    self.sizes.append(token.name)
        self._check_names()
        self.declaration()  # which refuses what C has no type for

    def _refuse(self, problem: str, argument: str, expected: str, got: str, hint: str | None = None) -> Exception:
        return DeclarationError(
            problem, operator=self.signature.name, argument=argument, expected=expected, got=got, hint=hint
        )

    def _core(self, name: str, axes: Axes | None) -> Axes:
        if axes is None:
            raise self._refuse(
                "a C function needs the axes of its tensors", name, 'Float[Tensor, "m n"]', "a bare Tensor"
            )
        for position, token in enumerate(axes.tokens):
            if token.variadic and not self.scalar and (position > 0 or token.name is None):
                raise self._refuse(
                    "a C function sees one sample, of a fixed number of axes", name, "a run of axes in front, *batch",
                    axes.text,
                )  # fmt: skip
            if token.anonymous:
                raise self._refuse("the C function would not know its size", name, "a name for each axis", axes.text)
        return axes

    def _check_names(self) -> None:
        names = [*self.sizes, *self.signature.names, *(output.name for output in self.signature.outputs)]
        for name in names:
            if name in _RESERVED or names.count(name) > 1:
                raise self._refuse(
                    f"'{name}' cannot be a parameter of a C function", name, "names that differ, and no keyword of C",
                    ", ".join(names), f"rename '{name}' in the operator's signature",
                )  # fmt: skip

    def core(self, axes: Axes | None) -> Axes:
        """The axes of one sample, batch axes left out."""
        assert axes is not None
        return Axes(" ".join(t.text for t in axes.tokens if not t.variadic), self.signature.name, axes.where)

    # -- C --------------------------------------------------------------------------------------------------------

    def element(self, name: str, dtypes: Dtypes) -> str:
        """The C type of a tensor's elements, in terms of ``T``."""
        if dtypes.exact is not None:
            return self._c_type(name, dtypes.exact)
        if dtypes.kind == "Float" and self._kinds & {"Complex"}:
            return "T_real"
        if dtypes.kind == "Complex" and self._kinds & {"Float"}:
            return "T_complex"
        return "T" if dtypes.numeric else f"T_{name}"

    @property
    def _kinds(self) -> set[str]:
        kinds = [p.tensor.dtypes.kind for _, p in self.signature.tensors]
        return {*kinds, *(output.type.dtypes.kind for output in self.signature.outputs)}

    def _c_type(self, name: str, dtype: torch.dtype) -> str:
        if dtype not in C_TYPES:
            raise self._refuse("there is no such type in C", name, ", ".join(map(name_of, C_TYPES)), name_of(dtype))
        return C_TYPES[dtype]

    def typedefs(self, dtypes: dict[str, torch.dtype]) -> dict[str, str]:
        """What ``T`` and its like are for the dtypes of one call.

        Args:
            dtypes: the dtype of each tensor, outputs too, by name.
        """
        found: dict[str, str] = {}
        tensors = [(p.name, p.tensor.dtypes) for _, p in self.signature.tensors]
        for name, kinds in [*tensors, *((output.name, output.type.dtypes) for output in self.signature.outputs)]:
            if name not in dtypes:
                continue
            element, dtype = self.element(name, kinds), dtypes[name]
            if element in ("T_real", "T_complex"):
                found |= {"T_real": self._c_type(name, real_twin(dtype))}
                found |= {"T_complex": self._c_type(name, complex_twin(dtype)), "T": found["T_real"]}
            elif element.startswith("T"):
                found[element] = self._c_type(name, dtype)
        return found

    def parameters(self) -> list[str]:
        """The parameters as C writes them."""
        sizes = [f"int64_t {name}" for name in self.sizes]
        arguments = [text for p in self.signature.parameters for text in self._parameter(p)]
        outputs = [] if self.returns_result else self.signature.outputs
        return sizes + arguments + [f"{self.element(o.name, o.type.dtypes)} *{o.name}" for o in outputs]

    def names(self) -> list[str]:
        """The names of the parameters."""
        return [text.replace("*", " ").split()[-1] for text in self.parameters()]

    @property
    def returns_result(self) -> bool:
        """Whether it returns its only output, instead of writing it where it is told."""
        return self.scalar and len(self.signature.outputs) == 1

    def _parameter(self, parameter: Parameter) -> list[str]:
        name = parameter.name
        if parameter.is_tensor:
            if parameter.many:
                raise self._refuse("a list of tensors", name, "tensors one by one", "a list")
            element = self.element(name, parameter.tensor.dtypes)
            if self.scalar and parameter.optional:
                raise self._refuse("an element cannot be left out", name, "a tensor", "an optional tensor")
            return [f"{element} {name}" if self.scalar else f"const {element} *{name}"]
        kind = scalar_type(parameter.scalar)
        if kind is None:
            raise self._refuse("has no counterpart in C", name, "bool, int, float, str, or a list", str(parameter.scalar))
        if parameter.scalar.many or parameter.scalar.type is str:
            return [f"const {kind} *{name}", f"int64_t {name}_length"]
        return [f"const {kind} *{name}" if parameter.optional else f"{kind} {name}"]

    def declaration(self, *, fails: bool = False) -> str:
        """The prototype, as a user has it in a header.

        Args:
            fails: the function returns an error code.

        Example:
            >>> print(Prototype(correlate2d.signature, "correlate2d").declaration())
            void correlate2d(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *x, const T *kernel, T *out)
        """
        result = "int" if fails else "void"
        if self.returns_result:
            (output,) = self.signature.outputs
            result = self.element(output.name, output.type.dtypes)
        return f"{result} {self.symbol}({', '.join(self.parameters()) or 'void'})"


def scalar_type(scalar: Scalar) -> str | None:
    """How C names a non-tensor argument; of a list, its items."""
    if scalar.many and scalar.type is str:
        return None
    return _SCALARS.get(scalar.type)
