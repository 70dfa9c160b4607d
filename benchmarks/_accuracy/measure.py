"""What each library finds at points: values, and first derivatives by its own automatic differentiation."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import torch
from torch import Tensor

from torchgraft.scipy import special

from .entry import Entry

IN_JAX = Path(__file__).with_name("in_jax.py")
PATIENCE = 40  # seconds
TINY = 1e-5


def grafted(entry: Entry, points: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Of `torchgraft.scipy.special`, as (points, results, 1 + derivatives), like all others here."""
    return by_autograd(entry, getattr(special, entry.name), points, dtype)


def by_autograd(entry: Entry, function: Callable[..., Any], points: Any, dtype: torch.dtype = torch.float64) -> Any:
    inputs = [torch.tensor(column, dtype=dtype) for column in points.T]
    varied = [inputs[i].requires_grad_() for i in entry.varied]
    found = function(*inputs, **entry.keywords)
    columns = []
    for result in found if isinstance(found, tuple) else (found,):
        columns.append([result, *slopes(result, varied)])
    return np.stack([torch.stack(c, dim=-1).detach().double().numpy() for c in columns], axis=1)


def slopes(result: Tensor, varied: list[Tensor]) -> list[Tensor]:
    """NaN where there is none: the rivals have some only."""
    found = []
    for x in varied:
        try:
            (slope,) = torch.autograd.grad(result.sum(), x, retain_graph=True)
        except (RuntimeError, NotImplementedError):
            slope = torch.full_like(x, float("nan"))
        found.append(slope)
    return found


def of_scipy(entry: Entry, points: Any) -> Any:
    """Its values; it has no derivatives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(scipy.special, entry.name)(*points.T, **entry.keywords)
    found = found if isinstance(found, tuple) else (found,)
    return np.stack([np.real(result) for result in found], axis=1)[:, :, None]


def torch_polygamma(n: Tensor, x: Tensor) -> Tensor:
    found = torch.zeros_like(x)
    for order in n.unique():
        found = found.masked_scatter(n == order, torch.polygamma(int(order), x[n == order]))
    return found


TORCH: dict[str, Callable[..., Any]] = {
    "betaln": lambda a, b: torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b),
    "digamma": torch.digamma,
    "erfcx": torch.special.erfcx,
    "gammainc": torch.special.gammainc,
    "gammaincc": torch.special.gammaincc,
    "gammaln": torch.lgamma,
    "log_ndtr": torch.special.log_ndtr,
    "ndtri": torch.special.ndtri,
    "polygamma": torch_polygamma,
    "xlog1py": torch.special.xlog1py,
    "xlogy": torch.special.xlogy,
    "zeta": lambda x, q=1.0: torch.special.zeta(x, q),
}


def of_torch(entry: Entry, points: Any) -> Any | None:
    """Its own function, where it has one."""
    return by_autograd(entry, TORCH[entry.name], points) if entry.name in TORCH else None


def of_jax(entry: Entry, points: Any, python: str) -> Any | None:
    """What `jax.scipy.special` finds, if it has the function, in a process of a Python that has it.

    Some of its loops never end at tiny arguments: it is then asked without those, which count as NaN.
    """
    if (found := _asked(entry, points, python)) is not None:
        return found
    tiny = (abs(points) < TINY).any(axis=1)
    print(f"jax: {entry.label}: no answer in {PATIENCE} s; now without arguments below {TINY}", file=sys.stderr)
    if (some := _asked(entry, points[~tiny], python)) is None:
        return None
    found = np.full((len(points), *some.shape[1:]), np.nan)
    found[~tiny] = some
    return found


def _asked(entry: Entry, points: Any, python: str) -> Any | None:
    """None if there is no answer in time; without columns if there is no function."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "points.npz", Path(folder) / "found.npy"
        task = json.dumps([entry.name, entry.varied, dict(entry.keywords)])
        np.savez(given, task=task, points=points)
        try:
            subprocess.run([python, str(IN_JAX), str(given), str(found)], check=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return None
        return np.load(found)
