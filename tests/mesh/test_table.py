"""Every kind of operator, laid on a mesh in every way, gives the values and derivatives of plain tensors."""

import pytest

from tests.cases import ONE_OF_EACH

from .ranks import mesh_of, on_ranks
from .table import TABLE, compare, layouts

QUICK = ONE_OF_EACH | {name for name in TABLE if name.startswith("mesh")}
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TABLE]


def in_all_ways(name, mesh, count):
    case = TABLE[name]
    failed = []
    for places in layouts(case.leaves(), mesh.ndim, count):
        try:
            compare(case, mesh, places)
        except Exception as error:
            failed.append(f"{places}: {type(error).__name__}: {error}")
    assert not failed, f"{len(failed)} failed, such as\n" + "\n".join(failed[:2])


@pytest.mark.parametrize("name", NAMES)
@on_ranks(2)
def test_on_two_ranks(name):
    in_all_ways(name, mesh_of(2), 5)


@pytest.mark.parametrize("name", NAMES)
@on_ranks(4)
def test_on_four_ranks(name):
    """Sizes are not multiples of four; some ranks have nothing."""
    in_all_ways(name, mesh_of(4), 2)


@pytest.mark.parametrize("name", NAMES)
@on_ranks(4)
def test_on_two_mesh_axes(name):
    in_all_ways(name, mesh_of(2, 2), 5)
