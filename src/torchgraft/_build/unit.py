"""A C file with the user's function: what the shim of a library and the program of the debugger have in common.

The user's source comes last, so that its macros and pragmas change nothing of ours, and what it defines is checked.
Generated for one combination of dtypes, in what C and C++ have in common. Names that begin with ``tg_`` are ours. In
the generated functions ``tg_f`` is the frame of a call, ``tg_c`` its general part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from .c_arguments import CODES, Array, SeedOfSample
from .prototype import C_TYPES, Prototype, spell
from .source import Language

_HEAD = """\
#include "{header}"
{includes}
{typedefs}
# 1 "{title}" 3
{declaration}
typedef struct {{
    tg_call call;
{fields}
}} tg_frame;

"""

_TAIL = """
{body}
# 1 "{title}"
{check}
"""


def indented(lines: Iterable[str], depth: int = 1) -> str:
    """Lines of code, as one text."""
    return "\n".join("    " * depth + line for line in lines)


class Unit:
    """A translation unit: the user's source among ours.

    Args:
        prototype: of the function.
        dtypes: of each tensor that is there, outputs too, by name.
        language: in which the function is written.
        fails: whether the function returns an error code.

    Attributes:
        arrays: the arguments that are there, of those that are tensors.
    """

    def __init__(
        self, prototype: Prototype, dtypes: Mapping[str, torch.dtype], language: Language = "c", *, fails: bool = False
    ) -> None:
        self.prototype = prototype
        self.signature = prototype.signature
        self.dtypes = dict(dtypes)
        self.language = language
        self.fails = fails
        self.arrays = [a for a in prototype.arrays if a.name in self.dtypes]

    def assemble(self, template: str, header: str, body: str, **parts: object) -> str:
        """The whole file, in the language of the user's source.

        Args:
            template: of what follows the frame.
            header: path of our header.
            body: the user's source, or what includes it.
            parts: of the template.
        """
        declaration, check = self._in_cpp() if self.language == "c++" else self._in_c()
        text = (_HEAD + template + _TAIL).format(
            header=header,
            includes=self._includes(),
            typedefs=self._typedefs(),
            declaration=declaration,
            body="{body}",
            title=f"<torchgraft {self.signature.name}>",
            check=check,
            fields=indented(self._fields()),
            **parts,
        )
        return spell(text, self.language).replace("{body}", body)

    def _includes(self) -> str:
        """The headers that the user's source finds included."""
        if self.language == "c":
            return ""
        types = [*self.prototype.typedefs(self.dtypes).values(), *self.prototype.parameters()]
        headers = ["exception", *(["complex"] if any("_Complex" in text for text in types) else [])]
        return "\n".join(f"#include <{header}>" for header in headers)

    def _typedefs(self) -> str:
        """``T`` and its like."""
        return "\n".join(f"typedef {kind} {name};" for name, kind in self.prototype.typedefs(self.dtypes).items())

    def _in_c(self) -> tuple[str, str]:
        """Declarations, and a check that the source defines the function: else a library's may be called."""
        ours, users = self.prototype, self.prototype.users
        declarations = [f"{p.declaration(fails=self.fails)};" for p in dict.fromkeys((ours, users))]
        alias = f'__attribute__((alias("{users.symbol}"), visibility("hidden")))'
        return (
            "\n".join([f"#define tg_function {ours.symbol}", *declarations]),
            f"#undef {users.symbol}\n#ifdef __ELF__\nextern __typeof__({users.symbol}) tg_defined {alias};\n#endif",
        )

    def _in_cpp(self) -> tuple[str, str]:
        """In C++, where functions overload, pointers to those that are as they should be."""
        declarations, checks = [], []
        for name, p in {"tg_function": self.prototype, "tg_users": self.prototype.users}.items():
            result, parameters = p.result_type(fails=self.fails), p.parameter_text("c++")
            declarations.append(f"typedef {result} {name}_type({parameters});")
            declarations.append(f"extern TG_HIDDEN {name}_type *const {name};")
            checks.append(f"#undef {p.symbol}\n{name}_type *const {name} = {p.symbol};")
        return "\n".join(declarations), "\n".join(checks)

    def _fields(self) -> Iterator[str]:
        for name in self.prototype.sizes:
            yield f"int64_t n_{name};"
        for late in self.prototype.late:
            yield f"int64_t n_{late.name}, l_{late.name}; /* the bound, and what the function says */"
        for argument in self.prototype.arguments:
            yield from (f"{line};" for line in argument.fields())
        for result in self.prototype.results:
            yield from (f"{line};" for line in result.fields())

    # -- what the parts of a file are made of -----------------------------------------------------------------------

    def sizes(self) -> list[str]:
        """The sizes that the function takes."""
        return [f"tg_f->n_{name}" for name in self.prototype.sizes]

    def element(self, name: str) -> tuple[int, str]:
        """The code of a tensor's dtype, and the size of an element."""
        dtype = self.dtypes[name]
        return CODES[dtype], f"sizeof({C_TYPES[dtype]})"

    def sample_call(self, outputs: Iterable[str]) -> str:
        """The call for one sample."""
        arguments = [value for argument in self.prototype.arguments for value in argument.values()]
        late = [f"&tg_f->l_{late.name}" for late in self.prototype.late]
        return f"tg_function({', '.join([*self.sizes(), *arguments, *outputs, *late])});"

    def element_call(self, place: str, number: str) -> str:
        """The call for one element; `place` says where a tensor has it, and `number` which one it is."""
        arguments = self.sizes()
        for a in self.prototype.arguments:
            if isinstance(a, SeedOfSample):
                arguments.append(a.of_sample(number))
            elif isinstance(a, Array):
                arguments.append(place.format(p="a_", n=a.name, e=a.element, c="const "))
            else:
                arguments += a.values()
        results = [place.format(p="o_", n=r.name, e=r.element, c="") for r in self.prototype.results]
        if self.prototype.returns_result:
            return f"{results[0]} = tg_function({', '.join(arguments)});"
        return f"tg_function({', '.join([*arguments, *(f'&{result}' for result in results)])});"

    @property
    def guard(self) -> tuple[str, str]:
        """Lines before and after calls, which report exceptions of C++."""
        if self.language == "c":
            return "", ""
        return "try { ", (
            " } catch (const std::exception &tg_e) { tg_note(tg_c, 1, tg_e.what()); }"
            ' catch (...) { tg_note(tg_c, 1, "the function threw something that is no std::exception"); }'
        )
