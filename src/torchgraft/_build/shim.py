"""The source of a kernel library: the user's function, and around it what libtorch calls.

Generated for one combination of dtypes, in what C and C++ have in common; `shim.h` has what is the same for all. Names
that begin with ``tg_`` are ours. In the generated functions ``tg_f`` is the frame of a call, ``tg_c`` its general part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from .arguments import CODES, Array, Arrays, Scratch
from .prototype import C_TYPES, Prototype, Result, spell
from .sizes import core_sizes, elements_of, size_of
from .source import Language

_FILE = """\
#include "{header}"
{includes}
{typedefs}
{declaration}
{body}
# 1 "{title}" 3
{check}

typedef struct {{
    tg_call call;
{fields}
}} tg_frame;

{run}
static void tg_body(tg_frame *tg_f, tg_value *tg_stack) {{
    tg_call *tg_c = &tg_f->call;
{body_of_call}
}}

static bool tg_protected(tg_frame *tg_f, tg_value *tg_stack) {{
    bool tg_done = !_setjmp(tg_f->call.failed);
    if (tg_done) tg_body(tg_f, tg_stack);
    tg_release(&tg_f->call);
    return tg_done;
}}

static TG_UNUSED void tg_entry(tg_value *tg_stack, uint64_t tg_in, uint64_t tg_out) {{
    tg_frame tg_f;
    (void)tg_in, (void)tg_out;
    tg_start(&tg_f.call, "{operator}");
    if (!tg_protected(&tg_f, tg_stack)) /* libtorch throws its exception through this frame */
        tg_torch.aoti_torch_check(false, "{operator}", "torchgraft", 0, tg_f.call.text);
}}


/* The same without what the caller may leave out. */
static TG_UNUSED void tg_bare_entry(tg_value *tg_stack, uint64_t tg_in, uint64_t tg_out) {{
    tg_value tg_all[{room}];
    memcpy(tg_all, tg_stack, {count} * sizeof *tg_all);
    memset(tg_all + {count}, 0, {trailing} * sizeof *tg_all);
    tg_entry(tg_all, tg_in, tg_out);
    memcpy(tg_stack, tg_all, {outputs} * sizeof *tg_all);
}}

{fast}TG_EXPORT int tg_is_fast(void) {{ return tg_torch.torch_tensor_to_pyobject && tg_torch.PyTuple_New; }}
TG_EXPORT const char *tg_load(const char *torch) {{ return tg_find_symbols(torch); }}
TG_EXPORT int32_t tg_register(const char *space, const char *name, bool bare) {{
    return tg_implement(space, name, bare ? tg_bare_entry : tg_entry, "{title}");
}}
"""

_RUN_SAMPLES = """\
static void tg_run(int64_t tg_begin, int64_t tg_end, void *tg_context) {{
    tg_frame *tg_f = (tg_frame *)tg_context;
    tg_call *tg_c = &tg_f->call;
{memory}
    for (int64_t tg_i = tg_begin; tg_i < tg_end; tg_i++) {{
{each}
{call}
    }}
{free}
}}
"""

_RUN_SUMS = """\
static void tg_run(int64_t tg_begin, int64_t tg_end, void *tg_context) {{
    tg_frame *tg_f = (tg_frame *)tg_context;
    tg_call *tg_c = &tg_f->call;
{memory}
    for (int64_t tg_chunk = tg_begin; tg_chunk < tg_end; tg_chunk++)
        for (int64_t tg_i = tg_first(tg_c, tg_chunk); tg_i < tg_first(tg_c, tg_chunk + 1); tg_i++) {{
{each}
{call}
        }}
{free}
}}
"""

_RUN_ELEMENTS = """\
static void tg_run_flat(int64_t tg_begin, int64_t tg_end, void *tg_context) {{
    tg_frame *tg_f = (tg_frame *)tg_context;
    tg_call *tg_c = &tg_f->call;
    (void)tg_c;
{flat}
{guard}    for (int64_t tg_i = tg_begin; tg_i < tg_end; tg_i++) {flat_call}
{unguard}}}

static void tg_run_rows(int64_t tg_begin, int64_t tg_end, void *tg_context) {{
    tg_frame *tg_f = (tg_frame *)tg_context;
    tg_call *tg_c = &tg_f->call;
    int64_t tg_length = tg_row_length(tg_c);
{guard}    for (int64_t tg_row = tg_begin * tg_length; tg_row < tg_end * tg_length; tg_row += tg_length) {{
{rows}
        for (int64_t tg_i = 0; tg_i < tg_length; tg_i++) {row_call}
    }}
{unguard}}}
"""

_FAST = """\
static bool tg_convert(tg_python const *tg_given, tg_value *tg_stack) {{
{convert}
    return true;
}}

