"""`tg.debug`: what it finds, that the session lives on, and that right kernels are as right as without."""

import os
import subprocess
import sys

import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor

import torchgraft as tg
from torchgraft._build import debug

from ..default import by_default
from . import operators as ops
from . import test_arguments, test_cpp, test_rules, test_whole

MODES = [pytest.param(None, id="sanitizers"), pytest.param(False, id="fences")]


def declare(body, language="c", result="void"):
    source = f"{result} f(int64_t n, const T *x, T *out) {{\n{body}\n}}"

    @tg.op(kernel=tg.c(source) if language == "c" else tg.cpp(source))
    def f(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...

    return f


def found(body, sanitize, **options):
    """The error that a wrong kernel ends with; the same kernel runs without a word outside of the mode."""
    f = declare(body, **options)
    with tg.debug(sanitize=sanitize), pytest.raises(tg.KernelError) as caught:
        f(torch.ones(2, 7))
    assert caught.value.operator == "f"
    return caught.value


COPY = "for (int64_t i = 0; i < n; i++) out[i] = x[i];"


def test_one_element_with_a_stride():
    """It counts as contiguous, whatever its stride is."""
    with tg.debug():
        assert declare(COPY)(torch.ones(2)[::2]).tolist() == [1]


# -- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_a_write_past_the_end(sanitize):
    error = found("for (int64_t i = 0;\ni <= n; i++)\nout[i] = x[0];", sanitize)
    assert error.argument == "out"
    if sanitize is None:
        assert "heap-buffer-overflow: WRITE of size 4, 0 bytes after" in error.got
        assert error.got.endswith("'out', at sample [0], in f (source of f:4)")
    else:
        assert error.problem == "the function wrote past the memory of 'out'"


@pytest.mark.slow
def test_a_write_before_the_beginning():
    assert found(COPY + " out[-1] = 0;", False).problem == "the function wrote before the memory of 'out'"
    assert "out of bounds: WRITE of size 4, 4 bytes before 'out'" in found(COPY + " out[-1] = 0;", None).got


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_a_step_into_the_next_sample(sanitize):
    """Which is memory of the same tensor, and seen only because samples lie apart."""
    error = found("for (int64_t i = 0; i < n; i++) out[i] = x[i + 1];", sanitize)
    if sanitize is None:
        assert error.argument == "x"
        assert "READ of size 4" in error.got
    else:
        assert "not the function's own" in error.problem


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_elements_that_are_never_written(sanitize):
    error = found("for (int64_t i = 0; i < n; i++) if (i != 3) out[i] = x[i];", sanitize)
    assert error.problem == "the function never wrote out[0, 3]"
    assert error.got == "2 of 14 elements were not"


@pytest.mark.slow
def test_a_kernel_that_writes_nan_is_not_accused():
    f = declare('for (int64_t i = 0; i < n; i++) out[i] = __builtin_nan("");')
    with tg.debug():
        assert f(torch.ones(2, 3)).isnan().all()


@pytest.mark.parametrize("sanitize", MODES)
def test_a_sum_that_does_not_begin_at_zero(sanitize):
    error = found("for (int64_t i = 0; i < n; i++) out[i] += x[i];", sanitize)
    assert "depends on memory that was not written" in error.problem
    assert "wrong: *out += x[i];" in error.hint


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_a_workspace_that_is_read_first(sanitize):
    @tg.op(kernel=tg.c("void f(int64_t n, const T *x, T *work, T *out) { while (n--) out[n] = x[n] + work[n]; }"))
    def f(x: Float[Tensor, "n"], work: Float[tg.Workspace, "n"]) -> Float[Tensor, "n"]: ...

    with tg.debug(sanitize=sanitize), pytest.raises(tg.KernelError, match="depends on memory"):
        f(torch.ones(3))


@pytest.mark.parametrize("sanitize", MODES)
def test_an_input_that_is_changed(sanitize):
    error = found(COPY + " ((T *)x)[0] = 5;", sanitize)
    assert (error.problem, error.argument) == ("the function wrote into its input", "x")


@pytest.mark.slow
def test_undefined_behaviour():
    error = found("int k = 2147483647;\nfor (int64_t i = 0; i < n; i++) {\nk += 1;\nout[i] = k; }", None)
    assert error.got.startswith("signed integer overflow: 2147483647 + 1")
    assert "source of f:4:" in error.got


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_a_crash(sanitize):
    error = found("__builtin_trap();", sanitize)
    assert error.problem in ("the function crashed", "the function stepped out of its memory")
    if sanitize is False:
        assert error.got in ("SIGILL", "SIGTRAP")


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_a_loop_that_does_not_end(sanitize):
    f = declare('for (;;) __asm__ volatile("");')
    with tg.debug(timeout=0.7, sanitize=sanitize), pytest.raises(tg.KernelError, match="did not return") as caught:
        f(torch.ones(1))
    assert caught.value.expected == "at most 0.7 s"


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_what_is_thrown_and_returned(sanitize):
    assert "the function returned 5" in str(found("return 5;", sanitize, result="int"))
    thrown = declare("throw std::bad_alloc();", language="c++")
    with tg.debug(sanitize=sanitize), pytest.raises(tg.KernelError, match="std::bad_alloc"):
        thrown(torch.ones(2))


@pytest.mark.slow
def test_a_file_is_named_with_its_line(tmp_path):
    path = tmp_path / "with space.c"
    path.write_text("void f(int64_t n, const T *x, T *out) {\n    out[n] = x[0];\n}\n")

    @tg.op(kernel=tg.c(path))
    def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    with tg.debug(), pytest.raises(tg.KernelError) as caught:
        f(torch.ones(2))
    assert f"in f ({path}:2" in caught.value.got


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_the_sample_is_named(sanitize):
    f = declare(COPY + " if (x[0] > 1) out[n + 2] = 0;")
    x = torch.ones(2, 3, 7)
    x[1, 2] = 5
    with tg.debug(sanitize=sanitize), pytest.raises(tg.KernelError) as caught:
        f(x)
    assert "8 bytes after 'out', at sample [1, 2]" in caught.value.got


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
@pytest.mark.parametrize("n", [7, 1000])
def test_steps_of_a_sample(sanitize, n):
    """They would end in another sample, were there no gaps."""

    @tg.op(
        kernel=tg.c("""
    void f(int64_t n, const T *x, int64_t step, T *out) {
        for (int64_t i = 0; i < n; i++) out[i] = x[i];
        if (x[0] > 0) out[0] = x[step];
    }
    """)
    )
    def f(x: Float[Tensor, "*batch n"], step: int) -> Float[Tensor, "*batch n"]: ...

    x = torch.zeros(8, n)
    x[4] = 1
    with tg.debug(sanitize=sanitize):
        for step in (n, n + n // 3, 2 * n - 1, -1, -n // 2, -n):
            with pytest.raises(tg.KernelError) as caught:
                f(x, step)
            assert caught.value.argument == ("x" if sanitize is None else "out")


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_a_copy_that_is_too_long(sanitize):
    """The sanitizer sees it in its own `memcpy`; the fence behind the input differs from that behind the output."""
    error = found("memcpy(out, x,\n(n + 1) * sizeof(T));", sanitize)
    if sanitize is None:
        assert (
            error.got == "heap-buffer-overflow: READ of size 32, 0 bytes after 'x', at sample [0], in f (source of f:2)"
        )
    else:
        assert error.problem == "the function wrote past the memory of 'out'"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "where"), [("stack", ""), ("global", "static ")])
