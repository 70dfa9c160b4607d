"""`save_library`: operators in a process that has never heard of torchgraft, and what is refused."""

import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
import torch
from jaxtyping import Complex, Float
from torch import Tensor

import torchgraft as tg

from . import operators

TWO_HELPERS = """
#include <vector>
struct Sum { T total = 0; void add(T x) { total += x; } };      // of another size in each dtype
inline T helper(T x) { static T calls = 0; return x + 0 * ++calls; }
int size_of = sizeof(T);
__attribute__((noinline)) inline int size_again() { return sizeof(Sum); } // its name does not tell the dtype
void bytes(int64_t n, const T *x, T *out) {
    std::vector<Sum> sums(n);
    for (int64_t i = 0; i < n; i++) { sums[i].add(helper(x[i])); out[i] = sums[i].total * size_of * size_again(); }
    if (n == 0) throw std::runtime_error("nothing");
}
"""


@tg.op(kernel=tg.cpp("#include <stdexcept>\n" + TWO_HELPERS))
def bytes(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...


@tg.op(
    kernel=tg.c("""
    void add(int64_t n, const T *const *xs, int64_t xs_length, const T *bias, T *out) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = bias ? bias[i] : 0;
            for (int64_t j = 0; j < xs_length; j++) out[i] += xs[j][i];
        }
    }
    """)
)
def add(xs: list[Float[Tensor, "n"]], bias: Float[Tensor, "n"] | None) -> Float[Tensor, "n"]: ...


def without_torchgraft(code, *libraries):
    """What a program prints that knows the operators by their libraries alone, and how it fails."""
    loads = "".join(f"torch.ops.load_library({str(path)!r})\n" for path in libraries)
    program = f"import sys, torch\n{loads}t = torch.ops.tests\n{textwrap.dedent(code)}\n"
    program += "assert 'torchgraft' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return result.stdout.split("\n")[:-1], result.stderr


UNFIT = {
    "t.bytes(torch.ones(2).half())": "argument 'x' has dtype 5, this kernel was built for 6",
    "t.bytes(torch.ones(0))": "RuntimeError('nothing",
    "t.bytes(torch.ones(()))": "argument 'x' has 0 axes, expected at least 1",
    "t.add([torch.ones(2), torch.ones(2).double()], None)": "argument 'xs' has dtype 7, this kernel was built for 6",
    "t.add([torch.ones(2), torch.ones(3)], None)": "argument 'xs': axis n is 3, expected 2",
    "t.add([], None)": "NotImplementedError('There were no tensor arguments",
    "t.add([torch.ones(2)], torch.ones(2).int())": "argument 'bias' has dtype 3",
}


NAME = operators.everything.torch_op.name().partition("::")[2]  # another one, where it was declared twice
ARGUMENTS = "torch.arange(4).double(), torch.ones(2).double(), torch.tensor([1, 2]), True, 3, 2.0, [1.0], {}, 'aa'"
NUMBERS = [f"t.{NAME}({ARGUMENTS.format(maybe)})" for maybe in ("5", "None")]

PARTS = {
    "dtypes": """
        for dtype in (torch.float32, torch.float64, torch.float32):
            print(t.bytes(torch.ones(2, 3, dtype=dtype)).tolist()[1])
        """,
    "what does not fit": f"""
        for call in ({", ".join(f"lambda: {call}" for call in UNFIT)}):
            try:
                print(call())
            except Exception as error:
                print(repr(error).replace(chr(10), " "))
        """,
    "what may be left out": """
        x = torch.ones(2)
        print(t.add([x, x], None).tolist(), t.add([x], x).tolist(), t.add([], x.double()).tolist())
        """,
    "numbers": f"""
        for made in ({", ".join(NUMBERS)}):
            print(made[0].tolist())
        """,
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    bytes.save_library(folder / "bytes.so")
    add.save_library(folder / "add.so")
    operators.everything.save_library(folder / "everything.so", dtypes=[torch.float64])
    return sorted(folder.glob("*.so"))


@pytest.fixture(scope="module")
def printed(libraries):
    """The lines that each part prints, of one program, since each would take two seconds to start."""
    code = "\n".join(f"print('# {name}')\n{textwrap.dedent(part)}" for name, part in PARTS.items())
    lines, said = without_torchgraft(code, *libraries)
    assert len(lines) > len(PARTS), said
    groups = "\n".join(lines).split("# ")[1:]
    return {name: lines for name, *lines in (group.rstrip("\n").split("\n") for group in groups)}


@pytest.mark.slow
def test_dtypes_are_told_from_each_other(printed):
    assert printed["dtypes"] == ["[16.0, 16.0, 16.0]", "[64.0, 64.0, 64.0]", "[16.0, 16.0, 16.0]"]


@pytest.mark.slow
def test_what_does_not_fit_is_an_error(printed):
    for line, (call, message) in zip(printed["what does not fit"], UNFIT.items(), strict=True):
        assert message in line, (call, line)


@pytest.mark.slow
def test_what_may_be_left_out(printed):
    assert printed["what may be left out"] == ["[2.0, 2.0] [2.0, 2.0] [1.0, 1.0]"]


@pytest.mark.slow
def test_numbers_and_strings(printed):
    scope = {"torch": torch, "t": SimpleNamespace(**{NAME: operators.everything})}
    assert printed["numbers"] == [str(eval(call, scope)[0].tolist()) for call in NUMBERS]


@pytest.mark.slow
def test_a_second_definition_is_told(libraries, tmp_path):
    bytes.save_library(tmp_path / "again.so", dtypes=[torch.float32])
    printed, said = without_torchgraft(
        f"""
        import ctypes
        for path in {[str(libraries[1]), str(tmp_path / "again.so")]!r}:
            problem = ctypes.CDLL(path).torchgraft_problem
            problem.restype = ctypes.c_char_p
            print(problem())
        """,
        *libraries,
    )
    assert printed == ["None", "b'torch does not take tests::bytes; is it defined already?'"]
    assert "torchgraft: bytes: torch does not take tests::bytes" in said


@pytest.mark.slow
def test_a_process_without_torch_is_told(libraries):
    program = f"import ctypes; ctypes.CDLL({str(libraries[0])!r})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "torchgraft: add: there is no libtorch_cpu.so, which torch 2.11 or newer has loaded" in result.stderr


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_needs_python_is_refused(tmp_path):
    @tg.op
    def torch_code(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x

    @tg.op(kernel=tg.c("void turn(int64_t n, const T *x, double _Complex by, T *out) {}"))
    def turn(x: Complex[Tensor, "n"], by: complex) -> Complex[Tensor, "n"]: ...

    whole = "const T_x *x, int64_t x_dim, const int64_t *x_sizes, const int64_t *x_strides"

    @tg.op(kernel=tg.c(f"void shaped({whole}, {whole.replace('x', 'out').replace('const T', 'T')}) {{}}"))
    def shaped(x: Tensor) -> Tensor: ...

    for op, message in [
        (torch_code, "has the operator's torch code in it"),
        (turn, "argument 'by': Python converts the argument"),
        (shaped, "argument 'out': Python gives the output's shape"),
    ]:
        with pytest.raises(tg.UnsupportedError, match=message):
            op.save_library(tmp_path / "refused.so")
    with pytest.raises(tg.UnsupportedError, match="Python rounds halves"):
        add.save_library(tmp_path / "refused.so", dtypes=[torch.bfloat16])
    with pytest.raises(tg.BuildError, match="the annotations admit none of the dtypes"):
        add.save_library(tmp_path / "refused.so", dtypes=[torch.int64])
    assert not (tmp_path / "refused.so").exists()


def test_tools_that_are_missing_are_named(tmp_path, monkeypatch):
    found = {name: f"{name}-is-here" for name in ("cc", "c++")}
    monkeypatch.setattr("torchgraft._build.standalone.shutil.which", found.get)
    with pytest.raises(tg.BuildError, match="there is no objcopy"):
        add.save_library(tmp_path / "add.so")


def test_wrong_c_is_told_as_ever(tmp_path):
    @tg.op(kernel=tg.c("void wrong(int64_t n, const T *x, T *out) { *out = nowhere; }"))
    def wrong(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    with pytest.raises(tg.BuildError, match=r"(?s)'wrong': the compiler refused the kernel.*nowhere"):
        wrong.save_library(tmp_path / "wrong.so")
