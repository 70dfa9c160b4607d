"""Rules that are meant to be the derivative of another function: proved against that one."""

import sys
import types

import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

import torchgraft as tg
from torchgraft import cli

from ..default import by_default

V = torch.tensor([[0.3, -0.2, 1.1], [-0.7, 0.05, 0.4]], dtype=torch.float64)


def smooth(v, *_):
    return torch.sigmoid(4 * v)


def identity(x, *args):
    return x


class Spike(torch.autograd.Function):
    """1 above the threshold, with the derivative of a sigmoid times a factor."""

    @staticmethod
    def forward(ctx, v, factor=1.0):
        ctx.save_for_backward(v)
        ctx.factor = factor
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        s = smooth(v)
        return ctx.factor * grad * 4 * s * (1 - s), None


class Round(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-0.25, 0.25)

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.mark.usefixtures("unexplained")
@pytest.mark.parametrize("dtype", by_default([torch.float64, torch.float32], lambda dtype: dtype == torch.float64))
@pytest.mark.parametrize(
    ("function", "args", "name", "of"),
    by_default(
        [
            (Spike, (), "v", lambda v: smooth(v)),
            (Round, (), "x", lambda x: x),
            (Clip, (), "x", lambda x: x),
            (Reverse, (0.5,), "x", lambda x, strength: -strength * x),
        ],
        lambda function, *_: function in (Spike, Reverse),
        lambda function, *_: function.__name__,
    ),
)
def test_a_rule_is_proved_against_its_surrogate(function, args, name, of, dtype):
    plain = tg.check(function.apply, V.to(dtype), *args, only="gradient")
    assert plain.verdict is tg.Verdict.FAIL
    report = tg.check(function.apply, V.to(dtype), *args, surrogate={name: of})
    assert report.headline == f"PASS ({name}: surrogate of <lambda>)", str(report)
    tried = {result.check for result in report.results if result.verdict is tg.Verdict.PASS}
    assert {"gradient", "second order", "sizes", "ties", "freed", "vmap"} - tried <= {"vmap"}


class Quantize(torch.autograd.Function):
    """Rounding with a step that is learned: straight-through for `x`, and the rest of a division for `step`."""

    @staticmethod
    def forward(ctx, x, step, factor=1.0):
        ctx.save_for_backward(x, step)
        ctx.factor = factor
        return (x / step).round() * step

    @staticmethod
    def backward(ctx, grad):
        x, step = ctx.saved_tensors
        part = x / step
        return grad, (grad * ctx.factor * (part.round() - part)).sum(), None


def detached(x, step, *_):
    part = x / step
    return (part + (part.round() - part).detach()) * step


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, tg.Verdict.PASS), (1.001, tg.Verdict.FAIL), (-1.0, tg.Verdict.FAIL)]
)
def test_a_surrogate_that_detaches_a_part_means_what_autograd_gives(factor, verdict):
    step = torch.tensor(0.7, dtype=torch.float64)
    report = tg.check(Quantize.apply, 3 * V, step, factor, surrogate={"x": detached, "step": detached}, only="gradient")
    assert report.verdict is verdict, str(report)


def test_a_derivative_of_its_own_is_no_surrogate():
    step = torch.tensor(0.7, dtype=torch.float64)
    with pytest.raises(tg.ArgumentError, match="a derivative of its own") as caught:
        tg.check(Quantize.apply, 3 * V, step, surrogate={"x": Quantize.apply}, only="gradient")
    assert caught.value.got == "Quantize"


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.001, -1.0, 0.0])
def test_a_rule_that_is_not_the_derivative_of_its_surrogate_fails(factor):
    report = tg.check(Spike.apply, V, factor, surrogate={"v": smooth}, only="gradient")
    assert report.headline == "FAIL (v: surrogate of smooth)"
    assert report.findings[0].code == "wrong-gradient"


