"""Run work in a child process, which may crash, leave or hang without taking this one along."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import gc
import math
import mmap
import multiprocessing
import os
import pickle
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..errors import TorchgraftError
from .ended import Ended, Hung, TimeOver, ended_by, ended_with, line_in, staying
from .progress import THREAD

T = TypeVar("T")

_DONE = b"\nthe end\n"  # Ends a whole result: a child may die while it writes, or leave with status 0.
_MOVES = 0.01  # Seconds of CPU time in each second: a process that uses less stands still.
STUCK = 60.0  # Seconds of CPU time that one call may use: it is an endless loop, or too slow to be called again.
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG in Linux's <sys/prctl.h>.
START = 60.0  # Seconds for the imports of a fresh process with limited time.


class _Calls:
    """The number of calls that a forked child has begun, and the label of the last, in memory that its parent sees.

    A file in its place would cost twenty times what a small call does.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 2**14)

    def begin(self, label: str) -> None:
        text = label.encode()[: len(self._memory) - _HEAD.size]
        _HEAD.pack_into(self._memory, 0, self.count + 1, len(text))
        self._memory[_HEAD.size : _HEAD.size + len(text)] = text

    @property
    def count(self) -> int:
        return _HEAD.unpack_from(self._memory)[0]  # type: ignore[no-any-return]

    @property
    def last(self) -> str:
        length = _HEAD.unpack_from(self._memory)[1]
        return self._memory[_HEAD.size : _HEAD.size + length].decode(errors="ignore")


_HEAD = struct.Struct("qq")
_calls: _Calls | None = None  # Of the child that this process is.


def survive(work: Callable[[], T], *, apart: bool) -> T:
    """Return what some work on a target returns; raise `Ended` where it ends its process, or tries to.

    What may end its process is done `apart`, in a child, where there can be one; its result is pickled.
    """
    work = staying()(work)
    return run_in_child(work) if apart and may_fork() else work()


def hangs_in_child(call: Callable[[], object]) -> bool:
    """Return True if a call that has run here waits forever in a child, where pools of threads have no threads.

    So do functions that call `torch.jit.fork`.
    """
    try:
        run_in_child(lambda: bool(call()), seconds_idle=5.0)
    except Hung:
        return True
    except Exception:
        return False
    return False


def begins(label: Callable[[], str]) -> None:
    """Keep the label of a call that begins in a child; elsewhere, where nobody asks, it is not made."""
    if _calls is not None:
        _calls.begin(label())


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# -- a forked child ---------------------------------------------------------------------------------------------------


def may_fork() -> bool:
    """Return True if a forked child of this process computes as this process does.

    Another Python thread may hold a lock that nobody in the child gives back. The threads of autograd's engine do not
    live in the child: it has some with an accelerator and, where torch is built for one, once a compiler has traced.
    A debugger stops in this process alone; what measures coverage is a tracer too, and stops nowhere. Numba ends a
    child in which its threads of GNU OpenMP are used again.
    """
    here, main = threading.current_thread(), threading.main_thread()
    alone = here is main and {thread.name for thread in threading.enumerate()} <= {main.name, THREAD}
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 and newer have it.
    tracer = sys.gettrace()
    measured = getattr(tracer, "__module__", type(tracer).__module__).split(".")[0] == "coverage"
    debugged = (tracer and not measured) or (monitoring and monitoring.get_tool(monitoring.DEBUGGER_ID))
    alone = alone and "numba.np.ufunc.omppool" not in sys.modules
    if sys.platform != "linux" or not alone or debugged or torch.accelerator.is_available():
        return False
    return not any(_thread_name(task).startswith("pt_autograd") for task in Path("/proc/self/task").iterdir())


def _thread_name(task: Path) -> str:
    with contextlib.suppress(OSError):  # The thread is gone.
        return (task / "comm").read_text()
    return ""


