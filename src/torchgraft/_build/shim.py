"""The C source of a kernel library: the user's function, and around it what libtorch calls.

Generated for one combination of dtypes. `shim.h` has what is the same for all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

import torch

from .._spec.axes import Axes, Axis
from .._spec.signature import Parameter
from .prototype import C_TYPES, Prototype, scalar_type

_CODES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float32: 6, torch.float64: 7,
    torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
"""`c10::ScalarType`, whose numbers are part of the stable interface."""

_FILE = """\
#include "{header}"
{typedefs}
{declaration};
{body}
# 1 "{title}" 3

typedef struct {{
    tg_call call;
    tg_tensor in[{inputs}], out[{outputs}];
    int64_t sizes[{size_count}];
{fields}\
}} tg_frame;

{run}
static void tg_entry(tg_value *stack, uint64_t tg_in, uint64_t tg_out) {{
    tg_frame frame = {{.call = {{.operator_name = "{operator}"}}}};
    tg_call *call = &frame.call;
    int64_t *size = frame.sizes;
    (void)tg_in, (void)tg_out;
    for (int i = 0; i < {size_count}; i++) size[i] = -1; /* axes of tensors that are not there */
{take}
{start}{give}
    tg_release(call);
}}

TG_EXPORT const char *tg_load(const char *torch) {{ return tg_find_symbols(torch); }}
TG_EXPORT int32_t tg_register(const char *space, const char *name) {{
    return tg_implement(space, name, tg_entry, "{title}");
}}
"""


_RUN_SAMPLES = """\
static void tg_run(int64_t begin, int64_t end, void *context) {{
    tg_frame *frame = context;
    for (int64_t i = begin; i < end; i++) {{
        {call}
    }}
}}
"""
_START_SAMPLES = """\
    tg_samples(call, {work}, tg_run, &frame);
"""

_RUN_ELEMENTS = """\
static void tg_run_flat(int64_t begin, int64_t end, void *context) {{
    tg_frame *frame = context;
    {flat}
    for (int64_t i = begin; i < end; i++) {flat_call}
}}

static void tg_run_rows(int64_t begin, int64_t end, void *context) {{
    tg_frame *frame = context;
    int64_t length = tg_row_length(&frame->call);
    for (int64_t row = begin * length; row < end * length; row += length) {{
        {rows}
        for (int64_t i = 0; i < length; i++) {row_call}
    }}
}}

static bool tg_is_flat(const tg_frame *frame) {{
    for (int i = 0; i < {inputs}; i++)
        if (!tg_like(&frame->call, &frame->in[i], &frame->out[0])) return false;
    return true;
}}
"""
_START_ELEMENTS = """\
    tg_elements(call, tg_is_flat(&frame), tg_run_flat, tg_run_rows, &frame);
