"""Classes made by `tg.module`: what their constructors take, what their tensors are, and that they are `nn.Module`s."""

import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import torchgraft as tg
from tests.nn.operators import (
    Affine,
    Correlate2d,
    Linear,
    Renamed,
    Scale,
    Shift,
    Square,
    affine,
    broadcast,
    exact,
    keyword,
    linear,
    rotate,
    rows_and_columns,
)


@pytest.fixture
def layer() -> nn.Module:
    torch.manual_seed(0)
    return Linear(4, 3)


# -- constructor --------------------------------------------------------------------------------------------------


def test_axes_come_in_the_order_of_the_signature():
    assert list(inspect.signature(Linear).parameters) == ["n", "m", "bias", "device", "dtype"]
    assert list(inspect.signature(Affine).parameters) == ["n", "power", "shift", "offset", "device", "dtype"]
    assert list(inspect.signature(Correlate2d).parameters) == ["kh", "kw", "device", "dtype"]
    assert Linear(n=4, m=3).weight.shape == Linear(4, 3).weight.shape == (3, 4)


def test_names_and_docstring():
    assert (Linear.__name__, Correlate2d.__name__, Renamed.__name__) == ("Linear", "Correlate2d", "Renamed")
    assert Linear.__module__ == "tests.nn.operators"
    assert "Affine map" in Linear.__doc__
    assert 'weight: Float[Tensor, "m n"]' in Linear.__doc__
    assert list(inspect.signature(Linear.forward).parameters) == ["self", "input"]


def test_shapes_are_computed():
    module = tg.module(exact, parameters=("weight",))(n=3, k=2)
    assert module.weight.shape == (6, 5)
    assert module.weight.dtype == torch.float64
    assert tg.module(broadcast, parameters=("weight",))(n=3).weight.shape == (3,)


def test_arguments_are_attributes_and_shown():
    module = Affine(4, power=2)
    assert (module.n, module.power, module.shift) == (4, 2, 1.0)
    assert repr(module) == "Affine(n=4, power=2, shift=1.0, offset=True)"
    assert repr(Linear(2, 3, bias=False)) == "Linear(n=2, m=3, bias=False)"


def test_a_switch_that_is_off_registers_none():
    module = Linear(4, 3, bias=False)
    assert module.bias is None
    assert dict(module.named_parameters()).keys() == {"weight"}
    x = torch.randn(2, 4)
    torch.testing.assert_close(module(x), x @ module.weight.T)


def test_buffers():
    module = Affine(4, 2)
    assert dict(module.named_buffers()).keys() == {"mean", "steps"}
    assert module.steps.dtype == torch.int64
    assert module.steps.shape == ()
    assert not module.mean.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_dtypes(dtype: torch.dtype):
    assert Linear(4, 3, dtype=dtype).weight.dtype == dtype
    assert Linear(4, 3).weight.dtype == torch.get_default_dtype()
    assert Affine(4, 2, dtype=dtype).steps.dtype == torch.int64
    if dtype != torch.float16:  # whose complex twin no annotation admits
        phase = tg.module(rotate, parameters=("phase",))(4, 3, dtype=dtype).phase
        assert phase.is_complex()
        assert phase.real.dtype == dtype


