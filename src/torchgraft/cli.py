"""The `torchgraft` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from ._errors import TorchgraftError


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
    demo.add_argument("--native", action="store_true", help="filter the images in C, and compare with SciPy")
    demo.add_argument("--quick", action="store_true", help="a smoke test of a few seconds, which asks for no accuracy")
    demo.set_defaults(run=run_demo)
    prototype = commands.add_parser(
        "prototype",
        help="write a C file with the heads of an operator's functions",
        description="Write a C file with the heads of the functions that are, or could be, an operator's kernel and "
        "rules, to be filled in. The Python file is imported.",
        allow_abbrev=False,
    )
    prototype.add_argument("operator", metavar="FILE.py:NAME", help="where the operator is declared, and its name")
    prototype.add_argument("--out", type=Path, metavar="FILE", help="the file (default: NAME.c; - prints it)")
    prototype.set_defaults(run=run_prototype)
    cache = commands.add_parser(
        "cache",
        help="show or clear the cache of built kernels",
        description="Show where built kernels are kept ($TORCHGRAFT_CACHE, else the platform's cache folder) and what "
        "they take, or remove them.",
        allow_abbrev=False,
    )
    cache.add_argument("--clear", action="store_true", help="remove them; they are built again when they are needed")
    cache.set_defaults(run=run_cache)
    return parser


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo, or say what it needs."""
    try:
        from . import _demo
    except ModuleNotFoundError as error:
        print(f"torchgraft demo needs {error.name}: pip install 'torchgraft[demo]'", file=sys.stderr)
        return 2
    return _demo.run(options.out, quick=options.quick, native=options.native)


def run_prototype(options: argparse.Namespace) -> int:
    """Write the heads of an operator's C functions; a file that exists is left alone."""
    from ._build.stub import stub
    from ._locate import find_operator

    try:
        operator = find_operator(options.operator)
        text = stub(f"{operator.__name__}: kernel and rules.", operator._record.prototypes())
    except TorchgraftError as error:
        print(error, file=sys.stderr)
        return 2
    if str(options.out) == "-":
        print(text, end="")
        return 0
    path = options.out or Path(f"{operator.__name__}.c")
    try:
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        print(f"{path} is not written: {error.strerror}; --out FILE names another, --out - prints it", file=sys.stderr)
        return 2
    print(path)
    return 0


def run_cache(options: argparse.Namespace) -> int:
    """Show or clear the cache."""
    from ._build import cache

    if options.clear:
        print(f"{cache.folder()}: {_mebibytes(cache.clear())} freed")
        return 0
    libraries = cache.contents()
    size = sum(path.stat().st_size for path in libraries)
    print(f"{cache.folder()}: {len(libraries)} libraries, {_mebibytes(size)}; torchgraft cache --clear removes them")
    return 0


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
