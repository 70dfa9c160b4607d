"""The program that a debugged kernel runs in: the user's function, and a `main` that calls it on arrays from a file."""

from __future__ import annotations

from collections.abc import Iterator

from .c_arguments import Argument, Array, Arrays, Complexes, Number, Numbers, Scratch, Text, Texts, of_items
from .prototype import Result, Results
from .unit import Unit, indented

_MAIN = """\
int main(int tg_argc, char **tg_argv) {{
    static tg_frame tg_memory;
    tg_frame *tg_f = &tg_memory;
    tg_call *tg_c = &tg_f->call;
    if (tg_argc != 4 || !(tg_in = fopen(tg_argv[1], "rb")) || !(tg_out = fopen(tg_argv[2], "wb"))) return 2;
    fesetenv(FE_DFL_ENV); /* as Python's process has it, whatever -ffast-math did when this one began */
    setvbuf(stdout, NULL, _IOLBF, 0); /* what is printed before a crash is seen */
    tg_poison = atoi(tg_argv[3]);
{load}
    for (tg_sample = 0; tg_sample < tg_c->samples; tg_sample++) {{
{make}
{call}
{drop}
    }}
    tg_finish();
    return fclose(tg_out);
}}
"""


class Harness(Unit):
    """The source of the program; `Call` writes the file that it reads."""

    def source(self, header: str, body: str) -> str:
        """The source of the whole program.

        Args:
            header: path of `harness.h`.
            body: the user's source, or what includes it.
        """
        return self.assemble(
            _MAIN,
            header,
            body,
            load=indented(self._load()),
            make=indented(self._make_pieces(), 2),
            call=indented(self._calls(), 2),
            drop=indented(self._drop(), 2),
        )

    def _load(self) -> Iterator[str]:
        yield "tg_c->samples = tg_word();"
        yield from (f"tg_f->n_{name} = tg_word();" for name in self.prototype.sizes)
        for late in self.prototype.late:
            yield f"tg_f->n_{late.name} = tg_word();"
            yield f"tg_f->l_{late.name} = -1;"
        for argument in self.prototype.arguments:
            yield from self._load_argument(argument)
        for result in self.prototype.results:
            yield from self._load_result(result)

    def _load_result(self, result: Result) -> Iterator[str]:
        field = result.field
        if not isinstance(result, Results):
            yield f"tg_outline(&{field});"
            return
        yield f"{field}_length = tg_word();"
        yield f"{field} = (tg_tensor *)calloc((size_t){field}_length + 1, sizeof(tg_tensor));"
        yield f"{field}_sizes = (const int64_t **)calloc((size_t){field}_length + 1, sizeof(int64_t *));"
        yield f"for (int64_t tg_i = 0; tg_i < {field}_length; tg_i++) {{"
        yield f"    tg_outline(&{field}[tg_i]);"
        yield f"    {field}_sizes[tg_i] = {field}[tg_i].sizes;"
        yield "}"

    def _load_argument(self, argument: Argument) -> Iterator[str]:
        field, name = argument.field, argument.name
        match argument:
            case Arrays():
                yield f"{field}_length = tg_word();"
                yield f"{field} = (tg_tensor *)calloc((size_t){field}_length + 1, sizeof(tg_tensor));"
                yield f'for (int64_t tg_i = 0; tg_i < {field}_length; tg_i++) tg_load(&{field}[tg_i], "{name}");'
                if of_items(name, argument.core):
                    assert argument.core is not None
                    sizes, item = f"{field}_sizes", f"{field}[tg_i]"
                    count = len(argument.core.tokens)
                    yield f"{sizes} = (const int64_t **)calloc((size_t){field}_length + 1, sizeof(int64_t *));"
                    yield f"for (int64_t tg_i = 0; tg_i < {field}_length; tg_i++)"
                    yield f"    {sizes}[tg_i] = {item}.sizes + ({item}.dim - {count});"
            case Array():
                yield f'if (tg_word()) tg_load(&{field}, "{name}");'
            case Scratch():
                yield f"{field} = tg_word();"
            case Number():
                yield f"tg_f->given_{name} = tg_word() != 0;"
                yield f"tg_get(&{field}, sizeof {field});"
            case Numbers() | Complexes() | Text():
                yield f'*(unsigned char **)&{field} = tg_next("{name}");'
                yield f"{field}_length = tg_word();"
            case Texts():
                yield f"{field}_length = tg_word();"
                yield f"if ({field}_length >= 0)"
                yield f"    {field} = (const char **)calloc((size_t){field}_length + 1, sizeof(char *));"
                yield f"for (int64_t tg_i = 0; tg_i < {field}_length; tg_i++)"
                yield f'    {field}[tg_i] = (const char *)tg_next("{name}");'
                yield f"if ({field}_length < 0) {field}_length = 0;"

    def _make_pieces(self) -> Iterator[str]:
        """Outputs last, in reverse, so that they are dropped in their order."""
        for argument in self.prototype.arguments:
            if isinstance(argument, Scratch):
                size = f"{argument.field} * (int64_t)sizeof({argument.element})"
                made = f'({argument.element} *)tg_new("{argument.name}", {size}, 0, tg_poison ^ 15)'
                yield f"{argument.element} *tg_w_{argument.name} = {made};"
            elif isinstance(argument, Arrays):
                yield from _pointers(argument)
        for result in reversed(self.prototype.results):
            made = f'"{result.name}", sizeof({result.element})'
            if isinstance(result, Results):
                field = result.field
                yield f"for (int64_t tg_i = {field}_length; tg_i-- > 0;) tg_make(&{field}[tg_i], {made});"
                yield from _pointers(result)
            else:
                yield f"tg_make(&{result.field}, {made});"
            if result.begins:
                before = f"tg_at(tg_c, &tg_f->a_{result.begins}, tg_sample)"
                bytes_ = f"tg_bytes(&{result.field}, sizeof({result.element}))"
                yield f"memcpy({result.field}.data, {before}, (size_t){bytes_});"

    def _calls(self) -> Iterator[str]:
        """An element is a sample, too: of inputs in one piece, and of outputs with nothing beside them."""
        before, after = self.guard
        yield before or "{"
        if self.prototype.scalar:
            yield "int64_t tg_a_i = tg_sample, tg_o_i = 0;"
            yield self.element_call("(({c}{e} *)tg_f->{p}{n}.data)[tg_{p}i]", "tg_a_i")
        else:
            yield "int64_t tg_i = tg_sample;"
            call = self.sample_call(value for result in self.prototype.results for value in result.values())
            yield f"int tg_code = {call} if (tg_code) tg_note(tg_c, tg_code, NULL);" if self.fails else call
            yield "(void)tg_i;"
        yield after or "}"

    def _drop(self) -> Iterator[str]:
        yield from (f"tg_put(tg_f->l_{late.name});" for late in self.prototype.late)
        for result in self.prototype.results:
            several = isinstance(result, Results)
            yield f"{f'for (int64_t tg_i = 0; tg_i < {result.field}_length; tg_i++) ' if several else ''}tg_drop(true);"
            yield from [f"free((void *)tg_p_{result.name});"] if several else []
        for argument in self.prototype.arguments:
            if isinstance(argument, Scratch):
                yield "tg_drop(false);"
            elif isinstance(argument, Arrays):
                yield f"free((void *)tg_p_{argument.name});"


def _pointers(tensors: Arrays | Results) -> Iterator[str]:
    """The place of a sample in each tensor of a list."""
    name, length = f"tg_p_{tensors.name}", f"{tensors.field}_length"
    yield f"const void **{name} = (const void **)malloc((size_t)({length} + 1) * sizeof(void *));"
    yield f"tg_at_each(tg_c, {tensors.field}, {length}, tg_sample, {name});"
