"""Operators with a seed, under everything that torch does with a function."""

import contextlib
import copy
import io
import pickle
import random

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from jaxtyping import Float, Float32
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.data import DataLoader, Dataset

import torchgraft as tg
from tests.simulated import simulated

from ..default import by_default
from .dropouts import ALL, ELEMENTWISE, ROWS, elements, elements_in_c, in_c, in_numpy, in_torch, looped, plain

X = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
P = 0.4

every = pytest.mark.parametrize("op", ALL, ids=lambda op: op.__name__)
ENDS = (in_torch, elements_in_c)
"""The first and the last of them; the others where there is time."""

compiled_by = pytest.mark.parametrize(
    ("op", "backend"),
    by_default(
        [(op, "aot_eager") for op in ALL] + [(op, "inductor") for op in ENDS],
        lambda op, backend: op is ENDS[-1] and backend == "aot_eager",
        lambda op, backend: f"{backend}-{op.__name__}",
    ),
)
"""Inductor's code of the draws takes g++ ten seconds and more: it is that of one operator in torch."""


def kept(values):
    return values != 0


def expected(op, x, seed):
    return plain(x, P, seed, elementwise=op in ELEMENTWISE)


def gradient(op, x, **options):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(op(leaf, P, **options).square().sum(), leaf)[0]


def redrawn(function):
    """Tell whether two calls drop other elements; by chance they do not in one of 10**15 cases."""
    return not torch.equal(kept(function()), kept(function()))


def reproduced(function):
    torch.manual_seed(3)
    first = function()
    torch.manual_seed(3)
    return torch.equal(first, function())


# -- values -----------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("shape", [(3, 4, 5), (5,), (1, 5), (1, 1), (0, 5), (4, 0), (2, 1, 3)])
def test_values_depend_on_seed_sample_and_element(op, shape):
    x = torch.randn(shape, dtype=torch.float64)
    for seed in (0, 11, torch.tensor(7), torch.tensor(-5), 2**63 - 1):
        assert torch.equal(op(x, P, seed=seed), expected(op, x, seed))
    batch = shape if op in ELEMENTWISE else shape[:-1]
    own = torch.arange(int(np.prod(batch))).reshape(batch) + 100
    assert torch.equal(op(x, P, seed=own), expected(op, x, own))


@every
def test_gradients_are_those_of_the_draws(op):
    for seed in (5, torch.tensor(9)):
        leaf = X.clone().requires_grad_()
        wanted = torch.autograd.grad(expected(op, leaf, seed).square().sum(), leaf)[0]
        torch.testing.assert_close(gradient(op, X, seed=seed), wanted, rtol=1e-14, atol=0)
    leaf = X.clone().requires_grad_()
    out = op(leaf, P)
    assert torch.equal(kept(torch.autograd.grad(out.sum(), leaf)[0]), kept(out))


@every
def test_draws_follow_torchs_generator(op):
    assert redrawn(lambda: op(X, P))
    assert reproduced(lambda: op(X, P))
    with torch.random.fork_rng():
        torch.manual_seed(3)
        inside = op(X, P)
    torch.manual_seed(3)
    assert torch.equal(op(X, P), inside)
    torch.manual_seed(3)
    drawn = torch.randint(2**63 - 1, ())
    torch.manual_seed(3)
    assert torch.equal(op(X, P), op(X, P, seed=drawn))


@every
def test_a_generator_may_be_given(op):
    generator = torch.Generator()
    state = torch.get_rng_state()
    made = []
    for options in ({"generator": generator}, {"seed": generator}, {"generator": generator}):
        generator.manual_seed(1)
        made.append(op(X, P, **options))
    assert all(torch.equal(made[0], other) for other in made)
    assert redrawn(lambda: op(X, P, generator=generator))
    assert torch.equal(torch.get_rng_state(), state)


