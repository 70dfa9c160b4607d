"""`torchgraft demo`: a network whose layers are operators of torchgraft, trained on real data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from .. import __version__
from . import pictures
from .compiled import compare, find_backend
from .digits import load
from .network import SCIPY, C, Filter, Network, operators
from .speed import race
from .training import ASKED_ACCURACY, train

EPOCHS = 30
STEPS = 20
TOLERANCE = 1e-4
BATCH = 32
ROUNDS = 50


def run(folder: Path, *, quick: bool, native: bool = False) -> int:
    """Show the operators, compare compiled with eager training, train, draw; the exit status is 1 if a check fails.

    Args:
        folder: for the pictures.
        quick: a smoke test.
        native: the first layer is in C, and is compared with that of SciPy.
    """
    start = time.perf_counter()
    print(f"torchgraft {__version__} on torch {torch.__version__}")
    first = C if native else SCIPY
    show_operators(first)
    with one_thread():
        failures = compare_speed(quick) if native else []
        failures += [*compare_compiled(first, quick), *train_and_draw(first, folder, quick)]
    print()
    for failure in failures:
        print("FAILED:", failure)
    print(f"{'finished' if failures else 'all checks passed'} in {time.perf_counter() - start:.0f} s")
    return 1 if failures else 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Within, torch uses one thread: tensors this small gain nothing from more, and on a busy machine lose much."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def show_operators(first: Filter) -> None:
    """Print what each operator of the network can do."""
    heading("Three operators, each declared once (examples/), and what follows from it")
    for operator in operators(first):
        print(f"\n{operator}")


def compare_speed(quick: bool) -> list[str]:
    """Compare the first layer in C with that of SciPy: the numbers, and the time; return what failed."""
    heading(f"The first layer by SciPy and in C, on {BATCH} digits, by turns on one thread")
    result = race(load(), rounds=3 if quick else ROUNDS, batch=BATCH)
    print()
    for what, scipy, c in result.times:
        print(f"  {what + ':':24} SciPy {1e3 * scipy:6.3f} ms   C {1e3 * c:6.3f} ms   {scipy / c:5.1f} x")
    print(f"  largest difference of their gradients, relative: {result.difference:.1e} (allowed: {TOLERANCE:.0e})")
    return [] if result.difference <= TOLERANCE else [f"SciPy and C differ by {result.difference:.1e}"]


def compare_compiled(first: Filter, quick: bool) -> list[str]:
    """Train the same network eagerly and compiled, step by step; return what failed."""
    steps = 3 if quick else STEPS
    backend = "aot_eager" if quick else find_backend()
    heading(f"Eager against torch.compile(fullgraph=True, backend={backend!r}), {steps} training steps from one start")
    eager, compiled = compare(first, load(), steps=steps, batch=BATCH, backend=backend)
    worst = max(abs(a - b) / abs(a) for a, b in zip(eager, compiled, strict=True))
    print(f"\n  loss at step {steps}: eager {eager[-1]:.7f}, compiled {compiled[-1]:.7f}")
    print(f"  largest relative difference in {steps} steps: {worst:.1e} (allowed: {TOLERANCE:.0e})")
    return [] if worst <= TOLERANCE else [f"compiled and eager losses differ by {worst:.1e}"]


def train_and_draw(first: Filter, folder: Path, quick: bool) -> list[str]:
    """Train the network, draw its curves and filters; return what failed."""
    digits = load(at_most=256) if quick else load()
    heading(f"Training on {len(digits.train_labels)} handwritten digits, {len(digits.test_labels)} held out")
    print()
    torch.manual_seed(0)
    network = Network(first)
    history = train(network, digits, epochs=1 if quick else EPOCHS, batch=BATCH)
    asked = "a quick run asks for none" if quick else f"asked: {ASKED_ACCURACY:.0%}"
    print(f"  accuracy on the held-out digits: {history.accuracy[-1]:.1%} ({asked})")
    heading("Pictures")
    print()
    for path, what in pictures.draw(network, history, digits, folder):
        print(f"  {path}  {what}")
    if quick or history.accuracy[-1] >= ASKED_ACCURACY:
        return []
    return [f"accuracy {history.accuracy[-1]:.1%} is below {ASKED_ACCURACY:.0%}"]


def heading(text: str) -> None:
    """Print a line that starts a part of the tour."""
    print(f"\n== {text}", flush=True)