def run_in_child(function: Callable[[], T], *, seconds_idle: float = 20.0, seconds_cpu: float = 600.0) -> T:
    """Return what a function returns in a forked child of this process.

    It runs in a new thread, with grad mode and autocast as there: in the thread that was forked, OpenMP waits for
    threads that are not there. What it prints is not shown; what it raises is raised here.

    Args:
        function: to run; its result is pickled, and so is what it raises.
        seconds_idle: the child hangs if it, and what it started, used no CPU time so long.
        seconds_cpu: CPU time that it may use.

    Raises:
        Ended: a signal or an exit ended the child; `Hung`: it stood still; `TimeOver`: it used all of its CPU time, or
            one call used very much.
    """
    _warm()
    calls = _Calls()
    with tempfile.TemporaryDirectory(prefix="torchgraft-") as folder:
        files = result, trace = [Path(folder, name) for name in ("result", "trace")]
        for file in files:
            file.touch()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the threads of OpenMP.
            pid = os.fork()
        if pid == 0:
            _live(function, result, trace, calls, seconds_cpu)
        status = None
        try:
            status = _wait(pid, seconds_idle, calls)
            if status is None:
                os.kill(pid, signal.SIGUSR1)  # The child writes where each thread is.
                time.sleep(0.2)
        finally:
            if status is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if status is None:
            said = f"its process used no CPU time for {seconds_idle:.3g} s"
            raise Hung(said, line_in(trace), calls.last)
        if status == -signal.SIGXCPU:
            raise TimeOver(f"the process used {seconds_cpu:.3g} s of CPU time, and was killed")
        written = result.read_bytes()
        if status != 0 or not written.endswith(_DONE):
            raise ended_with(status, trace, calls.last)
    value, error = pickle.loads(written)
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


@functools.cache
def _warm() -> None:
    """Let torch import here what first derivatives need: each child would do it for itself, a second each time."""
    x = torch.ones((), requires_grad=True)
    with torch.autograd.forward_ad.dual_level():
        torch.autograd.grad(x.clone(), x, torch.ones(()))


def _wait(pid: int, seconds_idle: float, calls: _Calls) -> int | None:
    """Return the exit status of the child, or minus the number of its signal; None if it stands still.

    Raises:
        TimeOver: a call does not return.
    """
    start = moved = time.monotonic()
    used = before = 0.0
    begun = 0
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        now = time.monotonic()
        if now - moved > seconds_idle:
            latest = _cpu_time(pid)
            if abs(latest - used) < _MOVES * (now - moved):  # The time falls where one of the processes has ended.
                return None
            if calls.count != begun:
                before, begun = latest, calls.count
            elif begun and latest - before > STUCK:
                raise TimeOver(f"a call used {latest - before:.0f} s of CPU time, and was ended: {calls.last}")
            moved, used = now, latest
        time.sleep(min(0.001 + (now - start) / 10, 0.05))
    return os.waitstatus_to_exitcode(ended[1])


def _cpu_time(group: int) -> float:
    """Return the seconds of CPU time that all processes of a group have used: a compiler may run for the child."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # The process is gone.
            fields = process.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _live(function: Callable[[], Any], result: Path, trace: Path, calls: _Calls, seconds_cpu: float) -> None:
    """Run the function, write its result, and end without what the parent does at its exit."""
    import resource  # Windows lacks it.

    global _calls
    status = 1
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        gc.freeze()
        os.setsid()  # The child's own processes die with it, and Ctrl-C reaches the parent alone.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds_cpu), resource.getrlimit(resource.RLIMIT_CPU)[1]))
        # Objects of a notebook or of pytest would wait for a thread that only the parent has.
        sys.stdout = sys.stderr = open(os.devnull, "w", buffering=1)  # noqa: SIM115
        for descriptor, file in enumerate((open(os.devnull), sys.stdout, sys.stderr)):  # noqa: SIM115
            os.dup2(file.fileno(), descriptor)
        traces = trace.open("w")
        faulthandler.enable(traces)
        faulthandler.register(signal.SIGUSR1, traces)
        _leave_at_exit()
        _calls = calls
        thread = threading.Thread(target=lambda: result.write_bytes(_outcome(function) + _DONE))
        thread.start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # The signal is for the thread that works.
        thread.join()
        status = 0
    finally:
        os._exit(status)


def _leave_at_exit() -> None:
    """Let `exit` in a kernel end this process at once: libraries would stop threads that only the parent has."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # Without it, as in musl, a child may hang, which is told as well.
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)  # The last handler runs first, with the status.