@every
def test_layouts_modes_and_threads(op):
    turned = X.transpose(0, 2)
    wanted = op(turned.contiguous(), P, seed=3)
    assert torch.equal(op(turned, P, seed=3), wanted)
    assert torch.equal(op(turned[::2], P, seed=torch.tensor(3)), op(turned[::2].contiguous(), P, seed=3))
    with torch.inference_mode():
        assert torch.equal(op(turned.clone(), P, seed=3), wanted)
        assert redrawn(lambda: op(turned.clone(), P))
    with torch.no_grad():
        assert torch.equal(op(turned, P, seed=3), wanted)
    leaf = turned.clone().requires_grad_()
    assert torch.equal(op(leaf, P, seed=3), wanted)
    threads = torch.get_num_threads()
    large = torch.ones(64, 1000, dtype=torch.float64)
    try:
        torch.set_num_threads(1)
        one = op(large, P, seed=3)
        torch.set_num_threads(4)
        assert torch.equal(op(large, P, seed=3), one)
    finally:
        torch.set_num_threads(threads)


@every
def test_autocast_fake_meta_profiler_copies(op):
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(op(X, P, seed=3), op(X, P, seed=3))
    assert op(X.to("meta"), P).shape == X.shape
    with FakeTensorMode() as mode:
        assert op(mode.from_tensor(X), P).shape == X.shape
    with torch.profiler.profile():
        assert op(X, P).shape == X.shape
    assert pickle.loads(pickle.dumps(op)) is op
    assert copy.deepcopy(op) is op
    assert pickle.loads(pickle.dumps(tg.drawn)) is tg.drawn
    assert copy.deepcopy(tg.drawn) is tg.drawn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_dtypes_drop_the_same(dtype):
    x = torch.ones(4, 6, dtype=dtype)
    assert all(torch.equal(kept(op(x, P, seed=3)), kept(in_torch(x, P, seed=3))) for op in ROWS)
    assert torch.equal(kept(elements(x, P, seed=3)), kept(elements_in_c(x, P, seed=3)))


def test_subclasses_and_default_devices():
    parameter = torch.nn.Parameter(torch.ones(4, 6))
    assert redrawn(lambda: in_torch(parameter, P))
    with torch.device("meta"):  # Whatever the default device is, it is drawn where the tensors are.
        assert redrawn(lambda: in_torch(X, P))


@pytest.mark.parametrize("op", [looped, elements, in_torch], ids=lambda op: op.__name__)
def test_a_seed_is_one_or_one_for_each_sample(op):
    shape = X.shape if op is elements else X.shape[:-1]
    for wrong in (shape[1:], (*shape[:-1], 1), (7,), *([(2, *shape)] if op is in_torch else [])):
        with pytest.raises(tg.ShapeError, match="seed"):
            op(X, P, seed=torch.zeros(wrong, dtype=torch.int64))


WRONG = {
    "dtype": (tg.DtypeError, "float32", lambda: in_torch(X, P, seed=torch.tensor(3.0))),
    "narrow": (tg.DtypeError, "int32", lambda: in_c(X, P, seed=torch.tensor(3, dtype=torch.int32))),
    "device": (tg.DeviceError, "is on meta, but", lambda: in_torch(X, P, seed=torch.tensor(3, device="meta"))),
    "bool": (tg.ArgumentError, "is no seed", lambda: in_torch(X, P, seed=True)),
    "negative": (tg.ArgumentError, "is no seed", lambda: in_torch(X, P, seed=-1)),
    "large": (tg.ArgumentError, "is no seed", lambda: in_torch(X, P, seed=2**63)),
    "string": (tg.ArgumentError, "is no seed", lambda: in_torch(X, P, seed="3")),
    "None": (tg.ArgumentError, "leave it out", lambda: in_torch(X, P, seed=None)),
    "both": (tg.ArgumentError, "one of the two", lambda: in_torch(X, P, seed=3, generator=torch.Generator())),
    "no generator": (tg.ArgumentError, "is no generator", lambda: in_torch(X, P, generator=3)),
    "generator of another device": (
        tg.DeviceError, "draws on cpu", lambda: in_torch(X.to("meta"), P, generator=torch.Generator()),
    ),
    "position": (TypeError, "positional", lambda: in_torch(X, P, 3)),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls(case):
    error, said, call = WRONG[case]
    with pytest.raises(error, match=said):
        call()


Row = Float[Tensor, "n"]


def by_position(x: Row, seed: tg.Seed = tg.drawn) -> Row: ...
def without_default(x: Row, *, seed: tg.Seed) -> Row: ...
def another_default(x: Row, *, seed: tg.Seed = 3) -> Row: ...
def another_type(x: Row, *, seed: int = tg.drawn) -> Row: ...
def two_seeds(x: Row, *, a: tg.Seed = tg.drawn, b: tg.Seed = tg.drawn) -> Row: ...
def a_generator(x: Row, generator: int, *, seed: tg.Seed = tg.drawn) -> Row: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (by_position, "passed by name"), (without_default, "tg.drawn"), (another_default, "seed: tg.Seed = tg.drawn"),
        (another_type, "expected: .*tg.Seed"), (two_seeds, "has two seeds"), (a_generator, "generator"),
    ],
)  # fmt: skip
def test_wrong_declarations(function, said):
    with pytest.raises(tg.DeclarationError, match=said):
        tg.op(function)


