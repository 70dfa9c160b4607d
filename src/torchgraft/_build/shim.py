"""The source of a kernel library: the user's function, and around it what libtorch calls.

Generated for one combination of dtypes; `shim.h` has what is the same for all.
"""

from __future__ import annotations

from pathlib import Path

from .c_arguments import SeedOfSample
from .loops import loops
from .ready_call import ready_call
from .steps import steps
from .unit import Unit, indented

_LIBRARY = """\
{seed}{run}
{ready}static void tg_body(tg_frame *tg_f, tg_value *tg_stack) {{
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

TG_EXPORT bool tg_has_ready_calls(void) {{ return {has_ready} && tg_gives_objects(); }}
TG_EXPORT const char *tg_load(const char *torch) {{ return tg_find_symbols(torch); }}
TG_EXPORT int32_t tg_register(const char *space, const char *name, bool bare) {{
    return tg_implement(space, name, "CPU", bare ? tg_bare_entry : tg_entry, "{title}");
}}
"""

_SEED = f'#include "{Path(__file__).with_name("seed.h")}"\n'


class Shim(Unit):
    """The source of one library."""

    def source(self, header: str, body: str) -> str:
        """The source of the whole library.

        Args:
            header: path of `shim.h`.
            body: the user's source, or what includes it.
        """
        prototype = self.prototype
        slots = [argument for argument in prototype.arguments if argument.schema]
        return self.assemble(
            _LIBRARY,
            header,
            body,
            operator=self.signature.name,
            seed=_SEED if any(isinstance(a, SeedOfSample) for a in prototype.arguments) else "",
            run=loops(self),
            body_of_call=indented(steps(self)),
            ready=ready_call(self),
            has_ready="true" if prototype.has_ready_calls else "false",
            count=len(slots),
            trailing=len(prototype.trailing),
            outputs=len(prototype.results),
            room=max(len(slots) + len(prototype.trailing), len(prototype.results)),
        )