@pytest.mark.slow
def test_a_second_derivative_is_that_of_the_surrogate():
    class Detached(Spike):
        @staticmethod
        def backward(ctx, grad):
            (v,) = ctx.saved_tensors
            s = smooth(v.detach())
            return grad * 4 * s * (1 - s), None

    report = tg.check(Detached.apply, V, surrogate={"v": smooth}, only=("gradient", "second order"))
    assert {r.check: r.verdict for r in report.results}["gradient"] is tg.Verdict.PASS
    assert report.verdict is tg.Verdict.FAIL


class Gate(torch.autograd.Function):
    """The product with a spike; the rule of the other factor is a plain one."""

    @staticmethod
    def forward(ctx, v, x, factor):
        ctx.save_for_backward(v, x)
        ctx.factor = factor
        return (v > 0).to(v.dtype) * x

    @staticmethod
    def backward(ctx, grad):
        v, x = ctx.saved_tensors
        s = smooth(v)
        return grad * 4 * s * (1 - s) * x, ctx.factor * grad * (v > 0), None


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, tg.Verdict.PASS), (1.01, tg.Verdict.FAIL)])
def test_other_arguments_are_proved_against_the_function_itself(factor, verdict):
    meant = {"v": lambda v, x, factor: smooth(v) * x}
    report = tg.check(Gate.apply, V, V.cos(), factor, surrogate=meant, skip="options")
    assert report.verdict is verdict, str(report)
    assert all("`x`" in finding.title for finding in report.findings if finding.code == "wrong-gradient")


class Pushed(Spike):
    """Forward mode of the spike, with a factor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(v, factor):
        return (v > 0).to(v.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        v, ctx.factor = inputs
        ctx.save_for_backward(v)
        ctx.save_for_forward(v)

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        s = smooth(v)
        return grad * 4 * s * (1 - s), None

    @staticmethod
    def jvp(ctx, tangent, factor):
        (v,) = ctx.saved_tensors
        s = smooth(v)
        return ctx.factor * tangent * 4 * s * (1 - s)


@pytest.mark.parametrize(("factor", "code"), [(1.0, set()), (1.5, {"wrong-tangent"})])
def test_forward_mode_is_that_of_the_surrogate(factor, code):
    report = tg.check(Pushed.apply, V, factor, surrogate={"v": smooth}, only=("gradient", "forward mode", "vmap"))
    assert {finding.code for finding in report.findings} >= code
    assert report.ok is not bool(code), str(report)


# -- where they are declared ------------------------------------------------------------------------------------------


def spiking(**options):
    @tg.op(**options)
    def spike(v: Float[Tensor, "..."], x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return (v > 0).to(v.dtype) * x

    @spike.partial("x")
    def _(v, x):
        return (v > 0).to(v.dtype)

    return spike


def meant(v, x):
    return smooth(v) * x


@pytest.mark.slow
def test_an_operator_declares_its_surrogate():
    spike = spiking()

    @spike.surrogate("v", of=meant)
    def _(grad, v, x):
        s = smooth(v)
        return (grad * 4 * s * (1 - s) * x).sum_to_size(v.shape)

    assert "spike.vjp[v] on tensors, reads grad, v, x; surrogate of meant" in str(spike)
    report = tg.check(spike, V, V.cos())
    assert report.headline == "PASS (v: surrogate of meant)", str(report)


def test_a_surrogate_stands_above_a_rule_of_another_kind():
    spike = spiking()

    @spike.surrogate("v", of=meant)
    @spike.partial("v")
    def slope(v, x):
        s = smooth(v)
        return 4 * s * (1 - s) * x

    assert "spike.partial[v]" in str(spike)
    report = tg.check(spike, only=("gradient", "second order"))
    assert report.headline == "PASS (v: surrogate of meant)", str(report)
    with pytest.raises(tg.DeclarationError, match="already"):
        spike.surrogate("x", of=meant)(lambda grad: grad)


@pytest.mark.parametrize(("name", "of"), [("w", meant), ("v", 3), ("v", None)])
def test_an_operator_refuses_what_is_no_surrogate(name, of):
    with pytest.raises(tg.DeclarationError):
        spiking().surrogate(name, of=of)


class Quantized(nn.Module):
    """A layer with rounded weights and spikes, each with a straight-through estimator."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(V.clone())

    def forward(self, x):
        return Round.apply(8 * x) @ Round.apply(8 * self.weight).mT / 64


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros_like(V))

    def forward(self, x):
        return Round.apply(8 * x) @ self.weight.mT / 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "only"), [(Plain(), ()), (lambda x, weight: Round.apply(8 * x) @ weight.mT / 8, "gradient")]
)
def test_parameters_and_inputs_of_modules_have_surrogates(of, only):
    inputs = {"x": lambda x, weight: x @ Round.apply(8 * weight).mT / 8}
    report = tg.check(Quantized(), V.cos(), surrogate={"weight": of, **inputs}, only=only)
    assert report.ok, str(report)
    assert not tg.check(Quantized(), V.cos(), surrogate=inputs, only="gradient").ok