def test_what_a_mesh_cannot_cut():
    for options in ({"parallel": "n"}, {"reduction": "n"}):
        with pytest.raises(tg.DeclarationError, match="draws random numbers"):

            @tg.op(**options)
            def cut(x: Row, *, seed: tg.Seed = tg.drawn) -> Row: ...


def test_a_seed_has_no_derivative():
    with pytest.raises(tg.DeclarationError, match="not differentiable"):
        in_torch.vjp("seed")(lambda grad: grad)


def test_a_kernel_that_draws_by_itself():
    @tg.op
    def hidden(x: Row, *, seed: tg.Seed = tg.drawn) -> Row:
        return x * torch.rand_like(x)

    with pytest.raises(tg.KernelError, match=r"seed: tg\.Seed = tg\.drawn"):
        hidden(torch.ones(3))

    @tg.op
    def own(x: Row, *, seed: tg.Seed = tg.drawn) -> Row:
        return x * torch.rand(3, generator=torch.Generator().manual_seed(int(seed)))

    assert torch.equal(own(torch.ones(3), seed=4), own(torch.ones(3), seed=4))


# -- transforms -------------------------------------------------------------------------------------------------------


def in_order(function, *columns):
    return torch.stack([function(*row) for row in zip(*columns, strict=True)])


@every
@pytest.mark.parametrize("x", [X, X[:, 0]], ids=["batches", "samples"])
def test_vmap_honours_its_modes(op, x):
    of = {
        "call": lambda x: op(x, P),
        "gradient": torch.func.grad(lambda x: op(x, P).square().sum()),
        "tangent": lambda x: torch.func.jvp(lambda x: op(x, P), (x,), (x,))[1],
    }
    with pytest.raises(tg.UnsupportedError, match='randomness="different"'):
        torch.vmap(of["call"])(x)
    for name, function in of.items():
        torch.manual_seed(1)
        seed = torch.randint(2**63 - 1, ())
        torch.manual_seed(1)
        same = torch.vmap(function, randomness="same")(x)
        wanted = [gradient(op, row, seed=seed) if name == "gradient" else op(row, P, seed=seed) for row in x]
        torch.testing.assert_close(same, torch.stack(wanted), rtol=1e-14, atol=0)
        different = torch.vmap(function, randomness="different")(torch.ones(6, *x.shape[1:], 5))
        assert not any(torch.equal(kept(different[i]), kept(different[j])) for i in range(6) for j in range(i))


