"""The references that are kept are those that mpmath gives."""

import pytest

# Whatever keeps references, so that they are known by name.
from . import references, test_bessel, test_beta, test_distributions, test_spherical  # noqa: F401


@pytest.mark.unless("test_many_are_right")
@pytest.mark.parametrize("name", references.KEPT)
def test_the_first_of_each_function_is_right(name):
    arguments = min(references.KEPT[name], key=len)
    assert references.computed(name, arguments) == pytest.approx(references.KEPT[name][arguments], rel=1e-15, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", references.KEPT)
def test_many_are_right(name):
    """Every third, as each was computed when it was written."""
    for arguments, value in list(references.KEPT[name].items())[::3]:
        assert references.computed(name, arguments) == pytest.approx(value, rel=1e-15, abs=0), arguments


def test_what_is_not_there_is_missed():
    with pytest.raises(LookupError, match=r"no test_bessel\.exact\('jv', 0\.1, 0\.2, \(0, 0\)\): run python -m"):
        test_bessel.exact("jv", 0.1, 0.2, (0, 0))
