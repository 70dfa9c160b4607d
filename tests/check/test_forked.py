"""Work in a forked child: what comes back, and how the parent learns of each way to die."""

import atexit
import ctypes
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import torch

import torchgraft as tg
from torchgraft._check.children import begins, run_in_child
from torchgraft._check.ended import Ended, Hung, TimeOver
from torchgraft._check.finding import Verdict

from .. import fresh

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")


@pytest.fixture(autouse=True)
def children(tmp_path, monkeypatch):
    """The children of a test; neither they, nor files, nor descriptors are left behind."""
    fresh.start_server()  # It keeps descriptors, whichever test needs it first.
    children, fork = [], os.fork

    def forking():
        pid = fork()
        children.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", forking)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(os.listdir("/proc/self/fd"))
    yield children
    assert set(os.listdir("/proc/self/fd")) <= before  # What an earlier test left may be closed meanwhile.
    assert list(tmp_path.iterdir()) == []
    for pid in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def died(function, **options):
    """Run a function in a child, and return how the child died."""
    with pytest.raises(Ended) as error:
        run_in_child(function, **options)
    return error.value


# -- what comes back --------------------------------------------------------------------------------------------------


def test_a_child_collects_no_garbage_of_its_parent():
    assert run_in_child(gc.get_freeze_count) > gc.get_freeze_count()


def test_a_result_comes_back():
    parent = os.getpid()
    child, result = run_in_child(lambda: (os.getpid(), {"a": [1, 2.5]}))
    assert child != parent
    assert result == {"a": [1, 2.5]}


@pytest.mark.slow
def test_a_large_tensor_comes_back_whole():
    x = torch.arange(4_000_000, dtype=torch.float64)
    result = run_in_child(lambda: 2 * x)
    assert torch.equal(result, 2 * x)
    assert not result.is_shared()


def test_the_parent_is_left_as_it_was():
    x, state = torch.zeros(3), torch.get_rng_state()
    child = run_in_child(lambda: x.add_(1) + torch.rand(3))
    assert torch.equal(x, torch.zeros(3))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(child, 1 + torch.rand(3))  # which draws what the child drew


def test_what_it_prints_is_not_shown(capfd):
    def noisy():
        print("by print")
        print("to the error", file=sys.stderr)
        os.write(1, b"by the descriptor")
        ctypes.CDLL(None).puts(b"from native code")

    run_in_child(noisy)
    assert capfd.readouterr() == ("", "")


def test_what_it_raises_comes_back():
    def fails():
        raise KeyError("a name")

    with pytest.raises(KeyError, match="a name") as error:
        run_in_child(fails)
    assert "in fails" in error.value.__notes__[0]


class Picky(Exception):
    """Cannot be made again from its message."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def test_exceptions_that_pickle_cannot_make_again_come_back_as_text():
    def fails():
        raise Picky(1, 2)

    with pytest.raises(RuntimeError, match="Picky: 1 and 2"):
        run_in_child(fails)


def test_a_result_that_cannot_be_pickled_is_an_error():
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        run_in_child(lambda: threading.Lock())


@pytest.mark.slow
def test_many_children_one_after_another():
    assert [run_in_child(lambda i=i: i * i) for i in range(20)] == [i * i for i in range(20)]


# -- torch ------------------------------------------------------------------------------------------------------------


def test_torch_computes_in_several_threads_after_the_parent_did():
    """In the thread that was forked OpenMP hangs: it waits for the threads of the parent."""
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        a, z = torch.randn(300, 300, dtype=torch.float64), torch.randn(1_000_000)
        expected = (a @ a).sum(), (2 * z).exp().sum()  # the parent's threads are there now
        found = run_in_child(lambda: ((a @ a).sum(), (2 * z).exp().sum(), torch.get_num_threads()), seconds_idle=10)
    finally:
        torch.set_num_threads(threads)
    assert found[2] > 1
    torch.testing.assert_close(found[:2], expected)


def test_gradients_are_computed_after_the_parent_did():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def gradient():
        return torch.autograd.grad(x.sin().sum(), x)[0]

    with torch.no_grad():  # which is the parent's thread's alone
        child = run_in_child(gradient)
    assert torch.equal(child, gradient())


# -- how a child dies -------------------------------------------------------------------------------------------------


def read_nothing():
    ctypes.string_at(0)


def test_a_crash_is_told_with_its_signal_and_line():
    end = died(read_nothing)
    line = read_nothing.__code__.co_firstlineno + 1
    assert (end.how, end.where) == ("SIGSEGV", f"{__file__}, line {line}, in read_nothing")
    (finding,) = end.result("gradient").findings
    assert (finding.title, finding.severity) == ("The target ends its process: SIGSEGV", Verdict.FAIL)


@pytest.mark.parametrize(
    ("leave", "how"),
    [
        (lambda: os._exit(3), "exit status 3"),
        (lambda: os._exit(0), "exit status 0"),
        (lambda: ctypes.CDLL(None).exit(4), "exit status 4"),
        (lambda: os.abort(), "SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: sys.exit(0), "sys.exit(0)"),
        (lambda: sys.exit("no"), "sys.exit('no')"),
    ],
)
def test_exits_and_signals_are_told(leave, how):
    end = died(leave)
    assert (type(end), end.how) == (Ended, how)


def exits_behind_a_handler_that_waits():
    """OpenMP's handler in the child waits for threads of the parent."""
    libc = ctypes.CDLL(None)
    libc.on_exit(ctypes.cast(libc.pause, ctypes.c_void_p), None)
    return run_in_child(lambda: libc.exit(4), seconds_idle=1.0)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "on_exit"), reason="musl has no on_exit")
