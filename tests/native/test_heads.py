"""Which function of a source is meant, and what its parameters are: nothing else is taken for it."""

import shlex
import subprocess
import textwrap
from contextlib import nullcontext

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg
from torchgraft._build import toolchain
from torchgraft._build.heads import heads

from .. import fresh

# -- reading -------------------------------------------------------------------------------------------------------

READ = {
    "// void f(int a) {\n/* void f(int b) { */ void f(int64_t n) {}": [("f", ("n",))],
    'const char *s = "void f(int a) {", c = \'"\'; void g(int64_t n) {}': [("g", ("n",))],
    'auto s = R"(void f(int a) {})"; void g(int64_t n) {}': [("g", ("n",))],
    "void f(int64_t, const T *);\nvoid f(int64_t n, const T *x)\n{ if (n) { g(n); } }": [("f", ("n", "x"))],
    "static __attribute__((noinline)) T f(T x[static 3], int64_t n __attribute__((unused))) {}": [("f", ("x", "n"))],
    "void f(n, x) int64_t n; const T *x; {}": [("f", ("n", "x"))],
    "void f\\\n(int64_t n, T (x)[2]) {}  T g(void) { return 0; }": [("f", ("n", "")), ("g", ())],
    "namespace { template <class U> int f(A<int, U> n, U x = h(1)) noexcept(true) {} }": [("f", ("n", "x"))],
    "struct S { void f(int a) {} }; int a[] = {f(1)}; auto g(int64_t, const T *) -> int {}": [("g", ("", ""))],
    "TG_IMPORT(double, kv, (double, double, int)) T f(T v, T x) { return kv(v, x, 0); }": [("f", ("v", "x"))],
    "#define f(x) { g(x) }\nextern \"C\" { void g(int64_t x_t, T größe) {} }": [("g", ("x_t", "größe"))],
}  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), READ.items())
def test_heads_are_read(code, expected):
    assert [(head.name, head.parameters) for head in heads(code)] == expected
    for name, parameters in expected:
        assert [head.parameters for head in heads(code, name)] == [parameters]


# -- names of sizes ------------------------------------------------------------------------------------------------


def declare(source):
    @tg.op(kernel=source)
    def f(x: Float[Tensor, "n m"]) -> Float[Tensor, "m"]: ...

    return f


TRANSPOSED = (
    "{ for (int64_t j = 0; j < cols; j++) for (int64_t i = out[j] = 0; i < rows; i++) out[j] += x[i * cols + j]; }"
)


def run(source):
    return declare(source)(torch.arange(6.0).reshape(2, 3)).tolist()


def refused(source):
    with pytest.raises(tg.BuildError) as caught:
        run(source)
    return caught.value


SWAPPED = {
    "plainly": f"void f(int64_t cols, int64_t rows, const T *x, T *out) {TRANSPOSED}",
    "on several lines": f"void f(int64_t cols,\n    int64_t rows,\n    const T *x, T *out)\n{TRANSPOSED}",
    "by a macro": f"#define SIZES int64_t cols, int64_t rows\nvoid f(SIZES, const T *x, T *out) {TRANSPOSED}",
    "under a condition": "#if 0\nvoid f(int64_t n, int64_t m, const T *x, T *out) {}\n#else\n"
    f"void f(int64_t cols, int64_t rows, const T *x, T *out) {TRANSPOSED}\n#endif",
    "in the old way": f"void f(cols, rows, x, out) int64_t cols, rows; const T *x; T *out; {TRANSPOSED}",
    "in part": f"void f(int64_t m, int64_t rows, const T *x, T *out) {{ int64_t cols = m; {TRANSPOSED[1:]}",
    "under names of macros": "#if 1\n#define n cols\n#define m rows\n"
    f"void f(int64_t n, int64_t m, const T *x, T *out) {TRANSPOSED}\n#endif",
}  # fmt: skip


@pytest.mark.parametrize("code", SWAPPED.values(), ids=SWAPPED)
def test_sizes_of_other_names_may_be_swapped(code):
    error = refused(tg.c(code))
    assert error.expected == "void f(int64_t n, int64_t m, const T *x, T *out)"
    assert "cols" in error.got or "rows" in error.got
    assert "names={" in error.hint or "write it so" in error.hint


