"""The `torchgraft` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 if all went well, 1 if a check failed, 2 if it cannot run."""
    options = make_parser().parse_args(arguments)
    status: int = options.run(options)
    return status


def make_parser() -> argparse.ArgumentParser:
    """The command line, with one function to run for each subcommand."""
    parser = argparse.ArgumentParser(
        prog="torchgraft", description="Declare an operator once, graft it onto PyTorch.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"torchgraft {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="train a small network of torchgraft operators on handwritten digits",
        description="Train a small network whose layers are torchgraft operators (torch, SciPy and NumPy kernels) on "
        "handwritten digits, compare it with its compiled self, and draw what it learned.",
        allow_abbrev=False,
    )
    demo.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for the pictures (default: %(default)s)"
    )
    demo.add_argument("--quick", action="store_true", help="a smoke test of a few seconds, which asks for no accuracy")
    demo.set_defaults(run=run_demo)
    return parser


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo, or say what it needs."""
    try:
        from . import _demo
    except ModuleNotFoundError as error:
        print(f"torchgraft demo needs {error.name}: pip install 'torchgraft[demo]'", file=sys.stderr)
        return 2
    return _demo.run(options.out, quick=options.quick)
