"""The loops that the threads of a call run: over samples, over chunks of samples that are summed, over elements."""

from __future__ import annotations

from collections.abc import Iterator

from .c_arguments import Arrays, Scratch, SeedOfSample
from .prototype import Result, Results
from .sizes import elements_of
from .unit import Unit, indented

_RUN = """\
static void tg_run(int64_t tg_begin, int64_t tg_end, void *tg_context) {{
    tg_frame *tg_f = (tg_frame *)tg_context;
    tg_call *tg_c = &tg_f->call;
{memory}
{loop}
{free}
}}
"""

_SAMPLES = """\
    for (int64_t tg_i = tg_begin; tg_i < tg_end; tg_i++) {{
{each}
{call}
    }}"""

_SUMS = """\
    for (int64_t tg_chunk = tg_begin; tg_chunk < tg_end; tg_chunk++)
        for (int64_t tg_i = tg_first(tg_c, tg_chunk); tg_i < tg_first(tg_c, tg_chunk + 1); tg_i++) {{
{each}
{call}
        }}"""

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


def loops(unit: Unit) -> str:
    """The functions ``tg_run``, or ``tg_run_flat`` and ``tg_run_rows`` of an elementwise function."""
    return _over_elements(unit) if unit.prototype.scalar else _over_samples(unit)


def _over_samples(unit: Unit) -> str:
    prototype = unit.prototype
    sums = prototype.is_rule
    call = [_told(unit, unit.sample_call(value for r in prototype.results for value in _target(r, sums=sums)))]
    if sums:
        for r in prototype.results:
            call.append(f"tg_add(tg_c, &{r.field}, tg_chunk, tg_i, {elements_of(r.core)}, tg_s_{r.name});")
    memory = list(_memory(unit))
    each = [f"tg_at_each(tg_c, {a.field}, {a.field}_length, tg_i, tg_p_{a.name});" for a in _lists(unit)]
    names = [line.partition(" = ")[0].split()[-1].lstrip("*") for line in memory]
    failed = " || ".join(f"!{name}" for name in names)
    if memory:
        memory.append(f'if ({failed}) tg_note(tg_c, 1, "no memory for a workspace"), tg_end = tg_begin;')
    return _RUN.format(
        memory=indented(memory),
        loop=(_SUMS if sums else _SAMPLES).format(each=indented(each, 2), call=indented(call, 2)),
        free=indented(f"free((void *){name});" for name in names),
    )


def _lists(unit: Unit) -> Iterator[Arrays | Results]:
    yield from (a for a in unit.prototype.arguments if isinstance(a, Arrays))
    yield from (r for r in unit.prototype.results if isinstance(r, Results))


def _memory(unit: Unit) -> Iterator[str]:
    """Lines that allocate the memory of each thread; each declares a pointer."""
    for a in unit.prototype.arguments:
        if isinstance(a, Scratch):
            bytes_ = f"(size_t)({a.field} + 1) * sizeof({a.element})"
            yield f"{a.element} *tg_w_{a.name} = ({a.element} *)malloc({bytes_});"
    for each in _lists(unit):
        bytes_ = f"(size_t)({each.field}_length + 1) * sizeof(void *)"
        yield f"const void **tg_p_{each.name} = (const void **)malloc({bytes_});"
    for r in unit.prototype.results if unit.prototype.is_rule else ():
        size = f"(size_t)({r.field}.sums ? {elements_of(r.core)} : 1)"
        yield f"{r.element} *tg_s_{r.name} = ({r.element} *)malloc({size} * sizeof({r.element}));"


def _target(result: Result, *, sums: bool) -> list[str]:
    """The place of a sample's result: in the output, or beside it to be summed."""
    if result.core is None or not sums:
        return result.values()
    return [f"{result.field}.sums ? tg_s_{result.name} : {result.values()[0]}"]


def _told(unit: Unit, call: str) -> str:
    """A call whose failure is told."""
    if unit.fails:
        call = f"{{ int tg_code = {call} if (tg_code) tg_note(tg_c, tg_code, NULL); }}"
    before, after = unit.guard
    return before + call + after


def _over_elements(unit: Unit) -> str:
    """Two loops: over flat memory, which the compiler vectorises, and over rows with strides."""
    arrays = [a for a in unit.prototype.arrays if not isinstance(a, SeedOfSample)]
    names = [("a_", a.name, a.element, "const ") for a in arrays]
    names += [("o_", r.name, r.element, "") for r in unit.prototype.results]
    flat = [f"{c}{e} *tg_{p}{n} = ({c}{e} *)tg_f->{p}{n}.data;" for p, n, e, c in names]
    rows = [
        f"{c}char *tg_{p}{n} = tg_at(tg_c, &tg_f->{p}{n}, tg_row); "
        f"int64_t tg_{p}{n}_step = tg_step(tg_c, &tg_f->{p}{n});"
        for p, n, _, c in names
    ]
    guard, unguard = (f"    {text}\n" if text else "" for text in unit.guard)
    return _RUN_ELEMENTS.format(
        flat=indented(flat),
        rows=indented(rows, 2),
        flat_call=unit.element_call("tg_{p}{n}[tg_i]", "tg_i"),
        row_call=unit.element_call("*({c}{e} *)(tg_{p}{n} + tg_i * tg_{p}{n}_step)", "tg_row + tg_i"),
        guard=guard,
        unguard=unguard,
    )