@pytest.mark.slow
def test_a_function_has_an_attribute():
    class Declared(Spike):
        surrogate = types.MappingProxyType({"v": smooth})

    assert tg.check(Declared.apply, V, only="gradient").headline == "PASS (v: surrogate of smooth)"
    wrong = tg.check(Declared.apply, V, surrogate={"v": identity}, only="gradient")
    assert wrong.headline == "FAIL (v: surrogate of identity)"


@pytest.mark.parametrize(
    ("surrogate", "error", "said"),
    [
        ({"w": smooth}, tg.ArgumentError, "w"),
        ({"factor": smooth}, tg.ArgumentError, "factor"),
        ({"v": lambda v: v.sum()}, tg.ShapeError, r"float64\[\]"),
        ({"v": lambda: 1}, tg.ArgumentError, "TypeError"),
        ({"v": 3}, tg.ArgumentError, "3"),
        (smooth, tg.ArgumentError, "smooth"),
    ],
)
def test_what_is_no_surrogate_is_refused(surrogate, error, said):
    with pytest.raises(error, match=said) as caught:
        tg.check(Spike.apply, V, surrogate=surrogate)
    assert caught.value.argument == "surrogate"
    assert caught.value.expected


# -- the way to them --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("function", "name"), [(Round, "x"), (Spike, "v")])
def test_a_flat_function_with_a_gradient_is_told_of_surrogates(function, name):
    (finding,) = tg.check(function.apply, V, only="gradient").findings
    assert f'surrogate={{"{name}": ...}}' in finding.hint


def test_an_operator_is_told_of_its_own_word():
    spike = spiking()

    @spike.vjp("v")
    def _(grad, v, x):
        return (grad * smooth(v) * x).sum_to_size(v.shape)

    hints = [finding.hint or "" for finding in tg.check(spike, V, V.cos(), only="gradient").findings]
    assert any('@f.surrogate("v", of=...)' in hint for hint in hints)


@pytest.mark.slow
def test_a_wrong_surrogate_is_shown_again():
    (finding,) = tg.check(Spike.apply, V, 2.0, surrogate={"v": smooth}, only="gradient").findings
    assert "surrogate={'v': smooth}" in finding.repro
    assert f"from {__name__} import smooth" in finding.repro
    printed = []
    exec(finding.repro.replace("print(", "printed.append("), {"printed": printed})
    assert printed[0].headline == "FAIL (v: surrogate of smooth)"


def test_a_surrogate_without_a_name_is_a_name_to_fill_in():
    (finding,) = tg.check(Spike.apply, V, 2.0, surrogate={"v": lambda v, x: smooth(v) * 3}, only="gradient").findings
    assert "\n# smooth is " in finding.repro
    assert "surrogate={'v': smooth}" in finding.repro
    printed = []
    exec(finding.repro.replace("print(", "printed.append("), {"printed": printed, "smooth": lambda v, x: smooth(v) * 3})
    assert not printed[0].ok


