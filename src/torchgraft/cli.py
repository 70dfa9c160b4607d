"""The command line of `torchgraft`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from . import __version__
from .errors import TorchgraftError


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
    for add in (_add_check, _add_demo, _add_prototype, _add_cache):
        add(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add(commands: Commands, run: Callable[[argparse.Namespace], int], help: str, more: str) -> argparse.ArgumentParser:
    """The parser of a command, which is called as its function is, and described by its help and more sentences."""
    name = run.__name__.removeprefix("run_")
    description = f"{help[0].upper()}{help[1:]}. {more}"
    parser = commands.add_parser(name, help=help, description=description, allow_abbrev=False)
    parser.set_defaults(run=run)
    return parser


def _add_check(commands: Commands) -> None:
    check = _add(
        commands, run_check, "prove the derivatives of operators",
        "Of a module, a file, a package or a folder all that it declares is checked: operators, autograd.Functions, "
        "torch.library operators. Files are imported. Exit status: 0 if all passed, 1 if something was found or could "
        "not be told, 2 if the command cannot run.",
    )  # fmt: skip
    option = check.add_argument
    option("targets", nargs="*", metavar="TARGET", help="package.module, file.py, folder/, or a name: file.py:linear")
    option(
        "-k", action="append", default=[], metavar="PART",
        help="only targets with this part in their name, or with 'not PART' those without; * is any text; may be given "
        "several times",
    )  # fmt: skip
    option("--only", action="append", default=[], metavar="CHECK", help="only this check; may be given several times")
    option("--skip", action="append", default=[], metavar="CHECK", help="leave out this check")
    option("--list", action="store_true", help="list the targets, or without any the checks, and check nothing")
    option("--seed", type=int, default=0, metavar="N", help="of all random numbers (default: %(default)s)")
    option("--device", default="cpu", metavar="NAME", help="where the tensors are (default: %(default)s)")
    option(
        "--budget", type=_seconds, metavar="SECONDS",
        help="of all targets together; what was not tried then is listed. A call that has begun is not interrupted",
    )  # fmt: skip
    option(
        "--accuracy", type=float, metavar="PART",
        help="to which the values are right, relative to the largest element of each output (default: as declared)",
    )  # fmt: skip
    option(
        "--surrogate", action="append", default=[], metavar="ARGUMENT=PLACE",
        help="whose derivative is meant for an argument: x=package.module:smooth; may be given several times",
    )  # fmt: skip
    option("--compilers", action="store_true", help="run torch.compile, torch.export and opcheck: a second each")
    option("--inductor", action="store_true", help="compile with Inductor too, which takes seconds for each target")
    option(
        "--isolate", action="store_true",
        help="a process for each target: one that crashes is reported, one that hangs beyond the budget is killed",
    )  # fmt: skip
    option("--html", type=Path, metavar="FILE", help="write a page, with pictures where matplotlib is installed")
    option("--json", type=Path, metavar="FILE", help="write all results; - prints them, and the report to stderr")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


_seconds.__name__ = "number of seconds"  # Argparse calls it so.


def _add_demo(commands: Commands) -> None:
    demo = _add(
        commands, run_demo, "train a small network of torchgraft operators on handwritten digits",
        "The kernels of its layers are torch, SciPy and NumPy. It is compared with its compiled self, and what it "
        "learned is drawn.",
    )  # fmt: skip
    demo.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for the pictures (default: %(default)s)"
    )
    form = demo.add_mutually_exclusive_group()
    form.add_argument("--native", action="store_true", help="filter the images in C, and compare with SciPy")
    form.add_argument(
        "--processes", type=int, choices=(2, 4, 8), metavar="N",
        help="train on 2, 4 or 8 processes, by FSDP and from 4 on with every layer cut too; compare with one process, "
        "and draw nothing",
    )  # fmt: skip
    demo.add_argument("--quick", action="store_true", help="a smoke test of a few seconds, which asks for no accuracy")


def _add_prototype(commands: Commands) -> None:
    prototype = _add(
        commands, run_prototype, "write a C file with the heads of an operator's functions",
        "They are, or could be, its kernel and rules, to be filled in. The Python file is imported.",
    )  # fmt: skip
    prototype.add_argument("operator", metavar="FILE.py:NAME", help="where the operator is declared, and its name")
    prototype.add_argument("--out", type=Path, metavar="FILE", help="the file (default: NAME.c; - prints it)")


def _add_cache(commands: Commands) -> None:
    cache = _add(
        commands, run_cache, "show or clear the cache of built kernels",
        "They are kept in $TORCHGRAFT_CACHE, else in the platform's cache folder.",
    )  # fmt: skip
    cache.add_argument("--clear", action="store_true", help="remove them; they are built again when they are needed")


def run_check(options: argparse.Namespace) -> int:
    """Check the targets of ``torchgraft check``."""
    from ._check.command.command import run

    return run(options)


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo, or say what it needs."""
    try:
        from . import _demo
    except ModuleNotFoundError as error:
        print(f"torchgraft demo needs {error.name}: pip install 'torchgraft[demo]'", file=sys.stderr)
        return 2
    if options.processes:
        from ._demo import processes

        return processes.run(options.processes, quick=options.quick)
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