@every
def test_vmap_of_seeds_that_are_given(op):
    seeds = torch.tensor([3, 1, 4])
    call = {"both": (lambda x, s: op(x, P, seed=s), (0, 0)), "x": (lambda x, s: op(x, P, seed=7), (0, 0))}
    for function, dims in call.values():
        assert torch.equal(torch.vmap(function, dims)(X, seeds), in_order(function, X, seeds))
        moved = torch.vmap(function, (2, 0))(X.movedim(0, 2), seeds)
        assert torch.equal(moved, in_order(function, X, seeds))
    assert torch.equal(torch.vmap(lambda s: op(X, P, seed=s))(seeds), in_order(lambda s: op(X, P, seed=s), seeds))
    nested = torch.vmap(torch.vmap(lambda x, s: op(x, P, seed=s), (0, None)), (0, 0))(X, seeds)
    assert torch.equal(nested, in_order(lambda x, s: in_order(lambda row: op(row, P, seed=s), x), X, seeds))
    own = torch.arange(12).reshape(3, 4)
    nested = torch.vmap(torch.vmap(lambda x, s: op(x, P, seed=s)))(X, own)
    assert torch.equal(nested, in_order(lambda x, s: in_order(lambda r, t: op(r, P, seed=t), x, s), X, own))


@every
def test_nested_vmap_mixes_modes(op):
    x = torch.ones(4, 4, 25, dtype=torch.float64)
    made = torch.vmap(torch.vmap(lambda x: op(x, P), randomness="same"), randomness="different")(x)
    assert torch.equal(made[0, 0], made[0, 1])
    assert not torch.equal(made[0, 0], made[1, 0])
    made = torch.vmap(torch.vmap(lambda x: op(x, P), randomness="different"), randomness="same")(x)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0, 0], made[0, 1])
    with pytest.raises((tg.UnsupportedError, RuntimeError), match="randomness"):
        torch.vmap(torch.vmap(lambda x: op(x, P), randomness="same"), randomness="error")(x)


@every
def test_per_sample_gradients(op):
    weight = torch.randn(5, dtype=torch.float64)

    def loss(weight, x, seed):
        return op(weight * x, P, seed=seed).square().sum()

    seeds = torch.arange(3)
    made = torch.vmap(torch.func.grad(loss), (None, 0, 0))(weight, X[:, 0], seeds)
    torch.testing.assert_close(made, in_order(lambda x, s: torch.func.grad(loss)(weight, x, s), X[:, 0], seeds))


@pytest.mark.slow
@every
def test_jacobians_and_second_order(op):
    def function(x):
        return op(x, P, seed=2) ** 3

    def reference(x):
        return expected(op, x, 2) ** 3

    row = X[0, 0]
    wanted = torch.autograd.functional.jacobian(reference, row)
    torch.testing.assert_close(torch.func.jacrev(function)(row), wanted)
    torch.testing.assert_close(torch.func.jacfwd(function)(row), wanted)
    torch.testing.assert_close(torch.autograd.functional.jacobian(function, row, vectorize=True), wanted)
    leaf = X[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(function, leaf)
    if op is elements_in_c:  # Its partial derivative is in C, and so is refused.
        with pytest.raises(tg.DerivativeError):
            torch.func.hessian(lambda x: function(x).sum())(row)
        return
    hessian = torch.autograd.functional.hessian(lambda x: reference(x).sum(), row)
    torch.testing.assert_close(torch.func.hessian(lambda x: function(x).sum())(row), hessian)
    assert torch.autograd.gradgradcheck(function, leaf)


@pytest.mark.slow
@every
def test_forward_mode(op):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X, torch.ones_like(X))
        made = torch.autograd.forward_ad.unpack_dual(op(dual, P))
    assert torch.equal(kept(made.primal), kept(made.tangent))
    assert torch.equal(torch.func.linearize(lambda x: op(x, P, seed=3), X)[1](X), op(X, P, seed=3))


@every
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_draw_the_same_again(op, reentrant):
    leaf = X.clone().requires_grad_()
    out = torch.utils.checkpoint.checkpoint(lambda x: op(x, P) + op(x, P), leaf, use_reentrant=reentrant)
    out.sum().backward()
    torch.testing.assert_close(leaf.grad * X, out)


@pytest.mark.slow
@every
def test_functionalize_and_make_fx(op):
    assert torch.equal(torch.func.functionalize(lambda x: op(x, P, seed=3))(X), op(X, P, seed=3))
    graph = make_fx(lambda x: op(x, P))(X)
    assert redrawn(lambda: graph(X))
    symbolic = make_fx(lambda x: op(x, P, seed=3), tracing_mode="symbolic")(X[:2])
    assert torch.equal(symbolic(X), op(X, P, seed=3))


