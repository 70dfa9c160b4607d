"""The table of `torchgraft.scipy.special` in docs/scipy.md: from the operators, and from the errors that were measured.

`python -m docs._sphinx.special`, at the root of the repository, writes it into the page.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import Any

import torchgraft as tg
from torchgraft.scipy import special

ROOT = Path(__file__).parents[2]
PAGE, ERRORS = ROOT / "docs/scipy.md", ROOT / "benchmarks/accuracy.json"
START, END = "<!-- table: special -->\n", "<!-- end -->"

# The modules of each family.
FAMILIES = {
    "Gamma and beta": "incomplete_gamma incomplete_beta log_gamma",
    "Distributions": "distributions normal owens",
    "Bessel, Airy, Struve": "bessel spherical airy_functions struve_functions",
    "Integrals": "integrals elliptic",
    "Hypergeometric, zeta, Lambert": "hyper hurwitz lambert",
    "Logarithms and powers": "logarithms",
}

HEAD = "| function, formulas | value | derivatives |\n|---|---|---|"

# -- what a docstring cites -------------------------------------------------------------------------------------------

DLMF = re.compile(r"\([^()]*\bDLMF\b[^()]*\)")
NUMBER = re.compile(r"\b[1-9]\d*\.\d+(?:\.\d+)?\b")
PAPER = re.compile(r"\b[A-Z][a-z]+(?: and [A-Z][a-z]+| et al\.)? (?:19|20)\d\d\b")
PROOF = re.compile(r"(?i)\bby (?:the (implicit function theorem)|(definition))\b")


def citations(docstring: str) -> list[str]:
    """The sources of its formulas: numbers of the DLMF, in parentheses that name it, papers, and ways to derive one."""
    numbers = {number for group in DLMF.findall(docstring) for number in NUMBER.findall(group)}
    papers, proofs = PAPER.findall(docstring), [one or other for one, other in PROOF.findall(docstring)]
    return [*sorted(numbers, key=lambda number: [int(n) for n in number.split(".")]), *dict.fromkeys(papers + proofs)]


def rules(op: tg.Op) -> dict[str, str]:
    """The docstring of each rule, by the input that it is for; empty where there is none."""
    found = {name: op._record.reverse_rule(name) for name in op._record.signature.names}
    return {name: inspect.getdoc(rule.written) or "" for name, rule in found.items() if rule is not None}


def summary(op: tg.Op) -> str:
    """The first paragraph of an operator's docstring."""
    return (inspect.getdoc(op) or "").partition("\n\n")[0]


# -- the table --------------------------------------------------------------------------------------------------------


def operators(modules: str) -> list[tg.Op]:
    """The public operators that are defined in modules of `special`."""
    public = [getattr(special, name) for name in special.__all__]
    return [op for module in modules.split() for op in public if op.__module__ == f"{special.__name__}.{module}"]


def table(errors: list[dict[str, Any]]) -> str:
    """A part for each family: a heading, a row for each function, and what has no derivative.

    Args:
        errors: rows of benchmarks/accuracy.json.
    """
    parts = []
    for family, modules in FAMILIES.items():
        ops = operators(modules)
        parts += [f"### {family}", "\n".join([HEAD, *(row(op, errors) for op in ops)]), *refusals(ops)]
    return "\n" + "\n\n".join(parts) + "\n"


def row(op: tg.Op, errors: list[dict[str, Any]]) -> str:
    """The call and the formulas, the error of the value, and that of the derivative in each input that has one."""
    slopes = [f"`{name}` {worst(errors, op.__name__, name)}" for name in rules(op)]
    return f"| `{signature(op)}`<br>{formulas(op)} | {worst(errors, op.__name__)} | {'<br>'.join(slopes)} |"


def refusals(ops: list[tg.Op]) -> Iterator[str]:
    """A sentence for each reason why inputs have no derivative."""
    found: dict[str, dict[str, list[str]]] = {}
    for op in ops:
        reasons = op._record.nondifferentiable
        for reason in dict.fromkeys(reasons.values()):
            inputs = listed([name for name in reasons if reasons[name] == reason])
            found.setdefault(reason or "", {}).setdefault(inputs, []).append(op.__name__)
    for reason, named in found.items():
        places = ", in ".join(f"{inputs} of {listed(names)}" for inputs, names in named.items())
        yield f"No derivative in {places} ({reason})."


def signature(op: tg.Op) -> str:
    """The call, as in ``zeta(x, q=None)``."""
    parameters = inspect.signature(op).parameters.values()
    return f"{op.__name__}({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"


def formulas(op: tg.Op) -> str:
    """What the docstrings of an operator and of its rules cite, numbers of the DLMF as links."""
    cited = citations("\n".join([summary(op), *rules(op).values()]))
    links = [f"[{number}]({permalink(number)})" for number in cited if NUMBER.fullmatch(number)]
    return ", ".join([*([f"DLMF {links[0]}", *links[1:]] if links else []), *cited[len(links) :]])


def permalink(number: str) -> str:
    """Of an equation or a section of the DLMF."""
    chapter, section, *equation = number.split(".")
    return ".E".join([f"https://dlmf.nist.gov/{chapter}.{section}", *equation])


def listed(names: list[str]) -> str:
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def worst(errors: list[dict[str, Any]], name: str, argument: str | None = None) -> str:
    """The worst error, rounded up to one digit, over all results and variants of a function.

    Args:
        errors: rows of benchmarks/accuracy.json.
        name: of the function.
        argument: in which the derivative is; none for values.
    """
    rows = [row for row in errors if row["function"].partition(" ")[0] == name and derivative_in(row) == argument]
    found = [Decimal(part["worst"]) for row in rows for part in (row["ours"], row["near_zeros"]) if part]
    if not found:
        return "-"
    most = max(found)
    if not most or not most.is_finite():
        return f"{float(most):g}"
    return f"{most.quantize(Decimal(1).scaleb(most.adjusted()), ROUND_UP):.0e}"


def derivative_in(row: dict[str, Any]) -> str | None:
    """The argument of a derivative, "x" of "dAi/dx"; none for values, and an empty one for what has both."""
    if row["kind"] == "value":
        return None
    return row["quantity"].partition("/d")[2]


# -- the page ---------------------------------------------------------------------------------------------------------


def written(page: str, text: str) -> str:
    """The page with the text between its markers.

    Raises:
        ValueError: it has none.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the page has no place for the table: {START}...{END}")
    return f"{before}{start}{text}\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), table(json.loads(ERRORS.read_text()))))
