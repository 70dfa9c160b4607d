"""A device of torch's that is the CPU: its operators refuse tensors that lie elsewhere, as those of CUDA do.

It shows without a GPU where tensors are made on the wrong device, or where code knows no devices but the CPU and CUDA.
A process that has it once keeps it, and may fork no more.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration, cpp_extension
from torch.utils._pytree import tree_map

NAME = "beside"


class _Module(backend_registration._DummyBackendModule):
    """What `torch.beside` is."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def begin() -> None:
    """Make the device known; g++ takes half a minute."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    with tempfile.TemporaryDirectory() as folder:
        cpp_extension.load(
            "torchgraft_tests_device", [str(Path(__file__).with_name("device.cpp"))], extra_cflags=["-O0", "-g0"],
            build_directory=folder,
        )  # fmt: skip


def moved(value: Any) -> Any:
    """Arguments with their tensors on the device; of a module, those that it holds."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            return leaf.to(NAME)
        return leaf.to(NAME).requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf

    return tree_map(one, value)
