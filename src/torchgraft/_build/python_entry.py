"""Python's own way into a library: a function of Python's C interface, without the dispatcher."""

from __future__ import annotations

from collections.abc import Iterator

from .c_arguments import Array
from .prototype import Prototype
from .unit import indented

_ENTRY = """\
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


def python_entry(prototype: Prototype) -> str:
    """The function ``tg_fast`` and what tells Python of it; nothing where an argument has no such way in."""
    arguments = [a for a in prototype.arguments if a.schema]
    if not prototype.has_fast_path:
        return ""
    return _ENTRY.format(
        convert=indented(_convert(prototype)),
        operator=prototype.signature.name,
        slots=max(len(arguments) + len(prototype.trailing), len(prototype.results)),
        count=len(arguments),
        trailing=" ".join(f"tg_stack[{len(arguments) + i}] = 0;" for i in range(len(prototype.trailing))),
        outputs=len(prototype.results),
    )


def _convert(prototype: Prototype) -> Iterator[str]:
    """Numbers first, which may not be what they should be; then tensors, of which a failure drops those before."""
    places = [(f"tg_given[{i}]", f"tg_stack[{i}]", a) for i, a in enumerate(x for x in prototype.arguments if x.schema)]
    for given, slot, argument in places:
        if isinstance(argument, Array):
            continue
        word = (argument.from_python() or "").format(given)
        yield f"{slot} = {f'tg_is_none({given}) ? 0 : tg_boxed_word({word})' if argument.optional else word};"
    unfit = 'tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "a number does not fit its type in C")'
    yield f"if (tg_torch.PyErr_Occurred()) {{ {unfit}; return false; }}"
    made: list[str] = []
    for given, slot, argument in places:
        if not isinstance(argument, Array):
            continue
        drop = " ".join(f"if ({other}) tg_torch.aoti_torch_delete_tensor_object((tg_handle){other});" for other in made)
        take = f"tg_torch.torch_tensor_from_pyobject({given}, (tg_handle *)&{slot})"
        if argument.optional:
            yield f"{slot} = 0;"
            take = f"!tg_is_none({given}) && {take}"
        yield f"if ({take}) {{ {drop} return false; }}"
        made.append(slot)
    for _, slot, argument in places:
        if isinstance(argument, Array) and argument.optional:
            yield f"if ({slot}) {slot} = tg_boxed_word({slot});"