"""


class Shim:
    """The source of one library.

    Args:
        prototype: of the function.
        dtypes: of each tensor that is there, outputs too, by name.
        fails: whether the function returns an error code.
    """

    def __init__(self, prototype: Prototype, dtypes: Mapping[str, torch.dtype], *, fails: bool = False) -> None:
        self.prototype = prototype
        self.signature = prototype.signature
        self.dtypes = dict(dtypes)
        self.fails = fails
        self.sizes = {name: f"size[{i}]" for i, name in enumerate(prototype.sizes)}

    def source(self, header: str, body: str) -> str:
        """The whole file.

        Args:
            header: path of `shim.h`.
            body: the user's source, or what includes it.
        """
        typedefs = self.prototype.typedefs(self.dtypes)
        return _FILE.format(
            header=header,
            typedefs="\n".join(f"typedef {c_type} {name};" for name, c_type in typedefs.items()),
            declaration=self.prototype.declaration(fails=self.fails),
            body=body,
            title=f"<torchgraft {self.signature.name}>",
            operator=self.signature.name,
            inputs=max(1, len(self.signature.tensors)),
            outputs=len(self.signature.outputs),
            size_count=max(1, len(self.sizes)),
            fields="".join(f"    {line};\n" for line in self._fields()),
            run=self._run_elements() if self.prototype.scalar else self._run_samples(),
            start=_START_ELEMENTS if self.prototype.scalar else _START_SAMPLES.format(work=self._work()),
            take="\n".join(f"    {line}" for line in self._take()),
            give="\n".join(f"    {line}" for line in self._give()),
        )

    # -- the call of the function -----------------------------------------------------------------------------------

    def _scalars(self) -> Iterator[tuple[int, Parameter]]:
        return ((i, p) for i, p in enumerate(self.signature.parameters) if not p.is_tensor)

    def _fields(self) -> Iterator[str]:
        for _, p in self._scalars():
            kind = scalar_type(p.scalar)
            if p.scalar.type is str:
                yield f"const char *{p.name}; size_t {p.name}_length"
            elif p.scalar.many:
                yield f"{kind} *{p.name}; size_t {p.name}_length"
            else:
                yield f"{kind} {p.name}; bool {p.name}_given"

    def _arguments(self, tensor: str) -> list[str]:
        """What the function is called with; `tensor` says how a tensor is passed, by its number."""
        arguments = [f"frame->sizes[{i}]" for i in range(len(self.sizes))]
        tensors = iter(range(len(self.signature.tensors)))
        for p in self.signature.parameters:
            if p.is_tensor:
                arguments.append(tensor.format(n=next(tensors), type=self.prototype.element(p.name, p.tensor.dtypes)))
            elif p.scalar.many or p.scalar.type is str:
                arguments += [f"frame->{p.name}", f"(int64_t)frame->{p.name}_length"]
            else:
                value = f"frame->{p.name}"
                arguments.append(f"{value}_given ? &{value} : NULL" if p.optional else value)
        return arguments

    def _outputs(self) -> list[str]:
        return [self.prototype.element(output.name, output.type.dtypes) for output in self.signature.outputs]

    def _run_samples(self) -> str:
        arguments = self._arguments("(const {type} *)tg_at(&frame->call, &frame->in[{n}], i)")
        arguments += [f"({e} *)tg_at(&frame->call, &frame->out[{i}], i)" for i, e in enumerate(self._outputs())]
        call = f"{self.prototype.symbol}({', '.join(arguments)});"
        if self.fails:
            call = f"int code = {call}\n        if (code) __atomic_store_n(&frame->call.error, code, __ATOMIC_RELAXED);"
        return _RUN_SAMPLES.format(call=call)

    def _run_elements(self) -> str:
        """Two loops: over flat memory, which the compiler vectorises, and over rows with strides."""
        inputs = [self.prototype.element(p.name, p.tensor.dtypes) for _, p in self.signature.tensors]
        outputs = self._outputs()

        def element(flat: str, strided: str, types: Sequence[str], letter: str) -> tuple[list[str], list[str]]:
            return (
                [flat.format(n=n, type=kind, letter=letter) for n, kind in enumerate(types)],
                [strided.format(n=n, type=kind, letter=letter) for n, kind in enumerate(types)],
            )

        ins = element("{letter}{n}[i]", "*(const {type} *)({letter}{n} + i * {letter}{n}_step)", inputs, "x")
        outs = element("{letter}{n}[i]", "*({type} *)({letter}{n} + i * {letter}{n}_step)", outputs, "y")
        loops = []
        for values, results in zip(ins, outs, strict=True):
            arguments = self._arguments("{n}")
            taken = iter(values)
            tensors = {i for i, _ in self.signature.tensors}
            offset = len(self.sizes)
            arguments = [next(taken) if i - offset in tensors else a for i, a in enumerate(arguments)]
            if self.prototype.returns_result:
                loops.append(f"{results[0]} = {self.prototype.symbol}({', '.join(arguments)});")
            else:
                written = [f"&{result}" for result in results]
                loops.append(f"{self.prototype.symbol}({', '.join([*arguments, *written])});")
        names = [("x", "in", n, f"const {kind}", "const char") for n, kind in enumerate(inputs)]
        names += [("y", "out", n, kind, "char") for n, kind in enumerate(outputs)]
        return _RUN_ELEMENTS.format(
            flat="\n    ".join(f"{kind} *{x}{n} = ({kind} *)frame->{side}[{n}].data;" for x, side, n, kind, _ in names),
            flat_call=loops[0],
            rows="\n        ".join(
                f"{char} *{x}{n} = tg_at(&frame->call, &frame->{side}[{n}], row); "
                f"int64_t {x}{n}_step = tg_step(&frame->call, &frame->{side}[{n}]);"
                for x, side, n, _, char in names
            ),
            row_call=loops[1],
            inputs=len(inputs),
            outputs=len(outputs),
        )

    # -- taking arguments -------------------------------------------------------------------------------------------

    def _take(self) -> Iterator[str]:
        tensors = [(n, i, p) for n, (i, p) in enumerate(self.signature.tensors)]
        for _, i, p in tensors:
            condition = f"if (tg_some(&stack[{i}])) " if p.optional else ""
            yield f"{condition}tg_own(call, (tg_handle)stack[{i}]);"
        for i, p in self._scalars():
            yield from self._take_scalar(i, p)
        for n, i, p in tensors:
            if p.name in self.dtypes:
                count = len(self.prototype.core(p.tensor.axes).tokens)
                code, item = self._element(p.name)
                yield f'tg_read(call, &frame.in[{n}], "{p.name}", (tg_handle)stack[{i}], {count}, {code}, {item});'
        yield from self._bind(tensors)
        for n, _, p in tensors:
            if p.name in self.dtypes:
                yield f"tg_batch(call, &frame.in[{n}]);"
        for n, _, p in tensors:
            if p.name in self.dtypes:
                code, _ = self._element(p.name)
                yield f"tg_open(call, &frame.in[{n}], {self._core(p.tensor.axes)}, {code});"
        for n, output in enumerate(self.signature.outputs):
            code, item = self._element(output.name)
            count = len(self.prototype.core(output.type.axes).tokens)
            core = self._core(output.type.axes)
            yield f'tg_make(call, &frame.out[{n}], "{output.name}", {count}, {core}, {code}, {item});'

    def _element(self, name: str) -> tuple[int, str]:
        dtype = self.dtypes[name]
        return _CODES[dtype], f"sizeof({C_TYPES[dtype]})"

    def _take_scalar(self, i: int, p: Parameter) -> Iterator[str]:
        slot, field = f"stack[{i}]", f"frame.{p.name}"
        if p.scalar.type is str:
            yield f"tg_keep(call, (void *){slot}, tg_torch.torch_delete_string);"
            yield f"tg_torch.torch_string_length((tg_handle){slot}, &{field}_length);"
            yield f"tg_torch.torch_string_c_str((tg_handle){slot}, &{field});"
            return
        convert = _FROM_SLOT[p.scalar.type]
        if p.scalar.many:
            yield f"tg_keep(call, (void *){slot}, tg_torch.torch_delete_list);"
            yield f"tg_torch.torch_list_size((tg_handle){slot}, &{field}_length);"
            yield f"{field} = malloc(({field}_length + 1) * sizeof *{field});"
            yield f"tg_keep(call, {field}, tg_free);"
            yield f"for (size_t i = 0; i < {field}_length; i++) {{"
            yield "    tg_value item;"
            yield f"    tg_torch.torch_list_get_item((tg_handle){slot}, i, &item);"
            yield f"    {field}[i] = {convert.format('item')};"
            yield "}"
        elif p.optional:
            yield f"if (({field}_given = tg_some(&{slot}))) {field} = {convert.format(slot)};"
        else:
            yield f"{field} = {convert.format(slot)};"

    # -- sizes ------------------------------------------------------------------------------------------------------

    def _bind(self, tensors: Sequence[tuple[int, int, Parameter]]) -> Iterator[str]:
        """Sizes from the tensors, and the check of those that occur again; axes that broadcast come last."""
        axes = [
            (n, axis, token)
            for n, _, p in tensors
            if p.name in self.dtypes
            for axis, token in enumerate(self.prototype.core(p.tensor.axes).tokens)
        ]
        bound: set[str] = set()
        for n, axis, token in sorted(axes, key=lambda item: item[2].broadcast):
            if token.name is None:
                continue
            size, found = self.sizes[token.name], f"tg_size(&frame.in[{n}], {axis})"
            if token.name not in bound:
                yield f"{size} = {found};"
            elif token.broadcast:
                yield f'{size} = tg_broadcast(call, &frame.in[{n}], {axis}, "{token.text}", {size});'
            else:
                yield f'tg_expect(call, &frame.in[{n}], {axis}, "{token.text}", {size});'
            bound.add(token.name)
        for n, axis, token in axes:
            if token.expression is not None:
                check = "tg_broadcast" if token.broadcast else "tg_expect"
                yield f'{check}(call, &frame.in[{n}], {axis}, "{token.text}", {self._size(token)});'

    def _core(self, axes: Axes | None) -> str:
        sizes = [self._size(token) for token in self.prototype.core(axes).tokens]
        return f"(int64_t[]){{{', '.join(sizes) or '0'}}}"

    def _size(self, token: Axis) -> str:
        if token.name is not None:
            return self.sizes[token.name]
        assert token.expression is not None
        return self._expression(token.expression)

    def _expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value):
                return f"(int64_t){value!r}"
            case ast.Name(id=name):
                return self.sizes[name]
            case ast.Set(elts=[ast.Name(id=name)]):
                return f"frame.{name}"
            case ast.UnaryOp(operand=operand):
                return f"(-{self._expression(operand)})"
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                return f"tg_{name}({self._expression(left)}, {self._expression(right)})"
            case ast.BinOp(left=left, op=operation, right=right):
                a, b = self._expression(left), self._expression(right)
                if isinstance(operation, (ast.FloorDiv, ast.Mod)):
                    return f"tg_{'mod' if isinstance(operation, ast.Mod) else 'floordiv'}(call, {a}, {b})"
                return f"({a} {_OPERATORS[type(operation)]} {b})"
        raise AssertionError(ast.dump(node))  # pragma: no cover - refused at declaration

    def _work(self) -> str:
        """How much there is to do for a sample: the elements of its largest output, as a guess."""
        sizes = [self.prototype.core(output.type.axes).tokens for output in self.signature.outputs]
        products = ["*".join(f"tg_max(1, {self._size(token)})" for token in tokens) or "1" for tokens in sizes]
        inputs = ["*".join(f"tg_max(1, {size})" for size in self.sizes.values()) or "1"]
        return f"tg_max({products[0]}, {inputs[0]})"

    def _give(self) -> Iterator[str]:
        for i, _ in enumerate(self.signature.outputs):
            yield f"stack[{i}] = tg_give(call, frame.out[{i}].handle);"


_FROM_SLOT: dict[type, str] = {
    float: "tg_as_double({})", bool: "((uint8_t){} != 0)", int: "(int64_t){}", torch.dtype: "(int32_t){}",
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
