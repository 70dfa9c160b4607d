"""The table and the picture of docs/mesh.md are those that scripts make."""

import runpy
import sys
from pathlib import Path

import pytest

from benchmarks.mesh import in_chinese, table_of_collectives

from .markdown import GENERATED

ROOT = Path(__file__).parents[1]


def test_the_collectives_are_those_that_are_counted_now():
    shown = [dict(GENERATED.findall((ROOT / page).read_text())) for page in ("docs/mesh.md", "docs/mesh.zh.md")]
    counted = table_of_collectives()
    assert [table["collectives"].strip() for table in shown] == [counted, in_chinese(counted)]


def test_every_collective_is_that_of_torch():
    assert all(row.endswith(": the same |") for row in table_of_collectives().splitlines()[2:])


@pytest.mark.slow
def test_a_script_draws_the_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mesh_picture.py", str(tmp_path / "mesh.png")])
    runpy.run_path(str(ROOT / "docs/mesh_picture.py"), run_name="__main__")
    assert (tmp_path / "mesh.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
