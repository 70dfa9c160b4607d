"""The steps of a library's call around the loops."""

from __future__ import annotations

from collections.abc import Iterator

from .._spec.axes import Axes
from .c_arguments import Array, Arrays, Scratch, SeedOfSample, of_items
from .prototype import Results
from .sizes import core_sizes, elements_of, size_of
from .unit import Unit


def steps(unit: Unit) -> Iterator[str]:
    """Statements: arguments are read, sizes bound and checked, outputs made and filled, and given back."""
    yield from _take(unit)
    yield from _bind(unit)
    yield from _bound(unit)
    yield from _open(unit)
    yield from _make(unit)
    yield "if (!tg_left(tg_f)) {"
    yield from (f"    {line}" for line in start(unit))
    yield "}"
    yield from _cut(unit)
    for i, result in enumerate(unit.prototype.results):
        if isinstance(result, Results):
            yield f"tg_stack[{i}] = tg_give_list(tg_c, {result.field}, {result.field}_length);"
        else:
            yield f"tg_stack[{i}] = tg_give(tg_c, {result.field}.handle);"


def _take(unit: Unit) -> Iterator[str]:
    """Take the arguments from torch; first those that have to be given back, whatever fails."""
    given = [argument.name for argument in unit.prototype.arguments if argument.schema]
    slots = {name: f"tg_stack[{i}]" for i, name in enumerate([*given, *unit.prototype.trailing])}
    for argument in unit.prototype.arguments:
        if argument.schema:
            yield from argument.own(slots[argument.name])
    for name in unit.prototype.trailing:
        yield f"int64_t {name}_length = 0;"
        yield f"const int64_t *{name} = tg_numbers(tg_c, &{slots[name]}, &{name}_length);"
    for argument in unit.prototype.arguments:
        if argument.schema:
            yield from argument.take(slots[argument.name])
    for array in unit.prototype.arrays:
        if array.name not in unit.dtypes and not isinstance(array, Arrays):
            yield from array.each("tg_absent({tensor});")
    for array in unit.arrays:
        code, item = unit.element(array.name)
        core = -1 if array.core is None else len(array.core.tokens)
        statement = f'tg_read(tg_c, {{tensor}}, "{array.name}", {{slot}}, {core}, {code}, {item});'
        yield from array.each(statement, slots[array.name])


def _bind(unit: Unit) -> Iterator[str]:
    """Sizes from the tensors, and the check of those that occur again; axes that broadcast come last."""
    if "tg_sizes" in unit.prototype.trailing:
        count = len(unit.prototype.sizes)
        yield f'if (tg_sizes && tg_sizes_length != {count}) tg_fail(tg_c, "takes {count} sizes");'
        yield from (f"{size} = tg_sizes ? tg_sizes[{i}] : -1;" for i, size in enumerate(unit.sizes()))
    else:
        yield from (f"{size} = -1;" for size in unit.sizes())
    axes = [(a, i, t) for a in unit.arrays if a.core is not None for i, t in enumerate(a.core.tokens)]
    for a, i, token in sorted(axes, key=lambda item: item[2].broadcast):
        if token.name is not None:
            how = "tg_bind_broadcast" if token.broadcast else "tg_bind"
            yield from a.each(f'{how}(tg_c, {{tensor}}, {i}, "{token.text}", &tg_f->n_{token.name});')
    for a, i, token in axes:
        if token.expression is not None:
            how = "tg_expect_broadcast" if token.broadcast else "tg_expect"
            yield from a.each(f'{how}(tg_c, {{tensor}}, {i}, "{token.text}", {size_of(token)});')


def _bound(unit: Unit) -> Iterator[str]:
    """The most that each late size may be, which memory is made for; the function has to say how much it is."""
    for late in unit.prototype.late:
        assert late.axis is not None
        bound, size = f"tg_f->n_{late.name}", size_of(late.axis)
        yield f'tg_bound(tg_c, "{late}", {bound} = {size});'
        yield f"tg_f->l_{late.name} = -1;"