def test_default_dtype_and_device_are_torchs():
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            module = Linear(4, 3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert module.weight.dtype == torch.float64
    assert module.weight.is_meta
    module.to_empty(device="cpu").reset_parameters()
    assert module.weight.abs().max() <= 0.5


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m"), [(4, 3), (1, 5), (16, 1)])
def test_the_default_is_that_of_nn_linear(n: int, m: int):
    torch.manual_seed(1)
    ours = Linear(n, m)
    torch.manual_seed(1)
    theirs = nn.Linear(n, m)
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


def test_fan_in_is_what_is_summed_over():
    torch.manual_seed(0)
    kernels = torch.stack([Correlate2d(3, 5).kernel.detach() for _ in range(200)])
    bound = 15**-0.5
    assert 0.95 * bound < kernels.abs().max() <= bound
    squares = Square(25).weight  # "n n", of which the output has one
    assert 0.95 / 5 < squares.abs().max() <= 1 / 5
    scales = Affine(2000, 2).scale  # an axis of the output: nothing is summed
    assert 0.95 < scales.abs().max() <= 1


def test_an_axis_of_two_outputs_is_one_axis():
    weight = tg.module(rows_and_columns, parameters=("weight",))(25).weight
    assert 0.95 / 5 < weight.abs().max() <= 1 / 5


def test_complex_parameters():
    phase = tg.module(rotate, parameters=("phase",))(64, 64).phase.detach()
    assert phase.abs().max() <= 1 / 8
    assert phase.real.std().item() == pytest.approx(phase.imag.std().item(), rel=0.1)
    assert phase.abs().square().mean().item() == pytest.approx(1 / (3 * 64), rel=0.1)  # that of U(-1/8, 1/8)


def test_no_inputs_no_infinity():
    assert Linear(0, 3).bias.tolist() == [0, 0, 0]
    assert Linear(0, 3)(torch.empty(2, 0)).tolist() == [[0, 0, 0]] * 2


def test_init_replaces_the_default():
    module = Renamed(4, 3)
    assert module.weight.tolist() == [[1] * 4] * 3
    made = tg.module(
        affine, ("scale", "offset"), ("mean", "steps"), init={"mean": nn.init.ones_, "offset": nn.init.zeros_}
    )
    module = made(4, 2)
    assert module.mean.tolist() == [1] * 4
    assert module.offset.tolist() == [0] * 4
    with torch.no_grad():
        module.mean.fill_(5)
    module.reset_parameters()
    assert module.mean.tolist() == [1] * 4


def test_forward_is_the_operator():
    module, x = Affine(4, power=3, shift=0.5), torch.randn(2, 4)
    expected = affine(x, module.scale, module.mean, module.steps, 3, module.offset, 0.5)
    assert torch.equal(module(x), expected)
    by_keyword = tg.module(keyword, parameters=("weight",))(4, gain=3.0)
    assert torch.equal(by_keyword(x[0]), keyword(x[0], weight=by_keyword.weight, gain=3.0))


def test_parameters_by_which_forward_has_none_of_its_own():
    module = tg.module(linear)()
    x, weight = torch.randn(2, 4), torch.randn(3, 4)
    assert torch.equal(module(x, weight), linear(x, weight))
    assert list(inspect.signature(module.forward).parameters) == ["input", "weight", "bias"]


# -- a citizen of torch.nn ------------------------------------------------------------------------------------------


def test_state_dict(layer: nn.Module):
    state = layer.state_dict()
    assert list(state) == ["weight", "bias"]
    other = Linear(4, 3)
    other.load_state_dict(state)
    assert torch.equal(other.weight, layer.weight)
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        Linear(4, 2).load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*bias"):
        Linear(4, 3, bias=False).load_state_dict(state)


def test_copies(layer: nn.Module):
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=False)
    for other in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer)), saved):
        assert type(other) is Linear
        assert torch.equal(other.weight, layer.weight)
        assert repr(other) == repr(layer)
    assert copy.deepcopy(layer).weight is not layer.weight


def test_conversions(layer: nn.Module):
    x = torch.randn(2, 4)
    expected = layer(x)
    torch.testing.assert_close(layer.to(torch.float64)(x.double()).float(), expected)
    assert layer.half()(x.half()).dtype == torch.float16
    assert Affine(4, 2).half().steps.dtype == torch.int64


@pytest.mark.slow
def test_compile_and_export(layer: nn.Module):
    x = torch.randn(2, 4)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))
    compiled(x).sum().backward()
    assert layer.bias.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        layer.weight.add_(1)  # no constant of the graph
    torch.testing.assert_close(compiled(x), layer(x))
    exported = torch.export.export(layer, (x,)).module()
    torch.testing.assert_close(exported(x), layer(x))


