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
from .network import OPERATORS, Network
from .training import ASKED_ACCURACY, train

EPOCHS = 30
STEPS = 20
TOLERANCE = 1e-4
BATCH = 32


def run(folder: Path, *, quick: bool) -> int:
    """Show the operators, compare compiled with eager training, train, draw; the exit status is 1 if a check fails."""
    start = time.perf_counter()
    print(f"torchgraft {__version__} on torch {torch.__version__}")
    show_operators()
    with one_thread():
        failures = [*compare_compiled(quick), *train_and_draw(folder, quick)]
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


def show_operators() -> None:
    """Print what each operator of the network can do."""
    heading("Three operators, each declared once (examples/), and what follows from it")
    for operator in OPERATORS:
        print(f"\n{operator}")


def compare_compiled(quick: bool) -> list[str]:
    """Train the same network eagerly and compiled, step by step; return what failed."""
    steps = 3 if quick else STEPS
    backend = "aot_eager" if quick else find_backend()
    heading(f"Eager against torch.compile(fullgraph=True, backend={backend!r}), {steps} training steps from one start")
    eager, compiled = compare(load(), steps=steps, batch=BATCH, backend=backend)
    worst = max(abs(a - b) / abs(a) for a, b in zip(eager, compiled, strict=True))
    print(f"\n  loss at step {steps}: eager {eager[-1]:.7f}, compiled {compiled[-1]:.7f}")
    print(f"  largest relative difference in {steps} steps: {worst:.1e} (allowed: {TOLERANCE:.0e})")
    return [] if worst <= TOLERANCE else [f"compiled and eager losses differ by {worst:.1e}"]


def train_and_draw(folder: Path, quick: bool) -> list[str]:
    """Train the network, draw its curves and filters; return what failed."""
    digits = load(at_most=256) if quick else load()
    heading(f"Training on {len(digits.train_labels)} handwritten digits, {len(digits.test_labels)} held out")
    print()
    torch.manual_seed(0)
    network = Network()
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
