"""Loading a library leaves the process's arithmetic as it is: rounding, and numbers next to zero."""

import textwrap
import threading

import pytest
import torch
from jaxtyping import Float, Float64
from torch import Tensor

import torchgraft as tg
from torchgraft._build.floating import kept_environment

from .. import fresh

TINY = 1e-310  # of a double, below the normal numbers

FAST = ["-ffast-math"], ["-Ofast"], ["-funsafe-math-optimizations"]

ROUNDS_UP = """
#include <fenv.h>
__attribute__((constructor)) static void change(void) { fesetround(FE_UPWARD); }
T f(T x) { return x + %s; }
"""  # as a library of another's may do it


def declare(source):
    @tg.op(kernel=source)
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    return f


def survives():
    """Whether torch computes with small numbers here, and rounds to nearest; bits are compared, as integers."""
    small = bits(torch.tensor([TINY], dtype=torch.float64) * 1.0) != 0
    return small and bits(torch.ones(1).double() + 1e-20) == bits(torch.ones(1).double())


def bits(x):
    return x.view(torch.int64).item()


@pytest.mark.slow
@pytest.mark.parametrize("flags", FAST, ids=lambda flags: flags[0])
def test_fast_math_is_the_function_s_alone(own_cache, flags):
    f = declare(tg.c("T f(T x) { return x + 101; }", flags=flags))
    assert survives()
    assert f(torch.ones(1)).item() == 102
    assert survives()
    assert f(torch.ones(1).double()).item() == 102  # and by another library
    assert survives()


def test_rounding_is_kept():
    assert declare(tg.c(ROUNDS_UP % 103))(torch.ones(1)).item() == 104
    assert survives()


def test_it_is_kept_where_a_library_fails_to_load():
    def fail():
        with kept_environment():
            torch.set_flush_denormal(True)
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - its own
        fail()
    assert survives()


@pytest.mark.slow
def test_threads_keep_theirs():
    f, seen = declare(tg.c("T f(T x) { return x + 105; }", flags=["-ffast-math"])), []

    def work():
        f(torch.ones(1))
        inner = threading.Thread(target=lambda: seen.append(survives()))  # which inherits
        inner.start()
        inner.join()
        seen.append(survives())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True, True]


def test_what_the_user_has_chosen_stays():
    f = declare(tg.c("T f(T x) { return x + 107; }"))
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush denormals")
    try:
        assert not survives()
        f(torch.ones(1))
        assert not survives()
    finally:
        torch.set_flush_denormal(False)


def test_debugged_functions_compute_as_others_do(own_cache):
    @tg.op(kernel=tg.c("double f(double x) { return x / 2; }", flags=["-ffast-math"]))
    def f(x: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]: ...

    x = torch.tensor([TINY], dtype=torch.float64)
    with tg.debug(sanitize=False):
        assert bits(f(x)) == bits(torch.tensor([TINY / 2], dtype=torch.float64))


@pytest.mark.slow
def test_a_program_that_loads_the_library_keeps_its_own(tmp_path):
    f = declare(tg.c("T f(T x) { return x + 109; }", flags=["-ffast-math"]))
    f.save_library(tmp_path / "f.so", dtypes=[torch.float64])
    name = f.torch_op.name().replace("::", ".")
    program = f"""
        import torch
        torch.ops.load_library({str(tmp_path / "f.so")!r})
        print((torch.tensor([{TINY}], dtype=torch.float64) * 1.0).view(torch.int64).item() != 0)
        print(torch.ops.{name}(torch.ones(1).double()).item())
        """
    run = fresh.run("-c", textwrap.dedent(program), check=True)
    assert run.stdout.split() == ["True", "110.0"]