def _outcome(function: Callable[[], Any]) -> bytes:
    """Return what the function returned, and what it raised, as bytes that hold all of it: no memory is shared."""
    error: BaseException
    try:
        return pickle.dumps((function(), None))
    except (SystemExit, KeyboardInterrupt) as leaving:
        error = ended_by(leaving)
    except BaseException as raised:
        raised.add_note(f"In a child process:\n{traceback.format_exc()}")
        error = raised
    try:
        pickle.loads(written := pickle.dumps((None, error)))
    except Exception:  # Not every exception can be made again.
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return written


# -- a fresh process --------------------------------------------------------------------------------------------------


def isolated(work: Callable[..., Iterable[Any]], *arguments: Any, limit: float | None = None) -> Iterator[Any]:
    """Yield None as soon as a fresh process has done its imports, then what some work yields in it.

    The work is a function of a module, by whose name the process finds it. Arguments and results are pickled. So many
    seconds after its imports the process is killed.

    Raises:
        Ended: the process crashed or left, or it was killed.
        TorchgraftError: that the work raised.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, receiver:
        trace = Path(folder, "trace.txt")
        trace.touch()
        process = fresh().Process(target=_run, args=(sender, trace, work, arguments))
        process.start()
        sender.close()
        deadline = None if limit is None else time.monotonic() + START + limit
        try:
            while (message := _next(receiver, process.sentinel, deadline)) is not None:
                value, error = message
                if isinstance(error, StopIteration):
                    return
                if error is not None:
                    raise error
                if value is None and limit is not None:
                    deadline = time.monotonic() + limit
                yield value
            process.join()
            raise ended_with(process.exitcode or 0, trace)
        finally:
            process.kill()
            process.join()


@functools.cache
def fresh() -> SpawnContext | ForkServerContext:
    """Return what starts fresh processes.

    A process that has computed with torch has threads, and a forked child of it may hang. On Linux they are forked from
    a server that has only imported torch: to import it takes seconds.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torchgraft._check.command.command"])
    return context


def _next(receiver: Connection, sentinel: int, deadline: float | None) -> tuple[Any, Exception | None] | None:
    """Return the next value, or the error that was the end; None if the process is gone."""
    if not wait([receiver, sentinel], None if deadline is None else max(0.0, deadline - time.monotonic())):
        raise TimeOver("the time was over, and a call did not end: the process was killed")
    try:
        return pickle.loads(receiver.recv_bytes()) if receiver.poll() else None
    except (EOFError, OSError):  # It ended, perhaps in the middle of a message.
        return None


def _run(sender: Connection, trace: Path, work: Callable[..., Iterable[Any]], arguments: tuple[Any, ...]) -> None:
    """Work, in the fresh process."""

    def send(value: Any, error: Exception | None = None) -> None:
        # `send` would share the memory of tensors, and this process does not live to hand it over.
        sender.send_bytes(pickle.dumps((value, error)))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent is interrupted, and ends this process.
    sys.stdout = sys.stderr  # The parent's answer has no place for what is printed here.
    os.dup2(2, 1)
    with trace.open("w") as file:
        faulthandler.enable(file)
        send(None)
        try:
            for value in work(*arguments):
                send(value)
            send(None, StopIteration())
        except BaseException as error:
            send(None, error if isinstance(error, TorchgraftError | Ended) else ended_by(error))
        faulthandler.disable()