@pytest.mark.slow
def test_sizes_in_another_file(tmp_path):
    (tmp_path / "f.h").write_text(SWAPPED["plainly"])
    assert "other names" in refused(tg.c('#include "f.h"', include=[tmp_path])).problem
    (tmp_path / "f.h").write_text(SWAPPED["plainly"].replace("int64_t cols, int64_t rows", "int64_t m, int64_t n"))
    assert (
        "something else" in refused(tg.c('#include "f.h"\n#define cols m\n#define rows n', include=[tmp_path])).problem
    )


@pytest.mark.slow
def test_names_say_which_is_which():
    code = f"void f(int64_t rows, int64_t cols, const T *x, T *out) {TRANSPOSED}"
    assert "names={'rows': 'n', 'cols': 'm'}" in refused(tg.c(code)).hint
    assert run(tg.c(code, names={"rows": "n", "cols": "m"})) == [3, 5, 7]
    assert "something else" in refused(tg.c(code, names={"rows": "m", "cols": "n"})).problem
    assert "something else" in refused(tg.c(SWAPPED["plainly"], names={"rows": "n", "cols": "m"})).problem
    assert run(tg.cpp(code, names={"rows": "n", "cols": "m"})) == [3, 5, 7]


@pytest.mark.slow
def test_names_of_the_cache_are_its_own(own_cache):
    """What was built with names is not found without them."""
    code = f"void f(int64_t rows, int64_t cols, const T *x, T *out) {TRANSPOSED}"
    assert run(tg.c(code, names={"rows": "n", "cols": "m"})) == [3, 5, 7]
    assert "other names" in refused(tg.c(code)).problem


@pytest.mark.slow
def test_arguments_have_any_names():
    own = "const T *x = from; T *out = to; int64_t rows = n, cols = m;"
    assert run(tg.c(f"void f(int64_t n, int64_t m, const T *from, T *to) {{ {own} {TRANSPOSED} }}")) == [3, 5, 7]


def test_whole_arrays_and_lists_have_names_too():
    @tg.op(kernel=tg.c("""
        void first(const T_x *x, int64_t dim, const int64_t *strides, const int64_t *sizes, double *out) { *out = 1; }
    """))  # fmt: skip
    def first(x: Tensor) -> Float[Tensor, ""]: ...

    with pytest.raises(tg.BuildError):
        first(torch.ones(2))

    @tg.op(
        kernel=tg.c("""
        void g(int64_t n, const T *x, const int64_t *ks, int64_t order, int64_t count, T *out) { *out = order; }
    """)
    )
    def g(x: Float[Tensor, "n"], ks: list[int], order: int) -> Float[Tensor, ""]: ...

    with pytest.raises(tg.BuildError, match="something else"):
        g(torch.ones(2), [1], 3)


def test_an_error_about_the_functions_own_head_compares_heads():
    error = refused(tg.c("void f(int64_t n, int64_t m, const char *x, T *out) { }"))
    assert error.expected == "void f(int64_t n, int64_t m, const T *x, T *out)"
    assert error.got == "void f(int64_t n, int64_t m, const char *x, T *out)"


@pytest.mark.parametrize(
    ("helpers", "is_about_f"),
    [
        ("static int g(double x) { return 1; }\nstatic int g(int x) { return 1; }\n", False),
        ("static int g(int x) { return 1; }\nint h(void) { return g(1, 2); }\n", False),
        ("static int g(int x) { return 1; }\nint h(void) { return g(); }\n", False),
        ("void f(int64_t n, int64_t m, const T *x, T *out);\nvoid h(void) { f(1); }\n", False),
        ("void f(int64_t n, const T *x, T *out);\n", False),
    ],
)
def test_only_errors_about_the_functions_own_head_compare_heads(helpers, is_about_f):
    error = refused(tg.c(f"{helpers}void f(int64_t n, int64_t m, const T *x, T *out) {{ }}"))
    assert ("takes something else than" if is_about_f else "the compiler refused the kernel") in str(error)