/* The same for Python, without the dispatcher: torch's own functions turn objects into tensors and back. */
static tg_python tg_fast(tg_python tg_self, tg_python const *tg_given, ptrdiff_t tg_count) {{
    tg_frame tg_f;
    tg_value tg_stack[{slots}];
    (void)tg_self;
    {trailing}
    tg_start(&tg_f.call, "{operator}");
    if (tg_count != {count} || !tg_convert(tg_given, tg_stack)) {{
        if (!tg_torch.PyErr_Occurred())
            tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "an argument is not what it should be");
        return NULL;
    }}
    if (!tg_protected(&tg_f, tg_stack)) {{
        tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, tg_f.call.text);
        return NULL;
    }}
    return tg_objects(tg_stack, {outputs});
}}

TG_EXPORT struct {{
    const char *name;
    tg_python (*function)(tg_python, tg_python const *, ptrdiff_t);
    int flags;
    const char *text;
}} tg_method = {{"{operator}", tg_fast, 0x80 /* METH_FASTCALL */, NULL}};

"""


def indented(lines: Iterable[str], depth: int = 1) -> str:
    """Lines of code, as one text."""
    return "\n".join("    " * depth + line for line in lines)


class Shim:
    """The source of one library.

    Args:
        prototype: of the function.
        dtypes: of each tensor that is there, outputs too, by name.
        language: in which the function is written.
        fails: whether the function returns an error code.
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

    def source(self, header: str, body: str) -> str:
        """The whole file.

        Args:
            header: path of `shim.h`.
            body: the user's source, or what includes it.
        """
        prototype = self.prototype
        slots = [argument for argument in prototype.arguments if argument.schema]
        return self.assemble(
            _FILE,
            body,
            header=header,
            operator=self.signature.name,
            run=self._run(),
            body_of_call=indented(self._body()),
            fast=self._fast(),
            count=len(slots),
            trailing=len(prototype.trailing),
            outputs=len(prototype.results),
            room=max(len(slots) + len(prototype.trailing), len(prototype.results)),
        )

    def assemble(self, template: str, body: str, **parts: object) -> str:
        """The user's source among ours, in the language of both."""
        text = template.format(
            includes=self.includes(),
            typedefs=self.typedefs(),
            declaration="" if self.language == "c++" else self.prototype.declaration(fails=self.fails) + ";",
            body="{body}",
            title=f"<torchgraft {self.signature.name}>",
            check=self._check() if self.language == "c++" else "",
            fields=indented(self._fields()),
            **parts,
        )
        return spell(text, self.language).replace("{body}", body)

    def includes(self) -> str:
        """The headers that the user's source finds included."""
        if self.language == "c":
            return ""
        types = [*self.prototype.typedefs(self.dtypes).values(), *self.prototype.parameters()]
        headers = ["exception", *(["complex"] if any("_Complex" in text for text in types) else [])]
        return "\n".join(f"#include <{header}>" for header in headers)

    def typedefs(self) -> str:
        """``T`` and its like."""
        return "\n".join(f"typedef {kind} {name};" for name, kind in self.prototype.typedefs(self.dtypes).items())

    def _check(self) -> str:
        """In C++, where functions overload, that there is one as it should be."""
        result, parameters = self.prototype.result_type(fails=self.fails), self.prototype.parameter_text("c++")
        pointer = f"static {result} (*const tg_function)({parameters}) = {self.prototype.symbol};"
        return f"{pointer}\nvoid tg_use() {{ (void)tg_function; }}"

    # -- the frame --------------------------------------------------------------------------------------------------

    def _fields(self) -> Iterator[str]:
        for name in self.prototype.sizes:
            yield f"int64_t n_{name};"
        for argument in self.prototype.arguments:
            yield from (f"{line};" for line in argument.fields())
        for result in self.prototype.results:
            yield f"tg_tensor o_{result.name};"

    def _element(self, name: str) -> tuple[int, str]:
        dtype = self.dtypes[name]
        return CODES[dtype], f"sizeof({C_TYPES[dtype]})"

    # -- the call of the function -----------------------------------------------------------------------------------

    def _run(self) -> str:
        return self._run_elements() if self.prototype.scalar else self._run_samples()

    def _sizes(self) -> list[str]:
        return [f"tg_f->n_{name}" for name in self.prototype.sizes]

    def _run_samples(self) -> str:
        sums = self.prototype.is_rule
        arguments = [*self._sizes(), *(value for a in self.prototype.arguments for value in a.values())]
        outputs = [value for r in self.prototype.results for value in (self._target(r) if sums else r.values())]
        call = [self._guarded(f"{self.prototype.symbol}({', '.join([*arguments, *outputs])});")]
        if sums:
            for r in self.prototype.results:
                call.append(f"tg_add(tg_c, &{r.field}, tg_chunk, tg_i, {elements_of(r.core)}, tg_s_{r.name});")
        memory = list(self._memory(sums=sums))
        lists = [a for a in self.prototype.arguments if isinstance(a, Arrays)]
        each = [f"tg_at_each(tg_c, {a.field}, {a.field}_length, tg_i, tg_p_{a.name});" for a in lists]
        names = [line.partition(" = ")[0].split()[-1].lstrip("*") for line in memory]
        failed = " || ".join(f"!{name}" for name in names)
        if memory:
            memory.append(f'if ({failed}) tg_note(tg_c, 1, "no memory for a workspace"), tg_end = tg_begin;')
        template = _RUN_SUMS if sums else _RUN_SAMPLES
        return template.format(
            memory=indented(memory), each=indented(each, 2), call=indented(call, 2),
            free=indented([f"free((void *){name});" for name in names]),
        )  # fmt: skip

    def _memory(self, *, sums: bool) -> Iterator[str]:
        """What each thread allocates; a pointer is declared in each line."""
        for a in self.prototype.arguments:
            if isinstance(a, Scratch):
                bytes_ = f"(size_t)({a.field} + 1) * sizeof({a.element})"
                yield f"{a.element} *tg_w_{a.name} = ({a.element} *)malloc({bytes_});"
            elif isinstance(a, Arrays):
                bytes_ = f"(size_t)({a.field}_length + 1) * sizeof(void *)"
                yield f"const void **tg_p_{a.name} = (const void **)malloc({bytes_});"
        for r in self.prototype.results if sums else ():
            size = f"(size_t)({r.field}.sums ? {elements_of(r.core)} : 1)"
            yield f"{r.element} *tg_s_{r.name} = ({r.element} *)malloc({size} * sizeof({r.element}));"

    def _target(self, result: Result) -> list[str]:
        """Where a sample's result is written: into the output, or beside it to be summed."""
        if result.core is None:
            return result.values()
        return [f"{result.field}.sums ? tg_s_{result.name} : {result.values()[0]}"]

    def _guarded(self, call: str) -> str:
        """A call whose failure is told."""
        if self.fails:
            call = f"{{ int tg_code = {call} if (tg_code) tg_note(tg_c, tg_code, NULL); }}"
        return self._try() + call + self._catch() if self.language == "c++" else call

    def _try(self) -> str:
        return "try { "

    def _catch(self) -> str:
        return (
            " } catch (const std::exception &tg_e) { tg_note(tg_c, 1, tg_e.what()); }"
            ' catch (...) { tg_note(tg_c, 1, "the function threw something that is no std::exception"); }'
        )

    def _run_elements(self) -> str:
        """Two loops: over flat memory, which the compiler vectorises, and over rows with strides."""
        names = [("a_", a.name, a.element, "const ") for a in self.prototype.arrays]
        names += [("o_", r.name, r.element, "") for r in self.prototype.results]
        flat = [f"{c}{e} *tg_{p}{n} = ({c}{e} *)tg_f->{p}{n}.data;" for p, n, e, c in names]
        rows = [
            f"{c}char *tg_{p}{n} = tg_at(tg_c, &tg_f->{p}{n}, tg_row); "
            f"int64_t tg_{p}{n}_step = tg_step(tg_c, &tg_f->{p}{n});"
            for p, n, _, c in names
        ]
        guard, unguard = (
            ("    " + self._try() + "\n", "    " + self._catch() + "\n") if self.language == "c++" else ("", "")
        )
        return _RUN_ELEMENTS.format(
            flat=indented(flat),
            rows=indented(rows, 2),
            flat_call=self._element_call("tg_{p}{n}[tg_i]"),
            row_call=self._element_call("*({c}{e} *)(tg_{p}{n} + tg_i * tg_{p}{n}_step)"),
            guard=guard,
            unguard=unguard,
        )

    def _element_call(self, place: str) -> str:
        """The call for one element; `place` says where a tensor has it."""
        arguments = self._sizes()
        for a in self.prototype.arguments:
            arguments += (
                [place.format(p="a_", n=a.name, e=a.element, c="const ")] if isinstance(a, Array) else a.values()
            )
        results = [place.format(p="o_", n=r.name, e=r.element, c="") for r in self.prototype.results]
        if self.prototype.returns_result:
            return f"{results[0]} = {self.prototype.symbol}({', '.join(arguments)});"
        return f"{self.prototype.symbol}({', '.join([*arguments, *(f'&{result}' for result in results)])});"

    # -- what surrounds it --------------------------------------------------------------------------------------------

    def _body(self) -> Iterator[str]:
        yield from self._take()
        yield from self._bind()
        yield from self._open()
        yield from self._make()
        yield from self._start()
        for i, result in enumerate(self.prototype.results):
            yield f"tg_stack[{i}] = tg_give(tg_c, {result.field}.handle);"

    def _slots(self) -> Iterator[tuple[str, str]]:
        """Names and places of what torch passes."""
        names = [argument.name for argument in self.prototype.arguments if argument.schema]
        names += self.prototype.trailing
        yield from ((name, f"tg_stack[{i}]") for i, name in enumerate(names))

    def _take(self) -> Iterator[str]:
        slots = dict(self._slots())
        for argument in self.prototype.arguments:
            if argument.schema:
                yield from argument.own(slots[argument.name])
        for name in self.prototype.trailing:
            yield f"int64_t {name}_length = 0;"
            yield f"const int64_t *{name} = tg_numbers(tg_c, &{slots[name]}, &{name}_length);"
        for argument in self.prototype.arguments:
            if argument.schema:
                yield from argument.take(slots[argument.name])
        for array in self.prototype.arrays:
            if array.name not in self.dtypes and not isinstance(array, Arrays):
                yield from array.each("tg_absent({tensor});")
        for array in self.arrays:
            code, item = self._element(array.name)
            core = -1 if array.core is None else len(array.core.tokens)
            statement = f'tg_read(tg_c, {{tensor}}, "{array.name}", {{slot}}, {core}, {code}, {item});'
            yield from array.each(statement, slots[array.name])

    def _bind(self) -> Iterator[str]:
        """Sizes from the tensors, and the check of those that occur again; axes that broadcast come last."""
        if "tg_sizes" in self.prototype.trailing:
            count = len(self.prototype.sizes)
            yield f'if (tg_sizes && tg_sizes_length != {count}) tg_fail(tg_c, "takes {count} sizes");'
            yield from (f"{size} = tg_sizes ? tg_sizes[{i}] : -1;" for i, size in enumerate(self._sizes()))
        else:
            yield from (f"{size} = -1;" for size in self._sizes())
        axes = [(a, i, t) for a in self.arrays if a.core is not None for i, t in enumerate(a.core.tokens)]
        for a, i, token in sorted(axes, key=lambda item: item[2].broadcast):
            if token.name is not None:
                how = "tg_bind_broadcast" if token.broadcast else "tg_bind"
                yield from a.each(f'{how}(tg_c, {{tensor}}, {i}, "{token.text}", &tg_f->n_{token.name});')
        for a, i, token in axes:
            if token.expression is not None:
                how = "tg_expect_broadcast" if token.broadcast else "tg_expect"
                yield from a.each(f'{how}(tg_c, {{tensor}}, {i}, "{token.text}", {size_of(token)});')

    def _open(self) -> Iterator[str]:
        for array in self.arrays:
            if array.core is not None:
                yield from array.each("tg_batch(tg_c, {tensor});")
        if "tg_shapes" in self.prototype.trailing:
            yield "int64_t tg_shape_at = 0, tg_dim;"
            yield "const int64_t *tg_shape;"
            for result in self.prototype.results:
                if result.core is not None:
                    yield "if (tg_shapes) {"
                    yield "    tg_shape = tg_given(tg_c, tg_shapes, tg_shapes_length, &tg_shape_at, &tg_dim);"
                    count = len(result.core.tokens)
                    yield f"    if (tg_dim < {count}) tg_fail(tg_c, \"output '{result.name}' has too few axes\");"
                    yield f'    tg_join(tg_c, "{result.name}", tg_dim - {count}, tg_shape);'
                    yield "}"
            yield "tg_shape_at = 0;"
        for array in self.arrays:
            if array.core is None:
                yield from array.each("tg_open_whole(tg_c, {tensor});")
            else:
                code, _ = self._element(array.name)
                yield f"{{ const int64_t tg_core[] = {core_sizes(array.core)};"
                yield from array.each(f"tg_open(tg_c, {{tensor}}, tg_core, {code});")
                yield "}"
        for argument in self.prototype.arguments:
            if isinstance(argument, Scratch):
                yield f"{argument.field} = {elements_of(argument.core)};"
                yield f"if ({argument.field} < 0) tg_fail(tg_c, \"workspace '{argument.name}' has a negative size\");"

    def _make(self) -> Iterator[str]:
        for result in self.prototype.results:
            code, item = self._element(result.name)
            count = 0 if result.core is None else len(result.core.tokens)
            name = f'tg_c, &{result.field}, "{result.name}"'
            if self.prototype.gives_shapes:
                yield "if (tg_shapes) {"
                yield "    tg_shape = tg_given(tg_c, tg_shapes, tg_shapes_length, &tg_shape_at, &tg_dim);"
                core = "tg_dim" if result.core is None else count
                yield f"    tg_make({name}, tg_dim, tg_shape, {core}, {code}, {item});"
                yield f"    tg_look(&{result.field});"
                for i, token in enumerate(result.core.tokens if result.core is not None else ()):
                    yield f'    tg_expect(tg_c, &{result.field}, {i}, "{token.text}", {size_of(token)});'
                yield "} else {"
            else:
                yield "{"
            if result.core is None:
                yield f"    tg_fail(tg_c, \"the shape of '{result.name}' is not given\");"
            else:
                yield f"    const int64_t tg_core[] = {core_sizes(result.core)};"
                yield f"    tg_make_sample({name}, {count}, tg_core, {code}, {item});"
            yield "}"

    def _start(self) -> Iterator[str]:
        if self.prototype.scalar:
            like = " && ".join(f"tg_like(tg_c, &{a.field}, &{self.prototype.results[0].field})" for a in self.arrays)
            yield f"tg_elements(tg_c, {like or 'true'}, tg_run_flat, tg_run_rows, tg_f);"
            return
        if self.prototype.is_rule:
            elements = " + ".join(elements_of(result.core) for result in self.prototype.results)
            yield f"if (tg_c->chunks) tg_split(tg_c, {self._work()}, {elements});"
            for result in self.prototype.results:
                parts = 2 if self.dtypes[result.name].is_complex else 1
                yield f"if (tg_c->chunks) tg_sum(tg_c, &{result.field}, {parts});"
        yield f"tg_samples(tg_c, {self._work()}, tg_run, tg_f);"
        if self.prototype.is_rule:
            yield from (f"tg_total(tg_c, &{result.field});" for result in self.prototype.results)

    # -- Python's own way in ------------------------------------------------------------------------------------------

    def _fast(self) -> str:
        arguments = [a for a in self.prototype.arguments if a.schema]
        if not self.prototype.has_fast_path:
            return ""
        return _FAST.format(
            convert=indented(self._convert()),
            operator=self.signature.name,
            slots=max(len(arguments) + len(self.prototype.trailing), len(self.prototype.results)),
            count=len(arguments),
            trailing=" ".join(f"tg_stack[{len(arguments) + i}] = 0;" for i in range(len(self.prototype.trailing))),
            outputs=len(self.prototype.results),
        )

    def _convert(self) -> Iterator[str]:
        """Numbers first, which may not be what they should be; then tensors, of which a failure drops those before."""
        places = [
            (f"tg_given[{i}]", f"tg_stack[{i}]", a)
            for i, a in enumerate(x for x in self.prototype.arguments if x.schema)
        ]
        for given, slot, argument in places:
            if isinstance(argument, Array):
                continue
            word = (argument.from_python() or "").format(given)
            yield f"{slot} = {f'tg_is_none({given}) ? 0 : tg_boxed_word({word})' if argument.optional else word};"
        yield "if (tg_torch.PyErr_Occurred()) return false;"
        made: list[str] = []
        for given, slot, argument in places:
            if not isinstance(argument, Array):
                continue
            drop = " ".join(
                f"if ({other}) tg_torch.aoti_torch_delete_tensor_object((tg_handle){other});" for other in made
            )
            take = f"tg_torch.torch_tensor_from_pyobject({given}, (tg_handle *)&{slot})"
            if argument.optional:
                yield f"{slot} = 0;"
                take = f"!tg_is_none({given}) && {take}"
            yield f"if ({take}) {{ {drop} return false; }}"
            made.append(slot)
        for _, slot, argument in places:
            if isinstance(argument, Array) and argument.optional:
                yield f"if ({slot}) {slot} = tg_boxed_word({slot});"

    def _work(self) -> str:
        """How much there is to do for a sample, as a guess: the sizes multiplied, or the elements of an output."""
        counts = ["*".join(f"tg_max(1, {size})" for size in self._sizes()) or "1"]
        for result in self.prototype.results:
            if result.core is not None:
                counts.append("*".join(f"tg_max(1, {size_of(token)})" for token in result.core.tokens) or "1")
        work = counts[0]
        for count in counts[1:]:
            work = f"tg_max({work}, {count})"
        return work