def _cut(unit: Unit) -> Iterator[str]:
    """Late sizes are checked, and outputs cut to them."""
    for late in unit.prototype.late:
        yield f'tg_said(tg_c, "{late}", tg_f->l_{late.name}, tg_f->n_{late.name});'
    late_names = unit.signature.late_names if unit.prototype.late else frozenset()
    for result in unit.prototype.results:
        tokens = result.core.tokens if result.core is not None else ()
        if any(token.name in late_names for token in tokens):
            code, _ = unit.element(result.name)
            found = [f"tg_f->l_{t.name}" if t.name in late_names else size_of(t) for t in tokens]
            yield f"{{ const int64_t tg_found[] = {{{', '.join(found)}}};"
            yield f"tg_cut(tg_c, &{result.field}, tg_found, {code}); }}"


def _open(unit: Unit) -> Iterator[str]:
    """Batch axes, which every tensor has a part in; then each tensor along them, and sizes of workspaces."""
    for array in unit.arrays:
        if array.core is not None:
            yield from array.each("tg_batch(tg_c, {tensor});")
    if "tg_shapes" in unit.prototype.trailing:
        yield "int64_t tg_shape_at = 0, tg_dim;"
        yield "const int64_t *tg_shape;"
        for result in unit.prototype.results:
            yield "if (tg_shapes) {"
            if isinstance(result, Results):
                yield f"    {_GIVEN_LENGTH.format(result.field)}"
                yield f"    for (int64_t tg_n = 0; tg_n < {result.field}_length; tg_n++) {{"
            yield "    tg_shape = tg_given(tg_c, tg_shapes, tg_shapes_length, &tg_shape_at, &tg_dim);"
            if result.core is not None:
                count = len(result.core.tokens)
                yield f"    if (tg_dim < {count}) tg_fail(tg_c, \"output '{result.name}' has too few axes\");"
                yield f'    tg_join(tg_c, "{result.name}", tg_dim - {count}, tg_shape);'
            yield "}}" if isinstance(result, Results) else "}"
        yield "tg_shape_at = 0;"
    for array in unit.arrays:
        if array.core is None:
            yield from array.each("tg_open_whole(tg_c, {tensor});")
        else:
            yield from _open_samples(unit, array, array.core)
    for argument in unit.prototype.arguments:
        if isinstance(argument, Scratch):
            yield f"{argument.field} = {elements_of(argument.core)};"
            yield f"if ({argument.field} < 0) tg_fail(tg_c, \"workspace '{argument.name}' has a negative size\");"


def _open_samples(unit: Unit, array: Array, core: Axes) -> Iterator[str]:
    """Open a tensor, or each of a list; the function is told the sizes of those that have their own."""
    code, _ = unit.element(array.name)
    if not of_items(array.name, core):
        yield f"{{ const int64_t tg_core[] = {core_sizes(core)};"
        yield from array.each(f"tg_open(tg_c, {{tensor}}, tg_core, {code});")
        yield "}"
        return
    item = f"&{array.field}[tg_n]"
    yield f"{array.field}_sizes = (const int64_t **)tg_memory(tg_c, {array.field}_length, sizeof(int64_t *));"
    yield f"for (int64_t tg_n = 0; tg_n < {array.field}_length; tg_n++) {{"
    yield f"    const int64_t tg_core[] = {core_sizes(core, item)};"
    yield f"    tg_open(tg_c, {item}, tg_core, {code});"
    yield f"    {array.field}_sizes[tg_n] = tg_core_sizes({item});"
    yield "}"


_GIVEN_LENGTH = "{}_length = tg_given_length(tg_c, tg_shapes, tg_shapes_length, &tg_shape_at);"