def test_an_exit_does_not_wait_for_what_the_parent_registered():
    assert died(exits_behind_a_handler_that_waits).how == "exit status 4"


def sleeps():
    time.sleep(1000)


def waits_for_itself():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@pytest.mark.parametrize("function", [sleeps, waits_for_itself])
def test_a_child_that_stands_still_is_killed(function):
    start = time.monotonic()
    end = died(function, seconds_idle=0.5)
    assert time.monotonic() - start < 100  # It would sleep for 1000 s, or for ever.
    assert isinstance(end, Hung)
    assert end.where.startswith(f"{__file__}, line ")
    assert end.where.endswith(f"in {function.__name__}")
    (finding,) = end.result("gradient").findings
    assert finding.title == "The target hangs: its process used no CPU time for 0.5 s"


@pytest.mark.slow
def test_a_child_that_works_is_not_killed():
    def works():
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            pass
        return True

    assert run_in_child(works, seconds_idle=1.0)  # On a busy machine it waits for a processor.


@pytest.mark.slow
def test_a_child_is_not_killed_while_what_it_started_works():
    busy = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    assert run_in_child(lambda: subprocess.run([sys.executable, "-c", busy]).returncode, seconds_idle=1.0) == 0


@pytest.mark.slow
def test_cpu_time_is_limited():
    def spins():
        while True:
            pass

    end = died(spins, seconds_cpu=1)
    assert isinstance(end, TimeOver)
    assert end.result("gradient").verdict is Verdict.INCONCLUSIVE


@pytest.mark.slow
def test_a_call_that_does_not_return_is_ended(monkeypatch):
    monkeypatch.setattr("torchgraft._check.children.STUCK", 1.0)

    def spins():
        begins(lambda: "x: float64[3]")
        while True:
            pass

    end = died(spins, seconds_idle=0.5)
    assert isinstance(end, TimeOver)
    assert end.how.endswith("and was ended: x: float64[3]")


# -- what is left behind ----------------------------------------------------------------------------------------------


def is_running(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_what_the_child_started_ends_with_it():
    pid = run_in_child(lambda: subprocess.Popen(["sleep", "1000"]).pid)
    for _ in range(50):
        if not is_running(pid):
            return
        time.sleep(0.1)
    pytest.fail("it lives on")


ORPHAN = """
import os, signal, sys
from torchgraft._check.children import run_in_child

def works():
    print(os.getpid(), file=open(sys.argv[1], "w"), flush=True)
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        pass

run_in_child(works)
"""


@pytest.mark.slow
def test_the_child_ends_with_its_parent(tmp_path):
    told = tmp_path / "pid"
    fresh.run("-c", ORPHAN, str(told))
    pid = int(told.read_text())
    told.unlink()
    for _ in range(100):
        if not is_running(pid):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("it lives on")


def test_an_interrupt_ends_the_child(children, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_in_child(threading.Event().wait)
    assert not Path(f"/proc/{children[0]}").exists()


def test_what_the_parent_does_at_its_exit_is_not_done_in_the_child(tmp_path):
    path = tmp_path / "done"
    atexit.register(path.touch)
    try:
        run_in_child(lambda: None)
    finally:
        atexit.unregister(path.touch)
    assert not path.exists()


# -- where it may be used ---------------------------------------------------------------------------------------------

MAY_FORK = """
import threading
from torchgraft._check.children import may_fork
from torchgraft._check.progress import ProgressLine
from tests.check.test_progress import Terminal

print(may_fork())
with ProgressLine(Terminal()):
    print(may_fork())
thread = threading.Thread(target=lambda: print(may_fork()))
thread.start()
thread.join()
print(may_fork())
release = threading.Event()
threading.Thread(target=release.wait).start()
print(may_fork())
release.set()
"""


@pytest.mark.skipif(torch.accelerator.is_available(), reason="the engine has threads there")
def test_where_it_may_be_used():
    root = Path(__file__).parents[2]
    done = fresh.run("-c", MAY_FORK, cwd=root, check=True)
    assert done.stdout.split() == ["True", "True", "False", "True", "False"]


AFTER_COMPILE = """
import torch
from torchgraft._check.children import may_fork, run_in_child

def gradient(x):
    return torch.autograd.grad(torch.compile(lambda x: x.sin().sum(), backend="aot_eager")(x), x)[0]

x = torch.ones(3, requires_grad=True)
gradient(x)
print(torch.equal(run_in_child(lambda: torch.autograd.grad(x.sin().sum(), x)[0]) if may_fork() else x.cos(), x.cos()))
"""


@pytest.mark.slow
def test_it_may_not_be_used_where_a_compiler_has_started_threads_of_autograd():
    """A torch that is built for CUDA starts them, on machines without a GPU too."""
    assert fresh.run("-c", AFTER_COMPILE, check=True).stdout.split() == ["True"]


@pytest.mark.slow
def test_a_pool_that_has_no_threads_in_a_child_is_no_hang():
    """`torch.jit.fork` waits there forever, since a child has none of the threads that work for it."""
    here = os.getpid()

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if os.getpid() != here:
                threading.Event().wait()
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cos()

    report = tg.check(Sine.apply, torch.randn(3, dtype=torch.float64), only=("gradient", "sizes", "combinations"))
    assert report.ok, str(report)
