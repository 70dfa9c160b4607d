"""Every kind of operator, laid on a mesh in every way, gives the values and derivatives of plain tensors."""

import pytest

from tests.cases import ONE_OF_EACH

from .ranks import mesh_of, on_ranks
from .table import OWN, TABLE, compare, layouts

ON_TWO = ONE_OF_EACH | {"upsample"} | {case.name for case in OWN}
ON_FOUR = {"mesh linear_np", "mesh moments", "mesh total", "top_two"}
ON_TWO_AXES = {"mesh linear 2", "mesh between", "mesh turned", "mesh ranked", "mesh linear_loop 2"}


def names(quick):
    """All operators; those that are not quick are slow tests."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in TABLE]


def in_all_ways(name, mesh, mixed):
    """Compare a call with each tensor laid in each way, and with some mixed ways."""
    case = TABLE[name]
    failed = []
    for places in layouts(case.leaves(), mesh.ndim, mixed):
        try:
            compare(case, mesh, places)
        except Exception as error:
            failed.append(f"{places}: {type(error).__name__}: {error}")
    assert not failed, f"{len(failed)} failed, such as\n" + "\n".join(failed[:2])


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ON_TWO))
@on_ranks(2)
def test_on_two_ranks(name):
    in_all_ways(name, mesh_of(2), mixed=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ON_FOUR))
@on_ranks(4)
def test_on_four_ranks(name):
    """Sizes are not multiples of four; some ranks have nothing."""
    in_all_ways(name, mesh_of(4), mixed=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ON_TWO_AXES))
@on_ranks(4)
def test_on_two_mesh_axes(name):
    in_all_ways(name, mesh_of(2, 2), mixed=5)