def _make_list(unit: Unit, result: Results) -> Iterator[str]:
    """The tensors of a list, whose number and shapes the caller gives."""
    assert result.core is not None
    field, count = result.field, len(result.core.tokens)
    yield f"if (!tg_shapes) tg_fail(tg_c, \"the shapes of '{result.name}' are not given\");"
    yield _GIVEN_LENGTH.format(field)
    yield f"{field} = (tg_tensor *)tg_memory(tg_c, {field}_length, sizeof(tg_tensor));"
    yield f"{field}_sizes = (const int64_t **)tg_memory(tg_c, {field}_length, sizeof(int64_t *));"
    if result.name not in unit.dtypes:  # The library was built for empty lists.
        yield f"if ({field}_length) tg_fail(tg_c, \"'{result.name}' has no dtype\");"
        return
    code, item = unit.element(result.name)
    yield f"for (int64_t tg_n = 0; tg_n < {field}_length; tg_n++) {{"
    yield "    tg_shape = tg_given(tg_c, tg_shapes, tg_shapes_length, &tg_shape_at, &tg_dim);"
    yield f'    tg_make(tg_c, &{field}[tg_n], "{result.name}", tg_dim, tg_shape, {count}, {code}, {item});'
    yield f"    tg_look(&{field}[tg_n]);"
    for i, token in enumerate(result.core.tokens):
        if not token.anonymous:
            yield f'    tg_expect(tg_c, &{field}[tg_n], {i}, "{token.text}", {size_of(token)});'
    yield f"    {field}_sizes[tg_n] = tg_core_sizes(&{field}[tg_n]);"
    yield "}"


def _make(unit: Unit) -> Iterator[str]:
    """Outputs, in the shapes that the caller gives, or those that the sizes tell."""
    for result in unit.prototype.results:
        if isinstance(result, Results):
            yield from _make_list(unit, result)
            continue
        code, item = unit.element(result.name)
        count = 0 if result.core is None else len(result.core.tokens)
        name = f'tg_c, &{result.field}, "{result.name}"'
        if unit.prototype.gives_shapes:
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
        if result.begins:
            copied = f"tg_torch.aoti_torch_copy_({result.field}.handle, tg_f->a_{result.begins}.handle, 0)"
            yield f'tg_require(tg_c, {copied}, "no copy of", "{result.begins}");'


def start(unit: Unit) -> Iterator[str]:
    """The loops; of a rule, what they sum is made before them, and added up after them."""
    if unit.prototype.scalar:
        like = " && ".join(
            f"tg_like(tg_c, &{a.field}, &{unit.prototype.results[0].field})"
            for a in unit.arrays
            if not isinstance(a, SeedOfSample)
        )
        yield f"tg_elements(tg_c, {like or 'true'}, tg_run_flat, tg_run_rows, tg_f);"
        return
    if unit.prototype.is_rule:
        elements = " + ".join(elements_of(result.core) for result in unit.prototype.results)
        yield f"if (tg_c->chunks) tg_split(tg_c, {_work(unit)}, {elements});"
        for result in unit.prototype.results:
            parts = 2 if unit.dtypes[result.name].is_complex else 1
            yield f"if (tg_c->chunks) tg_sum(tg_c, &{result.field}, {parts});"
    yield f"tg_samples(tg_c, {_work(unit)}, tg_run, tg_f);"
    if unit.prototype.is_rule:
        yield from (f"tg_total(tg_c, &{result.field});" for result in unit.prototype.results)


def _work(unit: Unit) -> str:
    """Guess the work for a sample: the product of the sizes, or the elements of an output."""
    counts = ["*".join(f"tg_max(1, {size})" for size in unit.sizes()) or "1"]
    for result in unit.prototype.results:
        if result.core is not None:
            named = [token for token in result.core.tokens if not token.anonymous]
            counts.append("*".join(f"tg_max(1, {size_of(token)})" for token in named) or "1")
    work = counts[0]
    for count in counts[1:]:
        work = f"tg_max({work}, {count})"
    return work