@pytest.mark.slow
def test_two_modules_in_one_graph():
    scale, shift, x = Scale(3), Shift(3), torch.randn(3)
    for network in (nn.Sequential(scale, shift), lambda x: shift(scale(x))):
        torch.compiler.reset()
        compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), x * scale.w + shift.w)


class Doubled(Linear):
    def __init__(self, n: int) -> None:
        super().__init__(n=n, m=n, bias=False)
        self.gain = nn.Parameter(torch.tensor(2.0))

    def forward(self, input: Tensor) -> Tensor:
        return self.gain * super().forward(input)


class Unfinished(Linear):
    def __init__(self) -> None:
        nn.Module.__init__(self)


def test_subclasses():
    module, x = Doubled(4), torch.randn(4)
    torch.testing.assert_close(module(x), 2 * module.weight @ x)
    assert repr(module) == "Doubled(n=4, m=4, bias=False)"
    assert list(inspect.signature(Doubled).parameters) == ["n"]
    assert type(pickle.loads(pickle.dumps(module))) is Doubled
    assert repr(Unfinished()) == "Unfinished(n=None, m=None, bias=False)"


class Symmetric(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.triu() + x.triu(1).mT


def test_parametrize():
    layer, x = Linear(3, 3), torch.randn(3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    torch.testing.assert_close(layer.weight, layer.weight.T)
    torch.testing.assert_close(layer(x), layer.weight @ x + layer.bias)
    layer(x).sum().backward()
    assert layer.parametrizations.weight.original.grad.any()
    assert "bias=True" in repr(layer)


def test_weight_norm_and_prune(layer: nn.Module):
    x = torch.randn(4)
    parametrizations.weight_norm(layer)
    torch.testing.assert_close(layer(x), layer.weight @ x + layer.bias)
    other = Linear(4, 3)
    prune.l1_unstructured(other, "weight", amount=6)
    assert (other.weight == 0).sum() == 6
    torch.testing.assert_close(other(x), other.weight @ x + other.bias)


def test_functional_call(layer: nn.Module):
    x = torch.randn(2, 4)
    stacked = {name: torch.stack([p.detach(), 2 * p.detach()]) for name, p in layer.named_parameters()}
    out = torch.vmap(lambda params: torch.func.functional_call(layer, params, (x,)))(stacked)
    torch.testing.assert_close(out[0], layer(x))
    torch.testing.assert_close(out[1], 2 * layer(x))

    def loss(params: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layer, params, (x,)).sum()

    gradients = torch.func.grad(loss)({name: p.detach() for name, p in layer.named_parameters()})
    torch.testing.assert_close(gradients["weight"], x.sum(0).expand(3, 4))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS])
def test_optimizers(optimizer: type[torch.optim.Optimizer]):
    torch.manual_seed(0)
    network = nn.Sequential(Linear(4, 8), nn.Tanh(), Linear(8, 1))
    x, steps = torch.randn(16, 4), optimizer(network.parameters(), lr=0.05)

    def loss() -> Tensor:
        steps.zero_grad()
        value = (network(x)[:, 0] - x.sum(1)).square().mean()
        value.backward()
        return value

    before = loss().item()
    for _ in range(30):
        steps.step(loss)
    assert loss().item() < before / 2


def test_hooks(layer: nn.Module):
    seen = []
    layer.register_forward_pre_hook(lambda module, args: seen.append("before"))
    layer.register_forward_hook(lambda module, args, out: out * 0)
    assert not layer(torch.ones(4)).any()
    assert seen == ["before"]


def test_skip_init_and_checkpoint():
    layer = nn.utils.skip_init(Linear, 4, 3)
    assert layer.weight.shape == (3, 4)
    nn.init.normal_(layer.weight)  # until here it is memory as it was found, NaN among it
    nn.init.zeros_(layer.bias)
    x = torch.randn(2, 4, requires_grad=True)
    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(2, 4))
