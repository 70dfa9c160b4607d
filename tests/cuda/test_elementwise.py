"""Elementwise operators in C on what stands in for CUDA: the text, the frame and the launch, against the CPU."""

import contextlib
import inspect
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._build.cuda import launcher, text
from torchgraft._check.children import run_in_child
from torchgraft._check.ended import Ended

from ..default import by_default
from .draws import TOLERANCES, arguments, compare, gradients, listed, shape_of, tensor
from .operators import FLOATS, HALVES, NAMES, make
from .standin import emulated, writes

ON_CPU = make()

# Each row compiles for what stands in for CUDA; float64 and float16 take the same way as these.
QUICK = (torch.float32, torch.bfloat16)
PRECISIONS = by_default(FLOATS, QUICK.__contains__, str)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("filled", [0, launcher.FILLED], ids=["in groups", "one by one"])
def test_it_gives_what_the_cpu_gives(name, dtype, filled, monkeypatch):
    """Values, over random shapes, layouts and numbers; each element of each output is written once, and no other."""
    monkeypatch.setattr(launcher, "FILLED", filled)
    chance = random.Random(f"{name} {dtype}")
    cases = [arguments(chance, name, dtype) for _ in range(60)]
    expected = [ON_CPU[name](*args, **options) for args, options in cases]
    with emulated() as driver:
        op = make()[name]
        writes()
        for (args, options), wanted in zip(cases, expected, strict=True):
            before = driver.launches
            made = op(*args, **options)
            compare(made, wanted, dtype)
            count, most = writes()
            launched = driver.launches - before  # A call that is new runs twice, to see whether it draws.
            elements = sum(out.numel() for out in listed(made))
            assert (count, most) == ((elements * launched, 1) if elements else (0, 0)), args
    assert driver.guards == 0


def test_groups_stay_within_rows():
    with pytest.MonkeyPatch.context() as patch, emulated():
        patch.setattr(launcher, "FILLED", 0)
        x = torch.rand(3, 9)[:, :5]
        torch.testing.assert_close(make()["root"](x), x.sqrt())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_integers(dtype):
    chance = random.Random(str(dtype))
    with emulated():
        op = make()["shifted"]
        for _ in range(20):
            x = tensor(chance, shape_of(chance), torch.float64).round().abs().to(dtype)
            assert torch.equal(op(x, 3), x + 3)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", ["soft", "noisy"])
def test_gradients(name, dtype):
    """Partial derivatives times the gradient, in one kernel, summed over axes that broadcast."""
    chance = random.Random(f"{name} {dtype}")

    cases = [arguments(chance, name, dtype) for _ in range(30)]
    expected = [gradients(ON_CPU[name], *case) for case in cases]
    with emulated() as driver:
        op = make()[name]
        for case, wanted in zip(cases, expected, strict=True):
            for one, other in zip(gradients(op, *case), wanted, strict=True):
                tolerance = TOLERANCES[dtype] * (20 if dtype in HALVES else 5)
                torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
        assert driver.launches > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["soft", "noisy"])
def test_the_checker_proves_it(name):
    with emulated() as driver:
        report = tg.check(make()[name])
        assert driver.launches > 100
    assert report.ok, str(report)


def test_transforms():
    with emulated():
        soft = make()["soft"]
        x, y = torch.randn(2, 3, 4, dtype=torch.float64)
        expected = torch.nn.functional.softplus(x) * y
        torch.testing.assert_close(torch.vmap(soft)(x, y), expected)
        torch.testing.assert_close(torch.vmap(soft, (1, 0), 1)(x, y.T.clone()), expected)
        slope = torch.func.grad(lambda x: soft(x, y).sum())(x)
        torch.testing.assert_close(slope, torch.sigmoid(x) * y)
        torch.testing.assert_close(torch.func.jvp(soft, (x, y), (x, y))[1], slope * x + expected)
        compiled = torch.compile(lambda x, y: soft(x, y) * 2, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, y), 2 * expected)


