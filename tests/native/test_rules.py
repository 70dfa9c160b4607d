"""Rules in C: kinds, batches, sums, and what they refuse."""

import pytest
import torch
from jaxtyping import Complex, Float, Int64
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

SOURCE = tg.c("""
void affine(int64_t m, int64_t n, const T *x, const T *w, const T *bias, T *out) {
    for (int64_t i = 0; i < m; i++) {
        out[i] = bias ? bias[i] : 0;
        for (int64_t j = 0; j < n; j++) out[i] += w[i * n + j] * x[j];
    }
}
void affine_vjp_x_w(int64_t m, int64_t n, const T *grad, const T *x, const T *w, T *grad_x, T *grad_w) {
    for (int64_t j = 0; j < n; j++) grad_x[j] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            grad_x[j] += grad[i] * w[i * n + j];
            grad_w[i * n + j] = grad[i] * x[j];
        }
}
void copy(int64_t m, int64_t n, const T *grad, T *grad_bias) {
    for (int64_t i = 0; i < m; i++) grad_bias[i] = grad[i];
}
""")


def make_affine(order):
    """The operator with its sizes in the order in which the annotations name them."""

    @tg.op(kernel=tg.c(SOURCE.code.replace("int64_t m, int64_t n", order)))
    def affine(
        x: Float[Tensor, "*batch n"], w: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
    ) -> Float[Tensor, "*batch m"]: ...

    source = tg.c(SOURCE.code.replace("int64_t m, int64_t n", order))

    @affine.vjp("x", "w", kernel=source)
    def _(grad, x, w): ...

    @affine.vjp("bias", kernel=source)
    def copy(grad): ...

    return affine


affine = make_affine("int64_t n, int64_t m")


def inputs(*batch, dtype=torch.float64):
    torch.manual_seed(0)
    x, w, b = torch.randn(*batch, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype), torch.randn(2, dtype=dtype)
    return [t.requires_grad_() for t in (x, w, b)]


def check(f, plain, values, **tolerances):
    made, wanted = f(*values), plain(*values)
    torch.testing.assert_close(made, wanted, **tolerances)
    weights = torch.randn_like(wanted)
    found = torch.autograd.grad(made, values, weights)
    for one, other in zip(found, torch.autograd.grad(wanted, values, weights), strict=True):
        torch.testing.assert_close(one, other, **tolerances)


