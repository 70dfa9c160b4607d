"""Calls that are ready: a function of Python's C interface that takes up a call where a first one left it.

All that a call finds out about its tensors (sizes, strides, batch axes, the outputs' shapes) is the same for tensors
that look alike. A first call goes through the dispatcher and leaves its frame; those that follow bring their data and
numbers alone. Whoever calls has compared the tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .c_arguments import Array
from .steps import start
from .unit import Unit, indented

_READY = """\
typedef struct {{
    tg_frame frame;
    tg_shape shapes[{outputs} + 1]; /* of the outputs */
    int64_t spans[{tensors} + 1];   /* of the arguments that are tensors, in bytes */
    bool ready;
    char busy; /* another thread runs in it, or a call that this one is a part of */
}} tg_prepared;

static __thread tg_prepared *tg_preparing;

/* The next call on this thread leaves what it found out in `memory`, and computes nothing. */
TG_EXPORT void tg_prepare(tg_prepared *memory) {{ tg_preparing = memory; }}
TG_EXPORT int64_t tg_prepared_size(void) {{ return sizeof(tg_prepared); }}
TG_EXPORT bool tg_is_ready(const tg_prepared *memory) {{ return memory->ready; }}

static bool tg_left(tg_frame *tg_f) {{
    tg_prepared *memory = tg_preparing;
    tg_preparing = NULL;
    if (!memory) return false;
{look}
    memcpy(&memory->frame, tg_f, sizeof *tg_f);
    memory->ready = !tg_f->call.copies && !tg_f->call.chunks; /* copies and sums are made in each call */
    return true;
}}

static bool tg_convert(tg_frame *tg_f, tg_python const *tg_given) {{
{convert}
    return !tg_torch.PyErr_Occurred();
}}

static void tg_go(tg_prepared *tg_p, bool tg_in_place) {{
    tg_frame *tg_f = &tg_p->frame;
    tg_call *tg_c = &tg_f->call;
    (void)tg_in_place;
{outputs_made}
{start}
}}

static tg_python tg_ready_call(tg_prepared *tg_p, tg_python const *tg_given, bool tg_in_place) {{
    tg_frame *tg_f = &tg_p->frame;
    tg_value tg_stack[{outputs} + 1];
    int tg_count = 0;
    if (!tg_convert(tg_f, tg_given)) return NULL;
    if (tg_in_place && ({overlapping})) {{
        tg_torch.Py_IncRef(tg_torch.not_implemented);
        return tg_torch.not_implemented;
    }}
    tg_again(&tg_f->call);
    bool tg_done = !_setjmp(tg_f->call.failed);
    if (tg_done) {{
        tg_go(tg_p, tg_in_place);
{give}
    }}
    tg_release(&tg_f->call);
    if (!tg_done) {{
        tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, tg_f->call.text);
        return NULL;
    }}
    return tg_objects(tg_stack, tg_count);
}}

static tg_python tg_call_ready(tg_python tg_self, tg_python const *tg_given, ptrdiff_t tg_count, bool tg_in_place) {{
    tg_prepared *memory = (tg_prepared *)tg_torch.PyByteArray_AsString(tg_self), *copy = NULL;
    if (tg_count != {count}) {{
        tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "takes {count} arguments");
        return NULL;
    }}
    if (__atomic_test_and_set(&memory->busy, __ATOMIC_ACQUIRE)) {{
        copy = (tg_prepared *)malloc(sizeof *copy);
        if (!copy) abort();
        memcpy(copy, memory, sizeof *copy);
    }}
    tg_python made = tg_ready_call(copy ? copy : memory, tg_given, tg_in_place);
    if (copy) free(copy);
    else __atomic_clear(&memory->busy, __ATOMIC_RELEASE);
    return made;
}}

static tg_python tg_fresh(tg_python self, tg_python const *given, ptrdiff_t count) {{
    return tg_call_ready(self, given, count, false);
}}