# -- compilers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def anew():
    """No memory of the same lines, compiled for another operator."""
    torch.compiler.reset()


@compiled_by
@pytest.mark.usefixtures("anew")
def test_compiled_code_draws_anew(op, backend):
    compiled = torch.compile(lambda x: op(x, P), backend=backend, fullgraph=True)
    assert redrawn(lambda: compiled(X))
    assert reproduced(lambda: compiled(X))
    leaf = X.clone().requires_grad_()
    out = compiled(leaf)
    assert torch.equal(kept(torch.autograd.grad(out.sum(), leaf)[0]), kept(out))
    checkpointed = torch.compile(
        lambda x: torch.utils.checkpoint.checkpoint(lambda x: op(x, P), x, use_reentrant=False),
        backend=backend, fullgraph=True,
    )  # fmt: skip
    out = checkpointed(leaf)
    assert torch.equal(kept(torch.autograd.grad(out.sum(), leaf)[0]), kept(out))
    mapped = torch.compile(
        lambda x: torch.vmap(lambda x: op(x, P), randomness="different")(x), backend=backend, fullgraph=True
    )
    ones = torch.ones(3, 25)
    assert redrawn(lambda: mapped(ones))
    assert not torch.equal(*kept(mapped(ones))[:2])


@compiled_by
@pytest.mark.usefixtures("anew")
def test_compiled_code_takes_seeds(op, backend):
    compiled = torch.compile(lambda x, s: op(x, P, seed=s), backend=backend, fullgraph=True, dynamic=True)
    for x, seed in ((X, 5), (X[:2], 6), (X[:, :3, :4], 2**62)):
        assert torch.equal(compiled(x, torch.tensor(seed)), op(x, P, seed=seed))
    constant = torch.compile(lambda x: op(x, P, seed=9), backend=backend, fullgraph=True)
    assert torch.equal(constant(X), op(X, P, seed=9))
    leaf = X.clone().requires_grad_()
    made = torch.autograd.grad(constant(leaf).square().sum(), leaf)[0]
    torch.testing.assert_close(made, gradient(op, X, seed=9), rtol=1e-14, atol=0)


@pytest.mark.slow
def test_a_generator_in_compiled_code():
    generator = torch.Generator().manual_seed(1)
    compiled = torch.compile(lambda x: in_torch(x, P, generator=generator), backend="aot_eager")
    made = compiled(X)  # torch breaks the graph at a generator, or takes it: never is its draw a constant.
    generator.manual_seed(1)
    assert torch.equal(in_torch(X, P, generator=generator), made)
    assert redrawn(lambda: compiled(X))


class Dropped(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x, P)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "strict"),
    [*((op, False) for op in ALL), *((op, True) for op in ENDS)],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
def test_exported_programs_draw_at_run_time(op, strict):
    program = torch.export.export(Dropped(op), (X,), strict=strict)
    for exported in (program, program.run_decompositions()):
        module = exported.module()
        assert redrawn(lambda module=module: module(X))
        assert reproduced(lambda module=module: module(X))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    assert redrawn(lambda: loaded(X))


# -- processes, modules, meshes ---------------------------------------------------------------------------------------


