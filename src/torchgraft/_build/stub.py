"""`torchgraft prototype`: a C file with the heads of an operator's functions, to be filled in."""

from __future__ import annotations

from collections.abc import Sequence

from .prototype import Prototype

_FILE = """\
/* {title}
 *
 * torchgraft defines {types} for each combination of dtypes before it includes this file; the lines that
 * follow are for editors.
 */
#ifndef TORCHGRAFT
#include <stdbool.h>
#include <stdint.h>
{typedefs}
#endif

{functions}
"""


def stub(title: str, prototypes: Sequence[Prototype]) -> str:
    """The file; each function refuses to compile until it is written.

    Args:
        title: what the functions belong to.
        prototypes: of the functions.
    """
    heads = [prototype.declaration() for prototype in prototypes]
    names = sorted({name for prototype in prototypes for name in prototype.type_names})
    functions = [
        f'{head} {{\n#error "{p.symbol} is to be written"\n}}' for head, p in zip(heads, prototypes, strict=True)
    ]
    return _FILE.format(
        title=title,
        types=", ".join(names) or "nothing",
        typedefs="\n".join(f"typedef {'float _Complex' if n == 'T_complex' else 'float'} {n};" for n in names),
        functions="\n\n".join(functions),
    )