# -- the launch -------------------------------------------------------------------------------------------------------


def test_the_stream_and_the_device_are_torchs():
    with emulated() as driver:
        op = make()["root"]
        for device in (0, 3):
            driver.device_of_tensors = device
            for _ in range(2):
                op(torch.ones(1000 + device))  # Tensors of one device look alike.
                assert (driver.device, driver.stream) == (device, 0x7F0123456780 + device)
                assert (driver.blocks, driver.threads, driver.n) == (4, 256, 1000 + device)
                assert driver.context == device + 1
                driver.context = None
        assert driver.guards == 0


def test_a_tensor_that_is_not_on_the_device():
    with emulated() as driver:
        (native, *_), x = make()["polar"]._record.natives(), torch.ones(3)
        driver.on_host = 1  # of the first tensor; what Python looks at is on the CPU anyway
        with pytest.raises(tg.KernelError, match="argument 'y' is on another device"):
            native.run([x, x], [0, 0], 0, [((3,), torch.float32)] * 2, {})
        assert not driver.launches


def test_nothing_is_launched_for_nothing():
    with emulated() as driver:
        op = make()["root"]
        assert op(torch.ones(3, 0)).shape == (3, 0)
        assert driver.launches == driver.loads == 0


def test_a_kernel_is_loaded_once():
    with emulated() as driver:
        op = make()["root"]
        for _ in range(3):
            op(torch.ones(4, 2))
        assert (driver.loads, driver.entry) == (1, b"tg_flat32")
        op(torch.ones(4, 4)[:, ::2])
        assert (driver.loads, driver.entry) == (2, b"tg_rows32")


def _shift(op, chance, size=5):
    """Call with tensors that look alike, other numbers each time; results and what they should be."""
    made = []
    for _ in range(50):
        x, by = torch.full((size,), chance.random()), chance.randrange(9)
        down, factor = chance.random() < 0.5, chance.choice([None, 0.5, 3.0])
        expected = (x - by if down else x + by) * (1 if factor is None else factor)
        made.append((op(x, by, down, factor), expected))
    return made


def test_later_calls_bring_their_own():
    with emulated() as driver:
        op = make()["shifted"]
        for one, other in _shift(op, random.Random(0)):
            torch.testing.assert_close(one, other)
        with pytest.raises(tg.ArgumentError, match="by"):
            op(torch.ones(5), 2**63)
    assert driver.guards == 0


def test_it_is_written_where_it_is():
    """Its value before, the other one and the result are the tensors of the frame, behind two words of a number."""
    y, x, after = (3 + text.AXES + 2 + i * (1 + text.AXES) for i in range(3))
    with emulated() as driver:
        op, written, other = make()["scale_"], torch.ones(4), torch.arange(4.0)
        op(written, other)  # The first call says how they look.
        for factor in (0.5, 3.0):
            expected = factor * written + other
            op(written, other, factor)
            assert torch.equal(written, expected)
            assert driver.frame[y] == driver.frame[after] == written.data_ptr()
            assert driver.frame[x] == other.data_ptr()
        long = torch.arange(5.0)
        for _ in range(2):  # They look alike, and have memory in common.
            expected = torch.cat([long[:1], 2 * long[1:] + long[:-1]])
            op(long[1:], long[:-1])
            assert torch.equal(long, expected)
            assert driver.frame[after] != driver.frame[y]
        rows = torch.ones(4, 2)
        op(rows[:, 0], other)
        assert torch.equal(rows, torch.stack([2 + other, torch.ones(4)], dim=1))


def test_groups_are_written_where_they_are(monkeypatch):
    monkeypatch.setattr(launcher, "FILLED", 0)
    test_it_is_written_where_it_is()


def test_threads_share_it():
    with emulated(), ThreadPoolExecutor(4) as threads:
        op = make()["shifted"]
        for made in threads.map(lambda seed: _shift(op, random.Random(seed), 10_000), range(4)):
            for one, other in made:
                torch.testing.assert_close(one, other)


