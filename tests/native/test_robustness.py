"""Large arrays, other threads and processes, reloading, and libtorch's own failures."""

import os
import threading
import time

import pytest
import torch
from jaxtyping import Float, Inexact, Real, UInt8
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import torchgraft as tg


@tg.op(kernel=tg.c("T increment(T x) { return x + 1; }"))
def increment(x: Real[Tensor, "..."]) -> Real[Tensor, "..."]: ...


@tg.op(kernel=tg.c("void last(int64_t n, const uint8_t *x, uint8_t *out) { *out = x[n - 1]; }"))
def last(x: UInt8[Tensor, "*batch n"]) -> UInt8[Tensor, "*batch"]: ...


@pytest.fixture
def many():
    """More elements than an int counts, of which nearly all are memory that nobody has touched, and costs nothing."""
    x = torch.zeros(2**31 + 9, dtype=torch.uint8)
    x[-1] = 6
    return x


@pytest.mark.slow
def test_more_elements_than_an_int_counts(many):
    assert last(many).item() == 6
    halves = many.expand(2, -1)  # 2**32 elements and more, in rows
    assert last(halves).tolist() == [6, 6]
    assert last(many[:-1].as_strided((2, 5), (2**31, 2)))[1].item() == 6


@pytest.mark.slow
def test_more_elements_than_an_int_counts_one_by_one(many):
    y = increment(many)
    assert y[-1].item() == 7
    assert y[2**31 - 1].item() == 1


@tg.op(kernel=tg.c("void grow(const T *x, int64_t k, T *out) { out[0] = *x; }"))
def grow(x: Float[Tensor, ""], k: int) -> Float[Tensor, "{k}"]: ...


def test_a_failing_call_of_libtorch():
    assert grow(torch.ones(()), 2)[0].item() == 1
    for _ in range(3):
        with pytest.raises(tg.KernelError, match="no memory for output 'out'") as caught:
            grow(torch.ones(()), 2**45)
        assert caught.value.operator == "grow"
    if torch.__version__ >= "2.13":  # older ones do not tell
        assert "can't allocate memory" in str(caught.value)
    assert grow(torch.ones(()), 3).shape == (3,)


@pytest.mark.slow
def test_other_threads_run_during_long_kernels():
    @tg.op(kernel=tg.c("#include <unistd.h>\nvoid doze(int64_t n, const T *x, T *out) { usleep(400000); *out = n; }"))
    def doze(x: Float[Tensor, "n"]) -> Float[Tensor, ""]: ...

    x = torch.ones(300_000)
    doze(x)
    thread = threading.Thread(target=doze, args=(x,))
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 5  # One or two where the kernel keeps Python's lock.


@pytest.mark.slow
def test_a_fork_after_a_call():
    x = torch.ones(8)
    assert increment(x).sum().item() == 16
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        good = False
        try:
            torch.set_num_threads(1)  # as a DataLoader's workers do
            good = increment(x).sum().item() == 16 and increment(torch.ones(100_000)).sum().item() == 200_000
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_a_file_is_edited_and_declared_again(tmp_path, own_cache):
    path = tmp_path / "kernel.c"

    def declare(value):
        path.write_text(f"T kernel(T x) {{ return {value} * x; }}")

        @tg.op(kernel=tg.c(path))
        def kernel(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

        return kernel

    x, old = torch.ones(3), []
    for i in range(200):
        kernel = declare(i % 5)
        assert kernel(x)[0].item() == i % 5
        old.append(kernel)
    for i in (0, 3, 100, 198):
        assert old[i](x)[0].item() == i % 5
    for i in range(10):  # past the number of times that Dynamo compiles one function again
        kernel = declare(100 + i)
        torch.compiler.reset()  # a cell that is run again is another function to Dynamo, unlike this loop's

        @torch.compile(backend="aot_eager", fullgraph=True)
        def call(x, kernel=kernel):
            return kernel(x) + 1

        assert call(x)[0].item() == 101 + i


@pytest.mark.slow
def test_arguments_of_elements_keep_their_places():
    @tg.op(
        kernel=tg.c("""
        T mixed(const double *list, int64_t list_length, T x, const char *mode, int64_t mode_length, T y) {
            return x + 10 * y + 100 * list[list_length - 1] + 1000 * (mode[0] == 'a');
        }
        """)
    )
    def mixed(
        list: list[float], x: Float[Tensor, "..."], mode: str, y: Float[Tensor, "..."]
    ) -> Float[Tensor, "..."]: ...

    x, y = torch.ones(2, 3), torch.full((3,), 2.0)
    assert mixed([5.0, 3.0], x, "a", y).unique().tolist() == [1321]
    assert mixed([3.0], x, "b", 2 * torch.ones(2, 3)).unique().tolist() == [321]


LAZY = {"conjugate": torch.conj, "negative": lambda z: z.conj().imag, "zero": lambda z: torch._efficientzerotensor(3)}


@pytest.mark.parametrize("make", LAZY.values(), ids=LAZY)
def test_lazy_views_are_seen(make):
    @tg.op(kernel=tg.c("void same(int64_t n, const T *z, T *out) { while (n--) out[n] = z[n]; }"))
    def same(z: Inexact[Tensor, "n"]) -> Inexact[Tensor, "n"]: ...

    z = make(torch.randn(3, dtype=torch.complex64))
    for _ in range(3):
        torch.testing.assert_close(same(z), z + 0)
        torch.testing.assert_close(same(torch.randn(3, dtype=z.dtype)).shape, z.shape)


CUBE = tg.c("T cube(T x) { return x * x * x; }  T cube_vjp_x(T grad, T x) { return grad * 3 * x * x; }")


@tg.op(kernel=CUBE)
def cube(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...


@cube.vjp("x", kernel=CUBE)
def _(grad, x): ...


@pytest.mark.slow
def test_what_was_recognised_is_not_run_for_fake_tensors():
    x = torch.randn(4, requires_grad=True)
    for _ in range(2):  # recognised
        cube(x.detach())
        cube(x).sum().backward()
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(cube(x.detach()), FakeTensor)
        out = cube(x)
        assert isinstance(out, FakeTensor)
        assert isinstance(torch.autograd.grad(out, x, torch.ones(4))[0], FakeTensor)
    plain = cube(x)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(torch.autograd.grad(plain, x, torch.ones(4))[0], FakeTensor)


def test_operators_are_profiled():
    x = torch.randn(4, requires_grad=True)
    cube(x).sum().backward()
    with torch.profiler.profile() as profile:
        cube(x).sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert any("cube" in name and "vjp" not in name for name in names)
    assert "cube.vjp[x]" in names


class Logged(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_modes_see_kernels_and_rules():
    x = torch.randn(4, requires_grad=True)
    cube(x).sum().backward()
    with Logged() as log:
        cube(x).sum().backward()
    assert sum("cube" in name for name in log.names) >= 2
