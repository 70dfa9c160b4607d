"""Python's command line in processes that have imported torchgraft, and done nothing else.

They are forked from a server, as those of `torchgraft check --isolate` are, and start in a tenth of a second: to import
torch takes two. What looks at imports or at the start of Python needs a process of its own.
"""

import os
import runpy
import subprocess
import sys
import tempfile
from multiprocessing import forkserver
from pathlib import Path

from torchgraft._check.children import fresh


def start_server():
    """Start the server, as the first call would."""
    fresh()  # This says what it imports.
    forkserver.ensure_running()


def run(*arguments, cwd=".", env=None, check=False):
    """Run ``python ARGUMENTS``, where the first is ``-c``, ``-m`` or a script, and return what it printed."""
    arguments = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        process = fresh().Process(target=_live, args=(arguments, cwd, dict(os.environ if env is None else env), files))
        process.start()
        process.join()
        out, err = (file.read_text() for file in files)
    done = subprocess.CompletedProcess(arguments, process.exitcode, out, err)
    if check:
        done.check_returncode()
    return done


def _live(arguments, cwd, environment, files):
    for descriptor, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = (open(descriptor, "w", buffering=1, closefd=False) for descriptor in (1, 2))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path[:0] = ["", *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    first, *rest = arguments
    if first == "-c":
        code, *sys.argv[1:] = rest
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        module, *sys.argv[1:] = rest
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv[1:] = rest
        runpy.run_path(first, run_name="__main__")