def test_more_elements_than_32_bits_count():
    """By the argument alone: nothing is computed, and no page of the output is touched."""
    with emulated() as driver:
        op = make()["shifted"]
        op(torch.ones(2, dtype=torch.uint8).expand(2, 2))
        driver.dry = 1
        op(torch.ones(1, dtype=torch.uint8).expand(2**31 - 1))
        assert driver.entry == b"tg_rows32"
        op(torch.ones(1, dtype=torch.uint8).expand(2**31))
        assert (driver.entry, driver.n) == (b"tg_rows64", 2**31)
        assert driver.blocks * driver.threads < 2**31


def test_a_kernel_that_is_not_loaded_is_not_captured():
    with emulated() as driver:
        op = make()["root"]
        driver.capturing = 1
        with pytest.raises(tg.KernelError, match="call it once before") as caught:
            op(torch.ones(3))
        assert caught.value.operator == "root"
        driver.capturing = 0
        op(torch.ones(3))
        driver.capturing = 1
        assert torch.equal(op(torch.ones(3)), torch.ones(3))


def test_what_the_driver_says_is_told():
    with emulated() as driver:
        op = make()["root"]
        driver.refuses = 1
        with pytest.raises(tg.KernelError, match=r"grid of \(1, 1, 1\), .*: the stand-in says so") as caught:
            op(torch.ones(3))
        assert caught.value.operator == "root"


def test_more_axes_than_a_kernel_walks_along():
    x = torch.ones([2] * 18)[(slice(None), 0) * 9]
    wide = torch.ones([3] * 9)[(slice(0, 2),) * 9]
    assert x.shape == wide.shape == (2,) * 9
    with emulated():
        with pytest.raises(tg.KernelError, match="9 axes, a kernel along 8"):
            make()["root"](wide)
        assert torch.equal(make()["root"](wide.contiguous()), torch.ones(2, 2, 2, 2, 2, 2, 2, 2, 2))


# -- faults of the generator ------------------------------------------------------------------------------------------