# -- the command ------------------------------------------------------------------------------------------------------

FILE = """
import torch


def smooth(v):
    return torch.sigmoid(4 * v)


class Spike(torch.autograd.Function):
    {declared}

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, grad):
        s = smooth(*ctx.saved_tensors)
        return grad * 4 * s * (1 - s)

    @staticmethod
    def samples(generator):
        yield torch.randn(3, dtype=torch.float64, generator=generator)
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Write the file and check it by the command."""
    monkeypatch.chdir(tmp_path)

    def run(declared, *options):
        (tmp_path / "spiking.py").write_text(FILE.format(declared=declared))
        for name in [name for name, module in sys.modules.items() if "spiking.py" in str(module)]:
            del sys.modules[name]
        status = cli.main(["check", "spiking.py", *options])
        return status, capsys.readouterr()

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("declared", "options"),
    [
        ('surrogate = {"v": smooth}', ()),
        ("", ("--surrogate", "v=spiking.py:smooth", "--only", "gradient")),
        ("", ("--surrogate", "v=spiking.py:smooth", "--only", "gradient", "--isolate")),
    ],
)
def test_the_command_takes_surrogates(command, declared, options):
    status, said = command(declared, *options)
    assert status == 0, said
    assert said.out.startswith("PASS ")
    assert "(v: surrogate of smooth)" in said.out


def test_the_command_shows_a_surrogate_in_what_shows_a_finding_again(command):
    status, said = command("", "--surrogate", "w=spiking.py:smooth")
    assert status == 1
    assert "there is no argument of this name" in said.out
    assert "--surrogate w=spiking.py:smooth" in said.out


@pytest.mark.parametrize("text", ["v", "v=spiking.py", "v=spiking.py:rough", "v=nowhere:smooth"])
def test_the_command_refuses_what_is_no_surrogate(command, text):
    status, said = command("", "--surrogate", text)
    assert status == 2, said
    assert text.partition("=")[2].partition(":")[0] in said.err


def test_the_command_takes_an_accuracy(command):
    status, said = command('surrogate = {"v": smooth}', "--accuracy", "1e-6", "--only", "gradient")
    assert (status, "(to 1e-06, v: surrogate of smooth)" in said.out) == (0, True), said
    status, said = command("", "--accuracy", "2")
    assert (status, "between 0 and 1" in said.err) == (2, True), said


def clipped(x, scale, zero=0):
    return x.clamp((-8 - zero) * scale, (7 - zero) * scale)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_module_declares_what_its_operator_declares(wrong):
    """Its surrogates, for inputs and parameters, and the domain of a parameter."""

    @tg.op
    @tg.domain(scale="positive")
    def quantized(x: Float[Tensor, "*batch n"], scale: Float[Tensor, "n"], zero: int = 0) -> Float[Tensor, "*batch n"]:
        return ((x / scale).round() + zero).clamp(-8, 7).sub(zero) * scale

    @quantized.surrogate("x", of=clipped)
    def _(grad, x, scale, zero):
        return grad * ((x >= (-8 - zero) * scale) & (x <= (7 - zero) * scale))

    @quantized.surrogate("scale", of=clipped)
    def _(grad, x, scale, zero):
        low, high = -8 - zero, 7 - zero + wrong
        return (grad * (low * (x < low * scale) + high * (x > (high - wrong) * scale))).sum_to_size(scale.shape)

    module = tg.module(quantized, ["scale"], init={"scale": lambda t: nn.init.constant_(t, 0.1)})
    report = tg.check(module(n=3, zero=3, dtype=torch.float64), V, only=("gradient", "values", "combinations"))
    verdict = "FAIL" if wrong else "PASS"
    assert report.headline == f"{verdict} (x: surrogate of clipped, scale: surrogate of clipped)", str(report)
