"""torchgraft: declare an operator once, and it becomes a full citizen of PyTorch."""

from ._errors import (
    ArgumentError,
    DeclarationError,
    DerivativeError,
    DeviceError,
    DtypeError,
    KernelError,
    RuleError,
    ShapeError,
    TorchgraftError,
    UnsupportedError,
)
from ._op import Op, op
from ._spec.saved import Saved

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "DeclarationError",
    "DerivativeError",
    "DeviceError",
    "DtypeError",
    "KernelError",
    "Op",
    "RuleError",
    "Saved",
    "ShapeError",
    "TorchgraftError",
    "UnsupportedError",
    "op",
]
