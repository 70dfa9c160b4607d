"""The wheel ships the kernels of every module that has some."""

import importlib
import pkgutil
import tomllib
from pathlib import Path

import torchgraft.scipy
from torchgraft import Op
from torchgraft.build import _natives

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def owners():
    """The modules of torchgraft.scipy that declare operators with functions in C."""
    for found in pkgutil.walk_packages(torchgraft.scipy.__path__, "torchgraft.scipy."):
        module = importlib.import_module(found.name)
        operators = [value for value in vars(module).values() if isinstance(value, Op)]
        if not found.ispkg and any(list(_natives(operator)) for operator in operators):
            yield found.name


def test_every_module_with_kernels_is_compiled_into_the_wheel():
    hook = tomllib.loads(PROJECT.read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["torchgraft"]
    assert hook["modules"] == sorted(owners())
    assert not hook["enable-by-default"]  # else `pip install .` would need torch, and fetch one