static tg_python tg_in_place(tg_python self, tg_python const *given, ptrdiff_t count) {{
    return tg_call_ready(self, given, count, true);
}}

TG_EXPORT tg_method tg_method_fresh = {{"{operator}", tg_fresh, 0x80 /* METH_FASTCALL */, NULL}};
TG_EXPORT tg_method tg_method_in_place = {{"{operator}", tg_in_place, 0x80, NULL}};

"""


def ready_call(unit: Unit) -> str:
    """The functions of ready calls; nothing but what says so where an argument has no such way in."""
    prototype = unit.prototype
    if not prototype.has_ready_calls:
        return "static bool tg_left(tg_frame *tg_f) {\n    (void)tg_f;\n    return false;\n}\n\n"
    return _READY.format(
        operator=unit.signature.name,
        outputs=len(prototype.results),
        tensors=len(prototype.arrays),
        count=sum(1 for argument in prototype.arguments if argument.schema),
        look=indented(_look(unit)),
        convert=indented(_convert(unit)),
        overlapping=_overlapping(unit),
        outputs_made=indented(_outputs(unit)),
        start=indented(start(unit)),
        give=indented(_give(unit), 2),
    )


def _look(unit: Unit) -> Iterator[str]:
    """Look at spans and shapes while there are tensors to ask."""
    for i, array in enumerate(unit.prototype.arrays):
        there = array.name in unit.dtypes
        yield f"memory->spans[{i}] = {f'{array.field}.handle ? tg_span(&{array.field}) : 0' if there else '0'};"
    for i, result in enumerate(unit.prototype.results):
        yield f"tg_look_at(&memory->shapes[{i}], {result.field}.handle);"


def _convert(unit: Unit) -> Iterator[str]:
    """Numbers, and where the tensors' data are."""
    given = [(f"tg_given[{i}]", a) for i, a in enumerate(a for a in unit.prototype.arguments if a.schema)]
    for place, argument in given:
        if not isinstance(argument, Array):
            number = f"{argument.field} = {(argument.from_python() or '').format(place)};"
            there = f"if ((tg_f->given_{argument.name} = !tg_is_none({place}))) " if argument.optional else ""
            yield there + number
    unfit = 'tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "a number does not fit its type in C")'
    yield f"if (tg_torch.PyErr_Occurred()) {unfit};"
    for place, argument in given:
        if isinstance(argument, Array) and argument.name in unit.dtypes:
            yield f"{argument.field}.data = {(argument.from_python() or '').format(place)};"


def _overlapping(unit: Unit) -> str:
    """The test that a written argument and another one have memory in common."""
    written = {p.name for p in unit.signature.written}
    arrays = [(i, a) for i, a in enumerate(unit.prototype.arrays) if a.name in unit.dtypes]
    tests = [
        f"tg_overlap({one.field}.data, tg_p->spans[{i}], {other.field}.data, tg_p->spans[{j}])"
        for (i, one), (j, other) in itertools.combinations(arrays, 2)
        if written & {one.name, other.name}
    ]
    return " || ".join(tests) or "false"


def _outputs(unit: Unit) -> Iterator[str]:
    """Make the outputs; in place, one that is a written argument's new value is in that argument's memory."""
    for i, (result, output) in enumerate(zip(unit.prototype.results, unit.signature.outputs, strict=True)):
        made = f"tg_make_again(tg_c, &{result.field}, &tg_p->shapes[{i}]);"
        if output.after is None:
            yield made
            continue
        yield f"if (tg_in_place) {result.field}.data = tg_f->a_{output.after}.data;"
        if result.begins is None:
            yield f"else {made}"
        else:
            yield f'else tg_fail(tg_c, "{result.begins} has no copy");'


def _give(unit: Unit) -> Iterator[str]:
    for result, output in zip(unit.prototype.results, unit.signature.outputs, strict=True):
        give = f"tg_stack[tg_count++] = tg_give(&tg_f->call, {result.field}.handle);"
        yield give if output.after is None else f"if (!tg_in_place) {give}"
