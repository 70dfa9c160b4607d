"""The benchmark of accuracy finds what is wrong, and has every function."""

import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

from torchgraft.scipy import special

from .default import by_default

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from _accuracy import cache  # noqa: E402
from _accuracy.draw import points  # noqa: E402
from _accuracy.entry import Entry  # noqa: E402
from _accuracy.exact import reference  # noqa: E402
from _accuracy.measure import grafted, of_scipy  # noqa: E402
from _accuracy.registry import ENTRIES  # noqa: E402
from _accuracy.score import BARS, scores  # noqa: E402
from _accuracy.table import merged, table, text  # noqa: E402

OPERATORS = set(special.__all__)
RESULT = json.loads((ROOT / "benchmarks" / "accuracy.json").read_text())


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path)


def measured(label, count):
    """What `scores` takes, but for float32, which has its own column."""
    entry = ENTRIES[label]
    at = points(entry, count)
    return entry, at, cache.references(entry, at), grafted(entry, at), {"scipy": of_scipy(entry, at)}


def scored(entry, at, exact, ours, rivals):
    return {score.quantity: score for score in scores(entry, at, exact, ours, ours, rivals)}


# -- the registry ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_operator_is_measured():
    assert {entry.name for entry in ENTRIES.values()} == OPERATORS


@pytest.mark.parametrize("label", ENTRIES)
def test_arguments_are_those_of_the_operator(label):
    entry = ENTRIES[label]
    arguments = entry.arguments.split()
    assert list(inspect.signature(getattr(special, entry.name)).parameters)[: len(arguments)] == arguments
    assert set(f"{entry.parameters} {entry.fixed}".split()) <= set(arguments)


# References take a second a function; the others are slow tests, and have tests of their own.
SHOWN = {"erfcx", "gammainc", "hyp2f1", "jv", "kv", "stdtr", "zeta"}


@pytest.mark.parametrize("label", by_default(ENTRIES, SHOWN.__contains__))
def test_bars_are_met_at_some_points(label):
    """But for those that the result says are missed."""
    missed = {quantity for quantity, score in scored(*measured(label, 3)).items() if not score.met}
    assert missed <= {row["quantity"] for row in RESULT if row["function"] == label and not row["met"]}


def test_points_are_the_same_each_time_and_many():
    every = points(ENTRIES["gammainc"])
    np.testing.assert_array_equal(every, points(ENTRIES["gammainc"]))
    np.testing.assert_array_equal(every[:50], points(ENTRIES["gammainc"], 50))
    assert min(len(points(entry)) for entry in ENTRIES.values()) > 1000


# -- references -----------------------------------------------------------------------------------------------------


def test_references_are_right():
    """Those of a cubic, next to a zero of its derivative and away from it."""

    def cubic(x):
        return x**3 - 3 * x

    ((value, rest, slope, scale),) = reference(Entry("cubic", "x", cubic, ()), (1.5,))
    assert (value, rest, slope, scale) == (-1.125, 0, 3.75, 0)
    ((_, _, slope, scale),) = reference(Entry("cubic", "x", cubic, ()), (1 + 2.0**-20,))
    assert (slope, scale) == pytest.approx((3 * ((1 + 2.0**-20) ** 2 - 1), 6 * (1 + 2.0**-20) ** 2), rel=1e-15)


def test_what_two_precisions_do_not_agree_on_is_no_reference():
    assert reference(Entry("noise", "x", lambda x: x + mpf(1) / mp.dps, ()), (1.5,)) is None
    assert reference(Entry("steps", "x", lambda x: mp.sqrt(x - 2), ()), (1.5,)) is None


@pytest.mark.slow
def test_references_are_kept(monkeypatch):
    entry, at, exact, *_ = measured("gammaln", 3)
    monkeypatch.setattr(cache, "reference", lambda entry, point: pytest.fail("computed again"))
    np.testing.assert_array_equal(cache.references(entry, at), exact)


# -- planted errors -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gammainc(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "FOLDER", tmp_path_factory.mktemp("cache"))
        return measured("gammainc", 20)


def ten_ulps(values):
    return values + 10 * np.spacing(values)


PLANTED = {
    "value, 10 ulp": ("value", ten_ulps),
    "value, NaN": ("value", lambda values: values * np.nan),
    "parameter, 1e-5": ("d/da", lambda slopes: slopes * (1 + 1e-5)),
    "parameter, NaN": ("d/da", lambda slopes: slopes * np.nan),
    "parameter, sign": ("d/da", lambda slopes: -slopes),
    "argument, 1e-11": ("d/dx", lambda slopes: slopes * (1 + 1e-11)),
    "argument, infinite": ("d/dx", lambda slopes: slopes / 0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("quantity", "mutate"), PLANTED.values(), ids=PLANTED)
def test_one_wrong_number_is_found(gammainc, quantity, mutate):
    entry, at, exact, ours, rivals = gammainc
    assert scored(*gammainc)[quantity].met
    wrong, column = ours.copy(), ["value", "d/da", "d/dx"].index(quantity)
    with np.errstate(divide="ignore"):
        wrong[0, 0, column] = mutate(ours[0, 0, column])
    found = scored(entry, at, exact, wrong, rivals)
    assert [name for name, score in found.items() if not score.met and name != "float32"] == [quantity]
    assert (found[quantity].beyond_at or found[quantity].ours.at) == tuple(at[0])


@pytest.mark.slow
def test_a_small_error_of_all_parameters_is_found(gammainc):
    entry, at, exact, ours, rivals = gammainc
    assert not scored(entry, at, exact, ours * (1 + 1e-9), rivals)["d/da"].met


def test_errors_next_to_a_zero_are_relative_to_the_condition():
    """The derivative of the gamma function's logarithm vanishes at 1.46: 1e-12 of the condition is enough there."""
    entry = ENTRIES["gammaln"]
    at = np.array([[1.4616321], [3.0]])
    exact = cache.references(entry, at)
    ours = np.concatenate([exact[:, :, :1], exact[:, :, 2:3]], axis=2)
    ours[0, 0, 1] += 1e-12
    found = scored(entry, at, exact, ours, {"scipy": ours})["d/dx"]
    assert found.met
    assert found.near_zeros is not None
    assert 1e-13 < found.near_zeros.worst < 1e-11
    ours[0, 0, 1] += 1e-9
    assert not scored(entry, at, exact, ours, {"scipy": ours})["d/dx"].met


# -- the result -----------------------------------------------------------------------------------------------------


def test_the_result_is_of_this_registry():
    rows = [(row["function"], row["quantity"], row["kind"]) for row in RESULT]
    wanted = {
        (label, quantity, kind)
        for label, entry in ENTRIES.items()
        for quantity, kind in [*(found[:2] for found in entry.quantities()), ("float32", "float32")]
    }
    assert len(rows) == len(set(rows))
    assert set(rows) == wanted
    assert all(row["points"] >= 1000 for row in RESULT if row["kind"] != "float32")
    assert all(float(row["ours"]["p99"]) >= 0 and row["kind"] in BARS for row in RESULT)


def test_rows_are_replaced_and_keep_the_column_of_jax():
    row = {**RESULT[0], "jax": {"worst": "1.0e-03", "at": [], "p99": "1.0e-03", "lost": 0}}
    new = {**row, "points": 7, "jax": None}
    (found,) = merged([row], [new], jax=False)
    assert (found["points"], found["jax"]) == (7, row["jax"])
    (found,) = merged([row], [new], jax=True)
    assert found["jax"] is None
    assert json.loads(text([found])) == [found]
    assert row["function"] in table([row])
