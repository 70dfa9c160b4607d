"""Every derivative names the source of its formula, and the tables of the page are what the operators say."""

import json

import pytest

from docs._sphinx.special import ERRORS, FAMILIES, PAGE, citations, operators, rules, summary, table, worst, written
from torchgraft.scipy import special

OPERATORS = {name: getattr(special, name) for name in special.__all__}

# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
def test_every_derivative_cites_its_source(name):
    op = OPERATORS[name]
    assert rules(op)
    assert [argument for argument, docstring in rules(op).items() if not citations(docstring)] == []
    assert vars(op)["__doc__"].startswith(summary(op))  # its own, not that of its class


@pytest.mark.parametrize(
    ("docstring", "cited"),
    [
        ("dP/dx (DLMF 8.8.13; `kernels/gamma.c`).", ["8.8.13"]),
        ("dI/da (by DLMF 8.17.7 and 8.17.2, m = 0.5^2).", ["8.17.2", "8.17.7"]),
        ("K (DLMF 10.32.9; Temme 1975 for small z).", ["10.32.9", "Temme 1975"]),
        ("E_n, also for x > 1.5 (DLMF 5.15).", ["5.15"]),
        ("The power transform (Box and Cox 1964).", ["Box and Cox 1964"]),
        ("W (Corless et al. 1996), by definition.", ["Corless et al. 1996", "definition"]),
        ("-(dP/da) / (dP/dx), by the implicit function theorem.", ["implicit function theorem"]),
        ("By definition, and by definition.", ["definition"]),
    ],
)
def test_what_is_cited(docstring, cited):
    assert citations(docstring) == cited


@pytest.mark.parametrize("docstring", ["", "dP/da.", "dP/da (8.7.1).", "See the DLMF.", "dP/da (`kernels/gamma.c`)."])
def test_what_cites_nothing(docstring):
    assert citations(docstring) == []


# -- the tables -------------------------------------------------------------------------------------------------------


def test_every_operator_is_in_one_family():
    names = [op.__name__ for modules in FAMILIES.values() for op in operators(modules)]
    assert sorted(names) == sorted(OPERATORS)


def test_the_page_has_the_tables_that_are_generated():
    page = PAGE.read_text()
    assert page == written(page, table(json.loads(ERRORS.read_text()))), "run python -m docs._sphinx.special"


def measured(function, quantity, error, near_zeros=None):
    kind = quantity if quantity in ("value", "float32") else "argument"
    near = near_zeros and {"worst": near_zeros}
    return {"function": function, "quantity": quantity, "kind": kind, "ours": {"worst": error}, "near_zeros": near}


def test_what_a_table_says():
    lines = table([measured("expn", "value", "3.1e-15"), measured("kv", "d/dv", "1.0e-15")]).splitlines()
    assert "No derivative in `n` of `expn` (the order is an integer)." in lines
    (expn,) = (line for line in lines if line.startswith("| `expn(n, x)`<br>DLMF [8.19.3]("))
    assert expn.endswith("[8.19.13](https://dlmf.nist.gov/8.19.E13) | 4e-15 | `x` - |")
    (kv,) = (line for line in lines if line.startswith("| `kv(v, z)`"))
    assert kv.endswith(" | - | `v` 1e-15<br>`z` - |")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "-"),
        ([measured("kv", "value", "1.1e-16"), measured("kv", "d/dz", "1.1e-16")], "-"),
        ([measured("kve", "d/dv", "1.1e-16"), measured("kv", "float32", "1.1e-7")], "-"),
        ([measured("kv", "d/dv", "1.1e-16")], "2e-16"),
        ([measured("kv", "d/dv", "2.0e-16"), measured("kv (large)", "d/dv", "9.9e-17")], "2e-16"),
        ([measured("kv", "d/dv", "2.0e-16"), measured("kv", "dK/dv", "9.1e-16")], "1e-15"),
        ([measured("kv", "d/dv", "1.0e-16", near_zeros="3.0e-11")], "3e-11"),
        ([measured("kv", "d/dv", "0.0e+00")], "0"),
        ([measured("kv", "d/dv", "inf"), measured("kv", "d/dv", "1.0e-16")], "inf"),
    ],
)
def test_the_worst_error(rows, expected):
    assert worst(rows, "kv", "v") == expected


def test_the_worst_error_of_values():
    assert worst([measured("kv", "value", "1.1e-16"), measured("kv", "d/dv", "1.1e-9")], "kv") == "2e-16"


def test_a_page_without_a_place_is_an_error():
    assert written("a\n<!-- table: special -->\nold\n<!-- end -->\nb", "new") == (
        "a\n<!-- table: special -->\nnew\n<!-- end -->\nb"
    )
    with pytest.raises(ValueError, match="no place"):
        written("a\n<!-- table: special -->\nold", "new")
