"""Random operators on simulated meshes, with random placements, beside the plain expression.

`python -m tests.fuzz.on_mesh --seconds 60 --seed 1` searches for longer, and prints each failure as a program.
"""

from __future__ import annotations

import argparse
import collections
import time
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import torchgraft as tg

from ..simulated import simulated
from .choose import Chooser, Seeded, weighted
from .declaration import FLAWS
from .program import Case, draw_case, imports

MESHES = ((2,), (3,), (2, 2))


@dataclass(frozen=True)
class Outcome:
    """The comparison of one operator on a mesh: right, refused or wrong, and the reason."""

    kind: str
    text: str
    program: str

    @property
    def failed(self) -> bool:
        return self.kind in ("wrong", "unnamed")


def compared(seed: int) -> Outcome | None:
    """Draw an operator, a call and placements, and compare; None where nothing can be said.

    That is of an operator with a planted mistake, and of uneven shards that the simulation has no arithmetic for.
    """
    c = Seeded(seed)
    case = draw_case(c, slow=False)
    if case.declaration.flaw in FLAWS:
        return None
    shape = c.pick(MESHES)
    names = _executed(case)
    places = {leaf.name: _draw_places(c, len(leaf.shape), len(shape)) for leaf in case.leaves}
    program = f"{case.declaration.source}\n# {case.call}, {shape}, {places}, {[(x.name, x.shape) for x in case.leaves]}"
    expected = _results(names["truth"], case, _leaves(case, names))
    try:
        with simulated(*shape) as mesh:
            placed = {name: _placed(t, places[name], mesh) for name, t in _leaves(case, names).items()}
            made = _results(names["fuzzed"], case, placed)
            found = [None if t is None else _held_by_all(t.full_tensor()) for t in made]
    except tg.TorchgraftError as error:
        return Outcome("refused", f"{type(error).__name__}: {error}", program)
    except Exception as error:
        if "LocalIntNode" in str(
            error
        ):  # Sizes that differ from rank to rank: the simulation cannot compute with them.
            return None
        return Outcome("unnamed", f"{type(error).__name__}: {error}", program)
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one is not None and other is not None and not _close(one, other):
            return Outcome("wrong", f"result {place}: {one} for {other}", program)
    return Outcome("right", "", program)


def _executed(case: Case) -> dict[str, Any]:
    text = case.module()
    module = types.ModuleType("fuzz_mesh")
    exec(compile(f"{imports(text)}\n{text}", "<fuzz mesh>", "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def _draw_places(c: Chooser, rank: int, axes: int) -> list[int | str]:
    options: dict[int | str, int] = {"whole": 3, "sum": 1} | dict.fromkeys(range(rank), 4)
    return [weighted(c, options) for _ in range(axes)]


def _leaves(case: Case, names: dict[str, Any]) -> dict[str, Tensor]:
    return {leaf.name: names["tensor"](leaf.shape, torch.float64, leaf.seed) for leaf in case.leaves}


def _placed(full: Tensor, places: Sequence[int | str], mesh: Any) -> Any:
    """The tensor on the mesh; the terms of a sum are equal."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    kinds = [Shard(p) if isinstance(p, int) else Replicate() for p in places]
    placed = distribute_tensor(full, mesh, kinds)
    terms = [i for i, place in enumerate(places) if place == "sum"]
    if not terms:
        return placed
    count = torch.Size([mesh.size(i) for i in terms]).numel()
    kinds = [Partial() if i in terms else kind for i, kind in enumerate(kinds)]
    local = placed.to_local() / count
    return DTensor.from_local(local, mesh, kinds, run_check=False, shape=full.shape, stride=full.stride())


def _results(function: Any, case: Case, leaves: dict[str, Any]) -> list[Any]:
    """Outputs, first and second derivatives; None for those that there are not."""
    for leaf in leaves.values():
        leaf.requires_grad_()
    made = eval(f"f({case.call})", {"f": function, **leaves})  # Our own text.
    outputs = [made] if isinstance(made, Tensor) else [y for y in made if y is not None]
    given = list(leaves.values())
    still = case.declaration.formula.still
    moved = [y for y, name in zip(outputs, case.declaration.formula.outputs, strict=True) if name not in still]
    first = _derivative(moved, given)
    second = _derivative([g for g in first if g is not None], given)
    return [*(y.detach() for y in outputs), *first, *second]


def _derivative(results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The gradient of a curved function of the results; None for each where no rule gives it."""
    loss = sum(_squares(y) for y in results if y.requires_grad)
    if not isinstance(loss, Tensor):
        return [None] * len(given)
    try:
        return list(torch.autograd.grad(loss, given, create_graph=True, allow_unused=True))
    except tg.DerivativeError:
        return [None] * len(given)


def _squares(y: Any) -> Any:
    """The sum of squares; DTensor has no real part of what has no axis."""
    return (y * y.conj()).sum().reshape(1).real.sum() if y.is_complex() else y.square().sum()


def _held_by_all(result: Any) -> Tensor:
    """Return what every rank holds, which is the same to the last bit; `reconcile` takes no NaN for another."""
    first, *others = result._local_tensors.values()
    assert all(torch.allclose(first, other, 0, 0, equal_nan=True) for other in others), "ranks hold other numbers"
    return first  # type: ignore[no-any-return]


def _close(one: Tensor, other: Tensor) -> bool:
    """Compare what is finite where nothing is cut: the parts of an overflow are infinite or NaN by another order."""
    one, other = one.detach(), other.detach()
    finite = other.isfinite()
    one, other = one[finite], other[finite]
    scale = float(other.abs().max()) if other.numel() else 1.0
    return torch.allclose(one, other, rtol=1e-9, atol=1e-11 * max(scale, 1.0))


def outcomes(seeds: Iterable[int]) -> Iterator[Outcome]:
    """Compare one operator for each seed."""
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The C compiler warns of functions that are not used.
            outcome = compared(seed)
        if outcome is not None:
            yield outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    until = time.monotonic() + options.seconds

    def seeds() -> Iterator[int]:
        seed = options.seed * 1_000_000
        while time.monotonic() < until:
            yield seed
            seed += 1

    kinds: collections.Counter[str] = collections.Counter()
    for outcome in outcomes(seeds()):
        kinds[outcome.kind] += 1
        if outcome.failed:
            print(f"\n## {outcome.kind}: {outcome.text}\n\n{outcome.program}")
    print(dict(kinds))
    return int(bool(kinds["wrong"] + kinds["unnamed"]))


if __name__ == "__main__":
    raise SystemExit(main())