class Noisy(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return in_torch(torch.ones(40), P)


@pytest.mark.slow
def test_workers_of_a_data_loader_draw_differently():
    def load():
        torch.manual_seed(5)
        return torch.cat(list(DataLoader(Noisy(), num_workers=2, batch_size=1)))

    first = load()
    assert not any(torch.equal(first[i], first[j]) for i in range(4) for j in range(i))
    assert torch.equal(first, load())


def test_modules():
    Dropout = tg.module(in_c)
    module = Dropout(p=P)
    assert redrawn(lambda: module(X))
    assert torch.equal(module(X, seed=3), in_c(X, P, seed=3))
    assert reproduced(lambda: module(X))
    generator = torch.Generator()
    assert torch.equal(module(X, generator=generator.manual_seed(2)), in_c(X, P, generator=generator.manual_seed(2)))
    exported = torch.export.export(module, (X,)).module()
    assert redrawn(lambda: exported(X))


@pytest.mark.slow
@every
@pytest.mark.parametrize("ranks", [(2,), (3,), (2, 2)], ids=str)
def test_a_mesh_of_any_size_draws_the_same(op, ranks):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    wanted, wanted_gradient = op(X, P, seed=3), gradient(op, X, seed=3)
    with simulated(*ranks) as mesh:
        for first in (Replicate(), Shard(0), Shard(1), Shard(2)):
            given = distribute_tensor(X, mesh, [first, Replicate()][: len(ranks)]).requires_grad_()
            for seed in (3, torch.tensor(3)):
                out = op(given, P, seed=seed)
                assert torch.equal(out.full_tensor().reconcile(), wanted)
            made = torch.autograd.grad(out.square().sum(), given)[0]
            assert torch.equal(made.full_tensor().reconcile(), wanted_gradient)
            drawn = op(given, P)
            back = torch.autograd.grad(drawn.sum(), given)[0]
            whole = kept(drawn.full_tensor().reconcile())
            assert torch.equal(kept(back.full_tensor().reconcile()), whole)
            assert not torch.equal(whole[0], whole[1])


# -- other operators --------------------------------------------------------------------------------------------------


@tg.op
def sampler(n: int, *, seed: tg.Seed = tg.drawn) -> Float32[Tensor, "{n}"]:
    return tg.random_uniform(seed, n, dtype=torch.float32)


def test_an_operator_of_a_seed_alone():
    assert torch.equal(sampler(3, seed=4), tg.random_uniform(4, 3))
    assert not torch.equal(sampler(40), sampler(40))
    mapped = torch.vmap(lambda s: sampler(3, seed=s))(torch.arange(2))
    assert torch.equal(mapped, tg.random_uniform(torch.arange(2), 3))


@tg.op
def whole(x: Float[Tensor, "m n"], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "n m"]:
    return (x + tg.random_normal(seed, x.shape, dtype=x.dtype)).mT.contiguous()


@whole.vjp("x")
def _(grad):
    return grad.mT


def test_an_operator_without_batch_axes():
    seeds = torch.arange(3)
    wanted = torch.stack([whole(x, seed=int(s)) for x, s in zip(X, seeds, strict=True)])
    assert torch.equal(torch.vmap(lambda x, s: whole(x, seed=s))(X, seeds), wanted)
    same = torch.vmap(lambda x: whole(x), randomness="same")(X) - X.mT
    assert torch.allclose(same[0], same[1])
    different = torch.vmap(lambda x: whole(x), randomness="different")(X) - X.mT
    assert not torch.allclose(different[0], different[1])
    with pytest.raises(tg.ShapeError, match="0 axes"):
        whole(X[0], seed=seeds)


@tg.op(batch="loop")
def numpys(x: Float[np.ndarray, "n"], *, seed: tg.Seed = tg.drawn) -> Float[np.ndarray, "n"]:
    return (x + np.random.default_rng(int(seed)).normal(size=x.shape)).astype(x.dtype)


def test_numpys_own_generators_take_the_seed():
    state = np.random.get_state()[1].copy()
    assert not torch.equal(numpys(X), numpys(X))
    assert torch.equal(numpys(X, seed=3), numpys(X, seed=3))
    assert np.array_equal(np.random.get_state()[1], state)
    rows = numpys(torch.zeros(20, 3), seed=3)
    assert len(torch.unique(rows[:, 0])) == 20


@tg.op
def choosing(
    x: Float[Tensor, "*batch n"],
    scale: Float[Tensor, "*batch"] | None = None,
    *,
    key: tg.Seed = tg.drawn,
    p: float = 0.5,
) -> Float[Tensor, "*batch n"]:
    made = dropout_of(key, x, p)
    return made if scale is None else made * scale[..., None]


def dropout_of(key, x, p):
    return torch.where(tg.random_uniform(key, x.shape[-1:], dtype=torch.float64) < p, 0, x)


def test_other_names_and_optional_tensors():
    scale = torch.full((3, 4), 2.0, dtype=torch.float64)
    assert torch.equal(choosing(X, scale, key=1, p=0.2), 2 * choosing(X, key=1, p=0.2))
    assert redrawn(lambda: choosing(X))
    assert "key is drawn" in str(choosing)


def test_what_an_operator_says():
    assert "random   seed is drawn by torch's generator where it is left out; each sample along *batch" in str(in_c)
    assert "seed: Seed = drawn" in str(in_c)
    assert in_c.prototype().splitlines()[0] == "void in_c(int64_t n, const T *x, double p, int64_t seed, T *out)"
    assert elements_in_c.prototype().splitlines()[0] == "T elements_in_c(T x, double p, int64_t seed)"


@pytest.mark.slow
@pytest.mark.parametrize("op", [in_c, elements_in_c], ids=lambda op: op.__name__)
def test_the_debugger_draws_the_same(op):
    own = torch.arange(12).reshape(3, 4) if op is in_c else torch.arange(60).reshape(3, 4, 5)
    wanted = [op(X, P, seed=3), gradient(op, X, seed=3), op(X, P, seed=own), op(X[0, 0], P, seed=3)]
    with tg.debug():
        made = [op(X, P, seed=3), gradient(op, X, seed=3), op(X, P, seed=own), op(X[0, 0], P, seed=3)]
    assert all(map(torch.equal, made, wanted))


# -- a fuzzer ---------------------------------------------------------------------------------------------------------


def fuzz(seed):
    """A random composition of transforms, on all ways of writing the operator at once, against plain torch."""
    pick = random.Random(seed)
    group = pick.choice([ROWS, ELEMENTWISE])
    mapped = pick.randrange(3)
    shape = [pick.choice([1, 2, 3]) for _ in range(mapped + pick.randrange(3))] + [pick.choice([1, 3, 6])]
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    seeds = torch.randint(2**40, shape[: pick.randint(0, mapped)], generator=torch.Generator().manual_seed(seed))
    kind = pick.choice(["call", "grad", "jvp", "vjp of jvp"])

    def of(function):
        def call(x, s):
            if kind == "grad":
                return torch.func.grad(lambda x: function(x, s).square().sum())(x)
            if kind == "jvp":
                return torch.func.jvp(lambda x: function(x, s).square(), (x,), (x,))[1]
            if kind == "vjp of jvp":
                return torch.func.grad(
                    lambda x: torch.func.jvp(lambda x: function(x, s).square(), (x,), (x,))[1].sum()
                )(x)
            return function(x, s)

        for level in reversed(range(mapped)):
            call = torch.vmap(call, in_dims=(0, 0 if level < seeds.dim() else None))
        return call(x, seeds)

    wanted = of(lambda x, s: plain_traceable(x, s, elementwise=group is ELEMENTWISE))
    for op in group:
        with (
            contextlib.nullcontext()
            if op is not elements_in_c or "of" not in kind
            else pytest.raises(tg.DerivativeError)
        ):
            torch.testing.assert_close(
                of(lambda x, s, op=op: op(x, P, seed=s)), wanted, rtol=1e-12, atol=1e-12, msg=f"{seed}: {op.__name__}"
            )


def plain_traceable(x, seed, *, elementwise):
    batch = x.shape if elementwise else x.shape[:-1]
    if batch:
        seed = tg.random_fold(seed[(None,) * len(batch)], torch.arange(batch.numel()).reshape(batch))
    shape = () if elementwise else x.shape[-1:]
    return torch.where(tg.random_uniform(seed, shape, dtype=torch.float64) < P, 0, x / (1 - P))


@pytest.mark.parametrize("seed", range(25))
def test_random_compositions(seed):
    fuzz(seed)


@pytest.mark.parametrize("op", [in_torch, in_c, looped, in_numpy, elements, elements_in_c], ids=lambda op: op.__name__)
@pytest.mark.slow
def test_checks_pass(op):
    report = tg.check(op)
    assert report.ok, str(report)