@pytest.mark.parametrize("batch", [(), (4,), (3, 2), (0,), (1,), (2, 0, 3), (5000,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_shared_inputs_are_summed(batch, dtype):
    check(affine, torch.nn.functional.linear, inputs(*batch, dtype=dtype), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_once(dtype):
    x, w, b = inputs(64, dtype=dtype)
    affine(x, w, b).sum().backward()
    wide = [t.detach().float().requires_grad_() for t in (x, w, b)]
    affine(*wide).sum().backward()
    for half, full in zip((x, w, b), wide, strict=True):
        assert torch.equal(half.grad, full.grad.to(dtype))


def test_a_sum_does_not_depend_on_the_threads():
    values = inputs(20000, dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(torch.autograd.grad(affine(*values).square().sum(), values[1])[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.slow
def test_a_sum_is_made_in_double():
    x = torch.full((100_000, 1), 0.1)

    @tg.op(kernel=tg.c("void f(int64_t n, const T *x, const T *w, T *out) { *out = *x * *w; }"))
    def f(x: Float[Tensor, "*batch n"], w: Float[Tensor, "n"]) -> Float[Tensor, "*batch"]: ...

    @f.vjp("w", kernel=tg.c("void f_vjp_w(int64_t n, const T *grad, const T *x, T *grad_w) { *grad_w = *grad * *x; }"))
    def _(grad, x): ...

    w = torch.ones(1, requires_grad=True)
    f(x, w).sum().backward()
    assert w.grad.item() == pytest.approx(float(x[0, 0].double()) * 100_000, rel=1e-7)


def test_an_absent_input():
    x, w, _ = inputs(4)
    check(lambda x, w: affine(x, w), lambda x, w: x @ w.T, [x, w])


@pytest.mark.parametrize("dims", [(0, None, None), (0, 0, None), (None, 0, 0), (1, 1, 0)])
def test_vmap_of_gradients(dims):
    torch.manual_seed(0)
    sizes = [(4, 3), (2, 3), (2,)]
    values = [
        torch.randn(*s[:d], 5, *s[d:], dtype=torch.float64) if d is not None else torch.randn(s, dtype=torch.float64)
        for s, d in zip(sizes, dims, strict=True)
    ]

    def loss(f):
        return lambda *values: f(*values).square().sum()

    def gradients(f):
        return torch.vmap(torch.func.grad(loss(f), (0, 1, 2)), dims)(*values)

    for one, other in zip(gradients(affine), gradients(torch.nn.functional.linear), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_in_the_loop_of_a_batch():
    source = tg.c("""
    void dot(int64_t n, const T *x, const T *y, T *out) { *out = 0; while (n--) *out += x[n] * y[n]; }
    void dot_vjp_x(int64_t n, const T *grad, const T *y, T *grad_x) { while (n--) grad_x[n] = *grad * y[n]; }
    """)

    @tg.op(kernel=source, batch="loop")
    def dot(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Float[Tensor, ""]: ...

    @dot.vjp("x", kernel=source)
    def _(grad, y): ...

    x, y = torch.randn(3, dtype=torch.float64, requires_grad=True), torch.randn(4, 2, 3, dtype=torch.float64)
    check(lambda x: dot(x, y), lambda x: (x * y).sum(-1), [x])
    assert torch.autograd.gradcheck(lambda x: dot(x, y), x, check_batched_grad=True)


CORRELATE = tg.c("""
void correlate(int64_t h, int64_t k, const T *x, const T *kernel, T *out) {
    for (int64_t i = 0; i + k <= h; i++) {
        out[i] = 0;
        for (int64_t j = 0; j < k; j++) out[i] += x[i + j] * kernel[j];
    }
}
void correlate_adjoint_x(int64_t h, int64_t k, const T *grad, const T *kernel, T *grad_x) {
    for (int64_t i = 0; i < h; i++) grad_x[i] = 0;
    for (int64_t i = 0; i + k <= h; i++)
        for (int64_t j = 0; j < k; j++) grad_x[i + j] += grad[i] * kernel[j];
}
void correlate_adjoint_kernel(int64_t h, int64_t k, const T *grad, const T *x, T *grad_kernel) {
    for (int64_t j = 0; j < k; j++) grad_kernel[j] = 0;
    for (int64_t i = 0; i + k <= h; i++)
        for (int64_t j = 0; j < k; j++) grad_kernel[j] += grad[i] * x[i + j];
}
""")


@tg.op(kernel=CORRELATE)
def correlate(x: Float[Tensor, "*batch h"], kernel: Float[Tensor, "k"]) -> Float[Tensor, "*batch h-k+1"]: ...


@correlate.adjoint("x", kernel=CORRELATE)
def _(grad, kernel): ...


@correlate.adjoint("kernel", kernel=CORRELATE)
def _(grad, x): ...


@pytest.mark.slow
@pytest.mark.parametrize("batch", [(), (2,)])
def test_adjoints_give_both_modes_and_any_order(batch):
    x = torch.randn(*batch, 6, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(correlate, (x, kernel), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(correlate, (x, kernel), check_fwd_over_rev=True, check_rev_over_rev=True)
    assert correlate.capabilities()["second order"].answer == "yes"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend):
    x, kernel = torch.randn(4, 6), torch.randn(3)
    gradient = torch.func.grad(lambda x, kernel: correlate(x, kernel).square().sum(), (0, 1))
    compiled = torch.compile(gradient, backend=backend, fullgraph=True)
    for one, other in zip(compiled(x, kernel), gradient(x, kernel), strict=True):
        torch.testing.assert_close(one, other)


def test_exact_grads_of_first_order_alone_are_said_to_be_so():
    x, w, b = inputs(4)
    (gradient,) = torch.autograd.grad(affine(x, w, b).square().sum(), x, create_graph=True)
    with pytest.raises(tg.DerivativeError):
        gradient.sum().backward()
    assert "in C" in str(affine)
    assert "is in C" in affine.capabilities()["second order"].how


ELEMENTS = tg.c("""
T power(T x, T y, double scale) { return scale * __builtin_pow(x, y); }
T power_partial_x(T y, T x, double scale) { return scale * y * __builtin_pow(x, y - 1); }
T power_vjp_y(T grad, T out, T x) { return grad * out * __builtin_log(x); }
""")


@tg.op(kernel=ELEMENTS)
def power(x: Float[Tensor, "..."], y: Float[Tensor, "..."], scale: float = 1.0) -> Float[Tensor, "..."]: ...


@power.partial("x", kernel=ELEMENTS)
def _(y, x, scale): ...


@power.vjp("y", kernel=ELEMENTS)
def _(grad, out, x): ...


@pytest.mark.parametrize(("x", "y"), [((3,), (3,)), ((4, 1), (3,)), ((), (2, 3)), ((2, 3), (1,)), ((0,), (1,))])
def test_elements_broadcast(x, y):
    values = [(torch.rand(s, dtype=torch.float64) + 0.5).requires_grad_() for s in (x, y)]
    check(lambda x, y: power(x, y, 2.0), lambda x, y: 2 * x**y, values)


@pytest.mark.slow
def test_a_partial_that_is_infinite_where_the_cotangent_is_zero():
    source = tg.c("T root(T x) { return __builtin_sqrt(x); }  T root_partial_x(T out) { return 0.5 / out; }")

    @tg.op(kernel=source)
    def root(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    @root.partial("x", kernel=source)
    def _(out): ...

    x = torch.tensor([0.0, 4.0], requires_grad=True)
    (root(x) * torch.tensor([0.0, 1.0])).sum().backward()
    assert x.grad.tolist() == [0, 0.25]
    assert torch.func.jvp(root, (x.detach(),), (torch.tensor([0.0, 1.0]),))[1].tolist() == [0, 0.25]


@pytest.mark.slow
def test_a_tangent_by_hand():
    source = tg.c("""
    void cube(int64_t n, const T *x, T *out) { while (n--) out[n] = x[n] * x[n] * x[n]; }
    void cube_jvp_x(int64_t n, const T *x, const T *x_tangent, T *out_tangent) {
        while (n--) out_tangent[n] = 3 * x[n] * x[n] * x_tangent[n];
    }
    """)

    @tg.op(kernel=source)
    def cube(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]: ...

    @cube.jvp("x", kernel=source)
    def _(x, x_tangent): ...

    x, t = torch.randn(2, 3), torch.randn(2, 3)
    torch.testing.assert_close(torch.func.jvp(cube, (x,), (t,))[1], 3 * x**2 * t)


@pytest.mark.slow
def test_complex_gradients():
    source = tg.c("""
    void turn(int64_t n, const T_complex *z, const T_real *s, T_complex *out) { while (n--) out[n] = z[n] * s[n]; }
    void turn_vjp_z_s(int64_t n, const T_complex *grad, const T_complex *z, const T_real *s, T_complex *grad_z,
                      T_real *grad_s) {
        while (n--) {
            grad_z[n] = grad[n] * s[n];
            grad_s[n] = __real__ grad[n] * __real__ z[n] + __imag__ grad[n] * __imag__ z[n];
        }
    }
    """)

    @tg.op(kernel=source)
    def turn(z: Complex[Tensor, "*batch n"], s: Float[Tensor, "n"]) -> Complex[Tensor, "*batch n"]: ...

    @turn.vjp("z", "s", kernel=source)
    def _(grad, z, s): ...

    z = torch.randn(5, 3, dtype=torch.complex128, requires_grad=True)
    s = torch.randn(3, dtype=torch.float64, requires_grad=True)
    check(turn, lambda z, s: z * s, [z, s])
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    check(turn, lambda z, s: z * s, [z, s])


@pytest.mark.slow
def test_saved_outputs_and_several_cotangents():
    source = tg.c("""
    void extremes(int64_t n, const T *x, T *out0, T *out1, int64_t *where_low, int64_t *where_high) {
        *where_low = *where_high = 0;
        for (int64_t i = 0; i < n; i++) {
            if (x[i] < x[*where_low]) *where_low = i;
            if (x[i] > x[*where_high]) *where_high = i;
        }
        *out0 = x[*where_low];
        *out1 = x[*where_high];
    }
    void back(int64_t n, const T *grad_out0, const T *grad_out1, const int64_t *where_low,
              const int64_t *where_high, T *grad_x) {
        for (int64_t i = 0; i < n; i++) grad_x[i] = 0;
        grad_x[*where_low] += *grad_out0;
        grad_x[*where_high] += *grad_out1;
    }
    """)

    @tg.op(kernel=source)
    def extremes(
        x: Float[Tensor, "*batch n"],
    ) -> tuple[
        Float[Tensor, "*batch"],
        Float[Tensor, "*batch"],
        tg.Saved[Int64[Tensor, "*batch"], "where_low"],
        tg.Saved[Int64[Tensor, "*batch"], "where_high"],
    ]: ...

    @extremes.vjp("x", kernel=source)
    def back(grad_out0, grad_out1, where_low, where_high): ...

    x = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(extremes, x)
    low, _ = extremes(x)
    (gradient,) = torch.autograd.grad(low.sum(), x)  # the other cotangent is zero
    assert gradient.sum() == 4


@pytest.mark.slow
def test_a_workspace_of_a_rule():
    source = tg.c("""
    void total(int64_t n, const T *x, T *out) { *out = 0; while (n--) *out += x[n] * x[n]; }
    void total_vjp_x(int64_t n, const T *grad, T *twice, const T *x, T *grad_x) {
        for (int64_t i = 0; i < n; i++) twice[i] = 2 * x[i];
        for (int64_t i = 0; i < n; i++) grad_x[i] = *grad * twice[i];
    }
    """)

    @tg.op(kernel=source)
    def total(x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]: ...

    @total.vjp("x", kernel=source)
    def _(grad, twice: Float[tg.Workspace, "n"], x): ...

    x = torch.randn(9, 3, dtype=torch.float64, requires_grad=True)
    check(total, lambda x: x.square().sum(-1), [x])


@pytest.mark.slow
def test_a_rule_in_c_for_a_kernel_in_torch():
    @tg.op
    def scale(x: Float[Tensor, "*batch n"], factor: float) -> Float[Tensor, "*batch n"]:
        return x * factor

    @scale.vjp("x", kernel=tg.c("void scale_vjp_x(int64_t n, const T *grad, double factor, T *grad_x) "
                                "{ while (n--) grad_x[n] = grad[n] * factor; }"))  # fmt: skip
    def _(grad, factor): ...

    check(lambda x: scale(x, 3.0), lambda x: x * 3, [torch.randn(2, 3, requires_grad=True)])


def test_a_kernel_in_c_for_the_cpu_alone():
    @tg.op
    def triple(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x * 3

    @triple.kernel("cpu", tg.c("void triple(int64_t n, const T *x, T *out) { while (n--) out[n] = 3 * x[n] + 1; }"))
    def _(x): ...

    assert triple(torch.ones(2)).tolist() == [4, 4]
    assert triple(torch.ones(2, device="meta")).shape == (2,)
    with pytest.raises(tg.DeclarationError, match="in C does not run on this type of device"):
        triple.kernel("mps", tg.c("..."))(lambda x: None)
    with pytest.raises(tg.DeclarationError, match="sees a sample, and runs on the CPU alone"):
        triple.kernel("cuda", tg.c("..."))(lambda x: None)


def test_an_axis_of_the_upstream_gradient_is_given_by_a_number():
    source = tg.c("""
    void rep(const T *x, int64_t k, T *out) { for (int64_t i = 0; i < k; i++) out[i] = *x; }
    void rep_vjp(const T *grad, int64_t k, T *grad_x) {
        *grad_x = 0;
        for (int64_t i = 0; i < k; i++) *grad_x += grad[i];
    }
    """)

    @tg.op(kernel=source)
    def rep(x: Float[Tensor, "*batch"], k: int) -> Float[Tensor, "*batch {k}"]:
        return tg.native

    @rep.vjp("x", kernel=source)
    def rep_vjp(grad, k):
        return tg.native

    x = torch.ones(2, requires_grad=True)
    assert torch.autograd.grad(rep(x, 3).sum(), x)[0].tolist() == [3, 3]


# -- refused -----------------------------------------------------------------------------------------------------------


def test_a_rule_must_be_told_what_shapes_depend_on():
    @tg.op(kernel=tg.c("void f(int64_t n, const T *x, int64_t k, T *out) {}"))
    def f(x: Float[Tensor, "n"], k: int) -> Float[Tensor, "n+{k}"]: ...

    with pytest.raises(tg.DeclarationError, match="depends on 'k'"):

        @f.vjp("x", kernel=tg.c("..."))
        def _(grad): ...


def test_lists_have_no_rule_in_c():
    @tg.op(kernel=tg.c("void f(int64_t n, const T *const *xs, int64_t xs_length, T *out) {}"))
    def f(xs: list[Float[Tensor, "n"]]) -> Float[Tensor, "n"]: ...

    with pytest.raises(tg.DeclarationError, match="as many gradients as it has inputs"):

        @f.vjp("xs", kernel=tg.c("..."))
        def _(grad): ...


def test_an_optional_input_has_a_rule_of_its_own():
    with pytest.raises(tg.DeclarationError, match="as many gradients as it has inputs"):

        @make_affine("int64_t n, int64_t m").jvp("x", "bias", kernel=tg.c("..."))
        def _(x_tangent, bias_tangent): ...


def test_a_workspace_of_a_rule_in_torch():
    @tg.op(kernel=tg.c("T f(T x) { return x; }"))
    def f(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...

    with pytest.raises(tg.DeclarationError, match="only a rule in C has a workspace"):

        @f.vjp("x")
        def _(grad, work: Float[tg.Workspace, "3"]): ...


def test_a_rule_with_another_head():
    @tg.op(kernel=tg.c("void g(int64_t n, const T *x, T *out) { *out = *x; }"))
    def g(x: Float[Tensor, "n"]) -> Float[Tensor, ""]: ...

    @g.vjp("x", kernel=tg.c("void g_vjp_x(const T *grad, int64_t n, T *grad_x) {}"))
    def _(grad): ...

    with pytest.raises(tg.BuildError, match="takes something else") as caught:
        g(torch.ones(2, requires_grad=True)).backward()
    assert caught.value.operator == "g.vjp[x]"
    assert caught.value.expected == "void g_vjp_x(int64_t n, const T *grad, T *grad_x)"


@pytest.mark.slow
def test_an_error_code_of_a_rule():
    @tg.op(kernel=tg.c("void h(int64_t n, const T *x, T *out) { while (n--) out[n] = x[n]; }"))
    def h(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]: ...

    @h.vjp("x", kernel=tg.c("int h_vjp_x(int64_t n, const T *grad, T *grad_x) { return 3; }"))
    def _(grad): ...

    for _ in range(2):  # the first call and the remembered one
        with pytest.raises(tg.RuleError, match="the function returned 3") as caught:
            h(torch.ones(2, requires_grad=True)).sum().backward()
        assert caught.value.operator == "h.vjp[x]"


def test_a_rule_that_reads_no_tensor_is_refused():
    source = tg.c("T scaled(T x, double c) { return c * x; } T scaled_partial_x(double c) { return c; }")

    @tg.op(kernel=source)
    def scaled(x: Float[Tensor, "..."], c: float) -> Float[Tensor, "..."]: ...

    with pytest.raises(tg.DeclarationError, match="reads no tensor"):

        @scaled.partial("x", kernel=source)
        def _(c): ...


def test_saved_tensors_are_asked_for_once():
    """Checkpointing hands them out no second time, whichever way the gradient is computed in the end."""
    values, grads = inputs(4), torch.randn(3, 4, 2, dtype=torch.float64)
    made = checkpoint(affine, *values, use_reentrant=False)
    found = torch.autograd.grad(made, values, grads, is_grads_batched=True)
    for i, grad in enumerate(grads):
        expected = torch.autograd.grad(affine(*values), values, grad)
        torch.testing.assert_close([f[i] for f in found], list(expected))