@pytest.mark.slow
def test_a_rule_and_what_is_made_of_it_are_compared_too():
    code = tg.c("T f(T x, T y) { return x * y * y; }  T f_partial_x(T out, T y) { return y * y; }")

    @tg.op(kernel=code)
    def f(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @f.partial("x", kernel=code)
    def _(y, out): ...

    x = torch.tensor([2.0], requires_grad=True)
    with pytest.raises(tg.BuildError) as caught:  # it would be the square of the output
        f(x, torch.tensor([3.0])).sum().backward()
    assert caught.value.expected == "T f_partial_x(T y, T out)"


@pytest.mark.slow
@pytest.mark.parametrize("head", ["T f_partial_x(int y)", "double f_partial_x(double y)"])
def test_types_of_partial_derivatives_are_compared(head):
    code = tg.c(f"T f(T x, T y) {{ return x * y; }}  {head} {{ return y; }}")

    @tg.op(kernel=code)
    def f(x: Float[Tensor, "..."], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @f.partial("x", kernel=code)
    def _(y): ...

    x = torch.tensor([2.0], requires_grad=True)
    with pytest.raises(tg.BuildError, match="something else"):
        f(x, torch.tensor([3.5])).sum().backward()


# -- which function ------------------------------------------------------------------------------------------------


def test_texts_are_no_functions():
    assert run(tg.c("""
        /* int f(int64_t m, int64_t n) { */ static const char *s = "void f(int64_t m, int64_t n) {";
        void f(int64_t n, int64_t m, const T *x, T *out) { out[0] = out[1] = out[2] = s[0] == 'v'; }
    """)) == [1, 1, 1]  # fmt: skip


@pytest.mark.slow
def test_what_is_defined_is_told():
    error = refused(tg.c("static void helper(void) {} void g(int64_t n, int64_t m, const T *x, T *out) {}"))
    assert error.problem == "the source defines no function 'f'"
    assert error.got == "it defines g"
    assert 'tg.c(..., function="g")' in error.hint
    assert refused(tg.cpp("void g() {}")).got == "it defines g"
    assert refused(tg.c("static int one;")).got == "no function at all"


NAMED = """
void sum(int64_t n, int64_t m, const T *x, T *out) {
    for (int64_t j = 0; j < m; j++) for (int64_t i = out[j] = 0; i < n; i++) out[j] += x[i * m + j];
}
void back(int64_t n, int64_t m, const T *grad, T *grad_x) {
    for (int64_t i = 0; i < n * m; i++) grad_x[i] = grad[i % m];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("make", [tg.c, tg.cpp])
def test_a_function_of_another_name(make, tmp_path):
    f = declare(make(NAMED, function="sum"))

    @f.adjoint("x", kernel=make(NAMED, function="back"))
    def _(grad): ...

    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).requires_grad_()
    assert f(x).tolist() == [3, 5, 7]
    assert torch.autograd.gradcheck(f, x)
    assert [line.split("(")[0] for line in f.prototype().splitlines()] == ["void sum", "void back"]
    with tg.debug():
        assert f(x).tolist() == [3, 5, 7]
    f.save_library(tmp_path / "f.so", dtypes=[torch.float64])
    name = f.torch_op.name().replace("::", ".")
    program = f"""
        import torch
        torch.ops.load_library({str(tmp_path / "f.so")!r})
        print(torch.ops.{name}(torch.arange(6.0, dtype=torch.float64).reshape(2, 3)).tolist())
        """
    run = fresh.run("-c", textwrap.dedent(program), check=True)
    assert run.stdout.strip() == "[3.0, 5.0, 7.0]"


@pytest.mark.parametrize("options", [
    {"function": "a b"}, {"function": ""}, {"function": "3d"}, {"function": "größe"}, {"function": "ns::f"},
    {"function": "tg_run"}, {"function": 3}, {"names": {"a b": "n"}}, {"names": {"a": ""}},
])  # fmt: skip
@pytest.mark.parametrize("make", [tg.c, tg.cpp])
def test_names_that_c_does_not_have(make, options):
    with pytest.raises(tg.DeclarationError, match="is no name in C") as caught:
        make("void f(void) {}", **options)
    assert caught.value.argument == next(iter(options))


def test_keywords_are_no_names():
    with pytest.raises(tg.DeclarationError, match="'while' cannot be the name of a C function"):
        declare(tg.c("void f(void) {}", function="while"))


# -- macros, and names that C knows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["c", "cpp"])
@pytest.mark.parametrize("macro", ["#define f g", "#define f(a, b, c, d) g(a, b, c, d)"])
def test_a_macro_is_no_function(language, macro):
    code = f"{macro}\nvoid g(float n, float m, const T *x, T *out) {{ *out = n + m; }}"
    assert refused(getattr(tg, language)(code)).problem == "the source defines no function 'f'"


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_macros_do_not_change_what_surrounds_the_function(language):
    code = """
        void f(int64_t n, int64_t m, const T *x, T *out) { for (int64_t j = 0; j < m; j++) out[j] = x[j]; }
        #define T double
        #define int64_t signed char
        #define double float
        #define if while
        #define data handle
    """
    assert run(getattr(tg, language)(code)) == [0, 1, 2]


def test_a_library_s_function_of_this_name_is_not_taken():
    @tg.op(kernel=tg.c("T erg(T x) { return x; }"))
    def erfc(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    with pytest.raises(tg.BuildError, match="the source defines no function 'erfc'"):
        erfc(torch.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sqrt", "fabs", "exp", "round"])
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_function_that_compilers_know_is_the_user_s(own_cache, name, language):
    def stub(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    f = tg.op(kernel=getattr(tg, language)(f"__attribute__((noinline)) T {name}(T x) {{ return 7 * x; }}"), name=name)(
        stub
    )
    for dtype in (torch.float64, torch.float32):
        assert f(torch.tensor([2.5, 16.0], dtype=dtype)).tolist() == [17.5, 112.0]


# -- compilers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def compiler(monkeypatch):
    def choose(name):
        monkeypatch.setenv("CC", name)
        toolchain._find.cache_clear()

    yield choose
    toolchain._find.cache_clear()


def test_a_program_that_makes_nothing(compiler, own_cache):
    compiler("true")
    error = refused(tg.c(f"{NAMED} // nothing", function="sum"))
    assert (error.problem, error.got) == ("the compiler does not fail, and makes nothing", "CC=true")


@pytest.mark.parametrize("name", ["'cc", " ", "/dev/null", "/etc/passwd", "."])
def test_names_of_no_program(compiler, name):
    compiler(name)
    assert refused(tg.c(f"{NAMED} // {name}", function="sum")).problem == "there is no compiler"


def test_a_compiler_for_another_machine(compiler, own_cache, tmp_path):
    (tmp_path / "cc").write_text(
        '#!/bin/sh\ncc "$@" || exit\nfor a; do test "$last" = -o && case "$a" in *.so) echo no library >"$a";; esac; '
        "last=$a; done\n"
    )
    (tmp_path / "cc").chmod(0o755)
    compiler(str(tmp_path / "cc"))
    error = refused(tg.c(f"{NAMED} // other", function="sum"))
    assert error.problem == "what the compiler made cannot be loaded"
    assert str(tmp_path / "cc") in error.hint


@pytest.mark.slow
def test_zig_spells_processors_in_its_own_way(compiler, own_cache, tmp_path):
    (tmp_path / "zig").write_text(
        "#!/bin/sh\nfor a; do shift; case $a in -march=*-*) echo \"unknown CPU: 'x86'\" >&2; exit 1;; -march=*) "
        'a=$(echo "$a" | sed "s/86_64_v/86-64-v/");; esac; set -- "$@" "$a"; done\nexec cc "$@"\n'
    )
    (tmp_path / "zig").chmod(0o755)
    compiler(str(tmp_path / "zig"))
    assert run(tg.c(f"{NAMED} // zig", function="sum")) == [3, 5, 7]


@pytest.mark.slow
@pytest.mark.parametrize("debug", [False, True])
def test_the_command_in_an_error_can_be_run(own_cache, debug):
    def failing(number):
        error = refused(tg.c(f"void f(int64_t n, int64_t m, const T *x, T *out) {{ missing_{number}(); }}"))
        return shlex.split(error.hint.partition("again:\n")[2])

    with tg.debug() if debug else nullcontext():
        commands = [failing(number) for number in range(10)]
    again = subprocess.run(commands[-1], capture_output=True, text=True, check=False)
    assert "missing_9" in again.stderr
    assert "No such file" not in again.stderr
    kept = list(own_cache.glob("*.failed"))
    assert len(kept) == 8
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in kept)