def test_a_copy_into_memory_of_the_functions_own(kind, where):
    """It is not on the heap, where AddressSanitizer says what lies at an address."""
    error = found(f"{where}T own[4]; memcpy(own, x, n * sizeof(T)); {COPY}", None)
    assert f"{kind}-buffer-overflow: WRITE of size 28" in error.got


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_an_element_has_memory_of_its_own(sanitize):
    @tg.op(kernel=tg.c("void f(T x, T *a, T *b) { *a = b[0] = b[1] = x; }"))
    def f(x: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]: ...

    with tg.debug(sanitize=sanitize), pytest.raises(tg.KernelError) as caught:
        f(torch.ones(3))
    assert "0 bytes after 'out1'" in caught.value.got


@pytest.mark.slow
def test_functions_of_cpp_are_named():
    assert found("out[n] = 0;", None, language="c++").got.endswith(", in f (source of f:2)")


def test_a_workspace_is_not_taken_for_an_output():
    @tg.op(kernel=tg.c("void f(int64_t n, const T *x, T *work, T *out) { while (n--) out[n] = work[n]; }"))
    def f(x: Float[Tensor, "n"], work: Float[tg.Workspace, "n"]) -> Float[Tensor, "n"]: ...

    with tg.debug(), pytest.raises(tg.KernelError, match="depends on memory"):
        f(torch.ones(3))


