"""torchgraft: declare an operator once, and it becomes a full citizen of PyTorch."""

import importlib as _importlib
import typing as _typing

from ._build.debug import debug
from ._declare import op
from ._draws.numbers import random_bits, random_fold, random_normal, random_uniform
from ._op import Op
from ._spec.domain import domain
from ._spec.mutated import Mutated
from ._spec.saved import Saved
from ._spec.seed import Seed, drawn
from ._spec.workspace import Workspace, native, workspace
from .errors import (
    ArgumentError,
    BuildError,
    CheckError,
    DeclarationError,
    DerivativeError,
    DeviceError,
    DtypeError,
    KernelError,
    RuleError,
    ShapeError,
    TorchgraftError,
    TorchgraftWarning,
    UnsupportedError,
)

if _typing.TYPE_CHECKING:
    from ._build.source import c, cpp, cuda
    from ._check.check import check
    from ._check.finding import Finding, Verdict
    from ._check.gradcheck import gradcheck, gradgradcheck
    from ._check.report.report import Report
    from ._function.adopt import adopt
    from ._function.function import Function
    from ._nn.module import Module, module
    from ._nn.shard_axis import ShardAxis

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "BuildError",
    "CheckError",
    "DeclarationError",
    "DerivativeError",
    "DeviceError",
    "DtypeError",
    "Finding",
    "Function",
    "KernelError",
    "Module",
    "Mutated",
    "Op",
    "Report",
    "RuleError",
    "Saved",
    "Seed",
    "ShapeError",
    "ShardAxis",
    "TorchgraftError",
    "TorchgraftWarning",
    "UnsupportedError",
    "Verdict",
    "Workspace",
    "adopt",
    "c",
    "check",
    "cpp",
    "cuda",
    "debug",
    "domain",
    "drawn",
    "gradcheck",
    "gradgradcheck",
    "module",
    "native",
    "op",
    "random_bits",
    "random_fold",
    "random_normal",
    "random_uniform",
    "workspace",
]


_LATER = {
    "Finding": "_check.finding",
    "Function": "_function.function",
    "Module": "_nn.module",
    "Report": "_check.report.report",
    "ShardAxis": "_nn.shard_axis",
    "Verdict": "_check.finding",
    "adopt": "_function.adopt",
    "c": "_build.source",
    "check": "_check.check",
    "cpp": "_build.source",
    "cuda": "_build.source",
    "gradcheck": "_check.gradcheck",
    "gradgradcheck": "_check.gradcheck",
    "module": "_nn.module",
}
"""Names that are imported when they are first asked for: a program that uses none of them starts in half the time."""


if not _typing.TYPE_CHECKING:  # Type checkers would take every name for one that there is.

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(_importlib.import_module(f".{_LATER[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
