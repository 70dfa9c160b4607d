"""Special functions where float64 and their domains end: they return, with values and derivatives of references.

The references are those of `benchmarks/ends.py`, which says what they are. The functions are called in processes of
their own (`ends.py`), as a loop without an end in C cannot be interrupted.
"""

import gzip
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torchgraft.scipy import special

ROOT = Path(__file__).parents[2]
FUNCTIONS = json.loads(gzip.decompress((ROOT / "tests/scipy/ends.json.gz").read_bytes()))
MEASURED = {"ours": {}, "scipy": {}}  # the worst errors of values, as docs/scipy.md shows them
for row in json.loads((ROOT / "benchmarks/accuracy.json").read_text()):
    for whose, errors in MEASURED.items():
        if row["kind"] == "value" and row[whose]:
            errors[row["function"]] = max(errors.get(row["function"], 0.0), float(row[whose]["worst"]))
GREATEST = sys.float_info.max
INF, NAN = math.inf, math.nan


def answers(labels):
    """What `ends.py` says of each function at its points."""
    tasks = []
    for label in labels:
        told = FUNCTIONS[label]
        width = max(len(results or [None]) for _, _, results in told["rows"])
        points = [point for point, _, _ in told["rows"]]
        tasks.append({**{key: told[key] for key in ("name", "keywords", "varied")}, "width": width, "points": points})
    paths = os.pathsep.join([str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("ends.py")],
        input="\n".join(map(json.dumps, tasks)), capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return dict(zip(labels, map(json.loads, done.stdout.splitlines()), strict=True))


def is_close(found, exact, most):
    """Whether both are NaN, or nearly the same: subnormal numbers have few digits, and infinity is next to GREATEST."""
    if math.isnan(found) or math.isnan(exact):
        return math.isnan(found) and math.isnan(exact)
    if math.isinf(exact) or math.isinf(found):
        return abs(min(found, exact, key=abs)) > GREATEST * (1 - most) and found * exact > 0
    return abs(found - exact) <= most * abs(exact) + 3 * math.ulp(0.0)


def allowed(label, source):
    """The relative error of a value: twice what was measured, of SciPy too where the reference is SciPy's value."""
    name = FUNCTIONS[label]["name"]
    ours, theirs = (errors.get(label, errors.get(name, 0.0)) for errors in MEASURED.values())
    return min(max(2 * ours, 2 * theirs * (source == "scipy"), 1e-14), 1e-11)


def wrong(label, found):
    """Points without an answer, and those where an answer is not the reference, or not the same in both modes."""
    told = FUNCTIONS[label]
    names, complaints = ["value", *(f"d/d{told['arguments'].split()[i]}" for i in told["varied"])], []
    for (point, source, results), answer in zip(told["rows"], found, strict=True):
        if answer is None:
            complaints.append(f"{point}: no answer in time")
            continue
        for i, numbers in enumerate(answer):
            reverse, forward = [numbers[0], *numbers[1 : len(names)]], [numbers[0], *numbers[len(names) :]]
            exact = results[i] if results else [None] * len(names)
            if source == "number" and math.isnan(numbers[0]):
                complaints.append(f"{point}: a value there is, and no NaN")
            for name, one, other, expected in zip(names, reverse, forward, exact, strict=True):
                if not is_close(one, other, 1e-15):
                    complaints.append(f"{point}: {name} {one} in reverse mode, {other} in forward mode")
                known = expected is not None and not (source == "scipy" and math.isnan(expected))
                most = allowed(label, source) if name == "value" else 1e-11
                if known and not is_close(one, expected, most):
                    complaints.append(f"{point}: {name} {one}, by {source} {expected}")
    return complaints


@pytest.fixture(scope="module")
def everywhere():
    return answers(list(FUNCTIONS))


@pytest.mark.slow
@pytest.mark.parametrize("label", FUNCTIONS)
def test_functions_are_right_at_their_ends(label, everywhere):
    assert wrong(label, everywhere[label]) == []


def test_every_function_has_ends():
    assert {told["name"] for told in FUNCTIONS.values()} == set(special.__all__)


def test_references_are_mpmaths_at_many_points():
    for label, told in FUNCTIONS.items():
        assert sum(source == "mpmath" for _, source, _ in told["rows"]) > 1, label


@pytest.mark.parametrize(
    ("name", "point", "value"),
    [
        ("stdtrit", (2.0, 1e-310), -1 / math.sqrt(2e-310)),  # (2p - 1)/sqrt(2p (1 - p))
        ("stdtrit", (1.0, 1e-300), -1e300 / math.pi),  # -1/tan(pi p)
        ("stdtrit", (1e-20, 0.5 + 2**-53), INF),
        ("hyp0f1", (-0.5, INF), -INF),
        ("hyp0f1", (1.0, 1e10), INF),
        ("hyp0f1", (1e300, 1e300), math.e),
        ("zeta", (1e5, -2.5), INF),
        ("zeta", (1e10, -0.5), INF),
        ("zeta", (3.0, -1e10 - 0.5), 0.5 / (1e10 + 1) ** 2),  # zeta(3, 1e10 + 3/2): the terms before cancel
        ("zeta", (3.0, -2.5), 0.05410202582086370),  # zeta(3, 7/2), likewise
        ("jv", (-1e300, 1.0), 0.0),
        ("jve", (-1e300, 1.0), 0.0),
        ("yv", (1e300, 1.0), -INF),
        ("yve", (1e300, 1.0), -INF),
        ("jv", (1e16, 1e16), 2.0762166542623418e-6),  # DLMF 10.19.8
        ("struve", (INF, INF), NAN),
        ("struve", (1e5, 1e5), INF),
        ("spherical_jn", (2**31, 1e5), 0.0),
        ("spherical_yn", (1e19, 1e300), -math.cos(1e300) / 1e300),
        ("polygamma", (30, -2.5), -3611857616302858.0),
        ("gammaln", (5e-324,), 744.4400719213812),
        ("betaincc", (0.5, 0.5, 1e-20), 1 - 2 / math.pi * 1e-10),
        ("inv_boxcox", (0.5, 5e-324), math.sqrt(math.e)),
        ("chdtr", (1.0, 5e-324), 1.7735048886036274e-162),
    ],
)
def test_values_at_ends(name, point, value):
    found = getattr(special, name)(*(torch.tensor(x, dtype=torch.float64) for x in point)).item()
    assert is_close(found, value, 1e-14)