@pytest.mark.slow
def test_memory_of_its_own_that_is_read_first():
    error = found(COPY + " T *volatile p = malloc(n * sizeof(T)); out[0] = p[1]; free(p);", None)
    assert error.problem.startswith("out[0, 0] depends on memory that was not written")


def test_a_leak():
    error = found(COPY + "\nvolatile char *lost = malloc(100);\nlost[0] = 1;", None)
    assert error.problem == "the function does not free its memory"
    assert error.got == "200 bytes are lost, in f (source of f:3)"  # 100 in each sample


@pytest.mark.slow
def test_memory_that_a_static_variable_keeps_is_no_leak():
    f = declare("static T *kept; if (!kept) kept = malloc(8); kept[0] = 1;" + COPY)
    with tg.debug():
        assert torch.equal(f(torch.ones(2, 3)), torch.ones(2, 3))


@pytest.mark.slow
def test_memory_that_is_freed_twice():
    error = found(COPY + " void *volatile p = malloc(4); free(p); free(p);", None)
    assert error.problem == "the function frees what it may not free"


@pytest.mark.slow
def test_samples_are_aligned_as_they_are():
    """The first sample of a tensor is aligned to 64 bytes, and the second is where the first ends."""
    vectors = "typedef float v __attribute__((vector_size(32))); *(v *)out = *(const v *)x;"
    f = declare(vectors + " out[n - 1] = x[n - 1];")
    with tg.debug():
        assert torch.equal(f(torch.ones(3, 8)), torch.ones(3, 8))
        with pytest.raises(tg.KernelError, match="misaligned address"):
            f(torch.ones(3, 9))


def test_a_number_that_an_integer_does_not_hold():
    assert "outside the range" in found(COPY + " out[0] = (int64_t)(x[0] * 1e30);", None).got


@pytest.mark.parametrize("sanitize", MODES)
@pytest.mark.parametrize("status", [0, 3])
def test_the_end_of_the_program(sanitize, status):
    error = found(f"exit({status});", sanitize)
    assert (error.problem, error.got) == ("the function ended the program", f"exit status {status}")


@pytest.mark.slow
@pytest.mark.parametrize("sanitize", MODES)
def test_last_words_are_told(sanitize):
    error = found('fputs("no such filter\\n", stderr); abort();', sanitize)
    assert error.problem == "the function crashed"
    assert "ABRT" in error.got
    assert error.got.endswith("; no such filter")


@pytest.mark.slow
def test_a_text_of_several_lines():
    text = 'struct E : std::exception { const char *what() const noexcept { return "a\\nb"; } };'
    f = declare(text + " throw E();", "c++")
    with tg.debug(), pytest.raises(tg.KernelError) as caught:
        f(torch.ones(2))
    assert caught.value.problem == "a\nb"


@pytest.mark.slow
def test_what_is_printed_is_shown_once(capsys):
    f = declare(COPY + ' printf("%d\\n", (int)n); fputs("warned\\n", stderr);')
    with tg.debug():
        f(torch.ones(3))
    assert capsys.readouterr() == ("3\n", "warned\n")


@pytest.mark.parametrize("sanitize", MODES)
def test_chance_is_no_fault(sanitize):
    f = declare('FILE *r = fopen("/dev/urandom", "rb"); fread(out, sizeof(T), n, r) ? fclose(r) : 0;')
    with tg.debug(sanitize=sanitize), pytest.warns(tg.TorchgraftWarning, match="out is another one in every run"):
        f(torch.ones(16))


def test_the_order_of_parameters_is_checked():
    @tg.op(kernel=tg.c("void f(int64_t k, int64_t n, const T *x, T *out) { for (k *= n; k--;) out[k] = x[k]; }"))
    def f(x: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]: ...

    with tg.debug(), pytest.raises(tg.BuildError, match="takes something else"):
        f(torch.ones(2, 3))


@pytest.mark.slow
def test_included_files_are_looked_at(tmp_path):
    source = """
    #include "end.h"
    void f(int64_t n, const T *x, T *out) { n += END; while (n--) out[n] = *x; }
    """

    def declare():
        @tg.op(kernel=tg.c(source, include=[tmp_path]))
        def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

        return f

    with tg.debug():
        (tmp_path / "end.h").write_text("#define END 1\n")
        with pytest.raises(tg.KernelError):
            declare()(torch.ones(3))
        (tmp_path / "end.h").write_text("#define END 0\n")
        assert torch.equal(declare()(torch.ones(3)), torch.ones(3))