FAULTS = {
    "one stride for all tensors": ("_STEP", "tg_f.s_{0}", "tg_f.s_x"),
    "the last element is left out": ("_ELEMENTS", "tg_i < tg_n;", "tg_i + 1 < tg_n;"),
    "axes in the other order": ("_WALK", "tg_d = tg_f.dim; tg_d-- > 0;", "tg_d = 0; tg_d < tg_f.dim; tg_d++"),
    "the remainder is forgotten": ("_WALK", "tg_rest % (tg_index)tg_f.size[tg_d]", "tg_rest"),
    "the grid's stride is forgotten": ("_ELEMENTS", "tg_i += tg_step", "tg_i += 1"),
    "a group runs past the end": ("_ELEMENTS", "tg_n - tg_i < tg_per ? tg_n - tg_i : tg_per", "tg_per"),
    "neighbours that lie together": ("_IN_ROWS", "tg_f.s_{0}[tg_f.dim - 1]", "sizeof({1})"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_generator_is_seen(fault, monkeypatch):
    template, old, new = FAULTS[fault]
    assert old in getattr(text, template)
    monkeypatch.setattr(text, template, getattr(text, template).replace(old, new))
    with pytest.raises((AssertionError, Ended)):  # Some write where there is no memory.
        run_in_child(lambda: test_it_gives_what_the_cpu_gives("soft", torch.float32, 0, monkeypatch))


LAUNCHER_FAULTS = {
    "another stream": ("stream, parameters", "NULL, parameters", test_the_stream_and_the_device_are_torchs),
    "another device": ("tg_enter(call, &guard);\n    const", "const", test_the_stream_and_the_device_are_torchs),
    "another, when ready": ("tg_enter(call, &guard);\n    for", "for", test_the_stream_and_the_device_are_torchs),
    "memory of the first call": ("if (there) *data = ", "if (0) *data = ", test_later_calls_bring_their_own),
    "a number of the first call": ("*number++ = there ?", "(void)*number++; there ?", test_later_calls_bring_their_own),
    "results of the first": ("result[i * TG_OF_TENSOR] =", "(void)result, (void)", test_later_calls_bring_their_own),
    "written elsewhere": ("if (in_place && after", "if (0 && after", test_it_is_written_where_it_is),
    "memory in common": ("if (in_place && tg_overlaps", "if (0 && tg_overlaps", test_it_is_written_where_it_is),
    "a shared frame": ("tg_launch launch;\n    tg_value", "static tg_launch launch; tg_value", test_threads_share_it),
    "no context": ("    if (context) return;", "    return;", test_the_stream_and_the_device_are_torchs),
    "a launch for nothing": ("if (samples == 0 || ", "if (", test_nothing_is_launched_for_nothing),
    "loaded at each call": ("    if (*function) return *function;\n", "", test_a_kernel_is_loaded_once),
    "a group across rows": ("return flat || walk", "return 1 || walk", test_groups_stay_within_rows),
    "an index of 32 bits": ("samples > INT32_MAX ? 2 : 0", "0", test_more_elements_than_32_bits_count),
    "loaded in a capture": ("    if (capturing)\n", "    if (0)\n", test_a_kernel_that_is_not_loaded_is_not_captured),
    "an error that is lost": ("if (!status) return;\n    char", "return;\n    char", test_what_the_driver_says_is_told),
}  # fmt: skip


@pytest.mark.parametrize("fault", LAUNCHER_FAULTS)
def test_a_fault_of_the_launcher_is_seen(fault, monkeypatch, tmp_path):
    old, new, test = LAUNCHER_FAULTS[fault]
    source = launcher._SOURCE.read_text()
    assert source.count(old) == 1
    (tmp_path / "launcher.c").write_text(source.replace(old, new))
    monkeypatch.setattr(launcher, "_SOURCE", tmp_path / "launcher.c")

    def run():
        launcher.loaded.cache_clear()
        with pytest.raises((AssertionError, pytest.fail.Exception, tg.KernelError)):
            [test() for _ in range(5)]  # Threads that share a frame need not meet each time.

    with contextlib.suppress(Ended):  # Some write where there is no memory.
        run_in_child(run)


def test_one_operator_serves_the_cpu_and_cuda():
    with emulated() as driver:
        op = make()["root"]
        assert torch.equal(op(torch.ones(3)), torch.ones(3))
        assert driver.launches
        driver.launches = 0
    assert torch.equal(op(torch.full((4,), 4.0)), torch.full((4,), 2.0))
    assert not driver.launches


def test_more_tensors_than_a_frame_holds():
    names = [f"x{i}" for i in range(40)]

    def many(*values): ...

    many.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    many.__annotations__ = dict.fromkeys([*names, "return"], Float[Tensor, "..."])
    source = tg.c(f"T many({', '.join(f'T {name}' for name in names)}) {{ return {' + '.join(names)}; }}")
    op = tg.op(kernel=source)(many)
    assert "cuda" not in str(op).splitlines()[2]
    with emulated(), pytest.raises(tg.DeviceError, match="more than the frame of a kernel holds"):
        op(*[torch.ones(3)] * 40)


@pytest.mark.slow
def test_more_arguments_than_torch_passes():
    parameters = [inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Float[Tensor, "..."])]
    parameters += [
        inspect.Parameter(f"a{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=float) for i in range(63)
    ]

    def sum_(*values): ...

    sum_.__signature__ = inspect.Signature(parameters)
    sum_.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": Float[Tensor, "..."]}
    numbers = [p.name for p in parameters[1:]]
    source = tg.c(f"T sum_(T x, {', '.join(f'double {n}' for n in numbers)}) {{ return x + {' + '.join(numbers)}; }}")
    op = tg.op(kernel=source)(sum_)
    assert op(torch.zeros(2), *[1.0] * 63).tolist() == [63, 63]
    with emulated(), pytest.raises(tg.DeviceError, match="more arguments than torch passes"):
        op(torch.zeros(3), *[1.0] * 63)