@pytest.mark.slow
def test_the_cache_may_be_emptied(own_cache):
    f = declare(COPY)
    with tg.debug():
        f(torch.ones(3))
        tg._build.cache.clear()
        assert torch.equal(f(torch.ones(3)), torch.ones(3))


@pytest.mark.slow
def test_rules_are_looked_at_too():
    source = tg.c("""
    void g(int64_t n, const T *x, T *out) { while (n--) out[n] = x[n]; }
    void g_vjp_x(int64_t n, const T *grad, T *grad_x) {
        for (int64_t i = 0; i <= n; i++) grad_x[i] = grad[0];
    }
    """)

    @tg.op(kernel=source)
    def g(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @g.vjp("x", kernel=source)
    def _(grad): ...

    x = torch.ones(3, requires_grad=True)
    with tg.debug(), pytest.raises(tg.RuleError) as caught:
        g(x).sum().backward()
    assert (caught.value.operator, caught.value.argument) == ("g.vjp[x]", "grad_x")


# -- the mode --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_takes_effect_at_once_and_ends():
    f = declare("for (int64_t i = 0; i < n; i++) out[i] = x[i + 1];")  # wrong, but harmless
    x = torch.zeros(64)
    for _ in range(3):
        f(x[:8])  # recognised
    with tg.debug():
        for _ in range(2):
            with pytest.raises(tg.KernelError):
                f(x[:8])
        with tg.debug(sanitize=False), pytest.raises(tg.KernelError, match="not the function's own"):
            f(x[:8])
        with pytest.raises(tg.KernelError, match="stepped out"):
            f(x[:8])
    f(x[:8])
    assert debug.mode() is None


@pytest.mark.slow
def test_errors_of_remembered_calls_keep_their_fields():
    f, g = declare(COPY + " if (x[0] < 0) out[n] = 0;"), squared()
    x = torch.ones(3, requires_grad=True)
    with tg.debug():
        f(torch.ones(3)), torch.autograd.grad(g(x).sum(), x)
        for _ in range(2):
            with pytest.raises(tg.KernelError) as caught:
                f(-torch.ones(3))
            assert (caught.value.argument, caught.value.problem) == ("out", "the function stepped out of its memory")
            with pytest.raises(tg.RuleError) as caught:
                g(x).sum().neg().backward()
            assert (caught.value.operator, caught.value.argument) == ("g.vjp[x]", "grad_x")


def squared():
    """Whose rule is wrong for a negative gradient."""
    source = tg.c("""
    void g(int64_t n, const T *x, T *out) { while (n--) out[n] = x[n] * x[n]; }
    void g_vjp_x(int64_t n, const T *grad, const T *x, T *grad_x) {
        for (int64_t i = 0; i < n + (grad[0] < 0); i++) grad_x[i] = 2 * grad[0] * x[0];
    }
    """)

    @tg.op(kernel=source)
    def g(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @g.vjp("x", kernel=source)
    def _(grad, x): ...

    return g


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_backward_of_what_was_computed_before(compiled):
    """And the other way round."""
    g = squared()
    f = torch.compile(g, fullgraph=True) if compiled else g
    x = torch.ones(64)[:3].requires_grad_()
    torch.autograd.grad(f(x).sum(), x)
    before = f(x).sum()
    with tg.debug():
        with pytest.raises(tg.RuleError, match="stepped out"):
            before.neg().backward()
        within = f(x).sum()
    assert torch.equal(torch.autograd.grad(within, x)[0], 2 * torch.ones(3))


@pytest.mark.slow
def test_compiled_code_is_looked_at():
    f = declare("out[n] = x[0];")
    compiled = torch.compile(f, fullgraph=True)
    with tg.debug(), pytest.raises(tg.KernelError, match="stepped out"):
        compiled(torch.ones(4))


@pytest.mark.slow
def test_the_environment_switches_it_on():
    program = """
import torch, torchgraft as tg
from jaxtyping import Float
from torch import Tensor

@tg.op(kernel=tg.c("void f(int64_t n, const T *x, T *out) { out[n] = x[0]; }"))
def f(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

try:
    f(torch.ones(3))
except tg.KernelError as error:
    print(error.problem)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TORCHGRAFT_DEBUG": "1"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert run.stdout == "the function stepped out of its memory\n"


def test_a_compiler_without_sanitizers(tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-fsanitize*) echo "no libasan" >&2; exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert found("out[n] = 0;", None).problem == "the function wrote past the memory of 'out'"
    with tg.debug(sanitize=True), pytest.raises(tg.BuildError, match="has no sanitizers") as caught:
        declare(COPY)(torch.ones(2))
    assert "sanitize=False" in caught.value.hint


# -- right kernels -----------------------------------------------------------------------------------------------------


def double(*shape):
    return torch.rand(*shape, dtype=torch.float64) + 0.5


CALLS = {
    "batch": lambda: ops.correlate2d(double(4, 2, 5, 6), double(2, 3)),
    "no batch": lambda: ops.correlate2d(double(5, 6), double(2, 3)),
    "strides": lambda: ops.correlate2d(double(6, 5).T.expand(3, 5, 6), double(3, 2).T),
    "loop": lambda: ops.correlate2d_loop(double(3, 1, 5, 6), double(4, 2, 3)),
    "vmap": lambda: torch.vmap(ops.correlate2d, (None, 0))(double(2, 5, 6), double(4, 2, 3)),
    "empty": lambda: ops.correlate2d(double(0, 5, 6), double(2, 3)),
    "elements": lambda: ops.hypotenuse(double(3, 1), double(4), 2.0),
    "elements of half precision": lambda: ops.hypotenuse(double(3).half(), double(3).half()),
    "several outputs": lambda: ops.sum_and_difference(double(3), double(2, 3)),
    "several outputs of a batch": lambda: ops.sizes(double(7, 2), double(2), 3),
    "every argument": lambda: ops.everything(
        double(5), None, torch.tensor([4, 0]), True, 7, 0.5, [1.0, 2.0], None, "abca"
    ),
    "every other argument": lambda: ops.everything(
        double(5), double(2), torch.tensor([4, 0]), False, -7, 0.5, [], 3, ""
    ),
    "complex elements": lambda: ops.rotate(torch.randn(4, dtype=torch.complex64), torch.randn(4)),
    "complex numbers": lambda: test_arguments.f(double(2), 1 + 2j),
    "complex lists": lambda: test_arguments.complexes(double(2), [1 + 2j, 3], 1j),
    "texts": lambda: test_arguments.texts(double(2), ["a", "é"], "mode", "cpu"),
    "no texts": lambda: test_arguments.texts(double(2), [], None, "cpu"),
    "lists of tensors": lambda: test_arguments.joined([double(3, 4), double(3, 4)], double(4), 2),
    "numbers": lambda: test_arguments.many(None, double(2), double(2), True, 2, 0.5, 3, None, True),
    "whole arrays": lambda: test_whole.scale(double(4, 6)[::2, 1:].T, 2.0),
    "a whole array and a batch": lambda: torch.vmap(test_whole.weighted, (0, None))(double(2, 3, 4), double(3)),
    "C++ and a workspace": lambda: test_cpp.median(double(3, 5)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_right_kernels_give_the_same(name):
    same(name, None)


@pytest.mark.parametrize("name", by_default(CALLS, ["batch", "elements", "every argument"].__contains__))
def test_right_kernels_give_the_same_between_fences(name):
    same(name, False)


def same(name, sanitize):
    """Compare a call with itself in the mode."""
    results = []
    for mode in (True, False):
        torch.manual_seed(0)
        if mode:
            with tg.debug(sanitize=sanitize):
                results.append(CALLS[name]())
        else:
            results.append(CALLS[name]())
    torch.testing.assert_close(*results, rtol=1e-6, atol=0)


GRADIENTS = {
    "sums": lambda: (test_rules.affine, test_rules.inputs(3, 2)),
    "adjoints": lambda: (test_rules.correlate, [double(4, 6).requires_grad_(), double(3).requires_grad_()]),
    "elements": lambda: (test_rules.power, [double(4, 1).requires_grad_(), double(3).requires_grad_()]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADIENTS)
def test_right_rules_give_the_same(name):
    f, values = GRADIENTS[name]()
    gradients = [torch.autograd.grad(f(*values).square().sum(), values)]
    with tg.debug():
        gradients.append(torch.autograd.grad(f(*values).square().sum(), values))
    torch.testing.assert_close(*gradients)


@pytest.mark.slow
def test_integer_outputs_are_compared_by_two_patterns():
    @tg.op(kernel=tg.c("void f(int64_t n, const int64_t *x, int64_t *out) { while (n--) out[n] = x[n]; }"))
    def f(x: Int64[Tensor, "n"]) -> Int64[Tensor, "n"]: ...

    pattern = torch.full((8,), 0xA5, dtype=torch.uint8).view(torch.int64).expand(2)
    with tg.debug():
        assert torch.equal(f(pattern), pattern)
