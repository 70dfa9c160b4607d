"""What callers of operators write: type checkers refuse the lines that end with ``# wrong``, and no others."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, assert_type

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

import torchgraft as tg
from torchgraft.scipy import fft, special

t = torch.ones(2)

# -- kernels on tensors ---------------------------------------------------------------------------------------------


@tg.op
def scale(x: Float[Tensor, "*batch n"], w: Float[Tensor, "n"], c: float = 1.0) -> Float[Tensor, "*batch n"]:
    """Scale rows."""
    return x * w * c


@scale.vjp("x")
def _(grad: Tensor, w: Tensor, c: float) -> Tensor:
    return grad * w * c


assert_type(scale(t, t), Tensor)
assert_type(scale(t, t, 2.0), Tensor)
assert_type(scale(t, w=t, c=2.0), Tensor)
scale(t)  # wrong
scale(t, "a")  # wrong
scale(t, t, "a")  # wrong
scale(t, t, 1.0, 2.0)  # wrong
scale(t, t, k=3)  # wrong
scale(t, t).nothing()  # wrong
scale.vjp(1)  # wrong


class Polar(NamedTuple):
    radius: Float[Tensor, "n"]
    angle: Float[Tensor, "n"]


@tg.op(name="to_polar")
def polar(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Polar:
    return Polar(torch.hypot(x, y), torch.atan2(y, x))


assert_type(polar(t, t), Polar)
assert_type(polar(t, t).radius, Tensor)
polar(t, t).height.sum()  # wrong
polar(t)  # wrong


@dataclass
class State:
    position: Float[Tensor, "n"]
    mass: float = 1.0


class Step(NamedTuple):
    state: State
    time: float


@tg.op
def energy(state: State, step: Step, c: float = 1.0) -> Float[Tensor, "n"]:
    return c * state.mass * state.position


@energy.vjp("state")
def _(grad: Tensor, state: State, c: float) -> State:
    return State(c * state.mass * grad)


state = State(t)
step = Step(state, 0.5)
assert_type(energy(state, step), Tensor)
assert_type(energy(state=state, step=step, c=2.0), Tensor)
energy(t, step)  # wrong
energy({"position": t}, step)  # wrong
energy((t, 1.0), step)  # wrong
energy(state, state)  # wrong
energy(State(1.0), step)  # wrong
energy(state, step).position.sum()  # wrong


@tg.op
def hypot(x: Float[Tensor, "..."] | float, y: Float[Tensor, "..."] | float) -> Float[Tensor, "..."]:
    return torch.hypot(torch.as_tensor(x), torch.as_tensor(y))


assert_type(hypot(t, 2.0), Tensor)
hypot("a", t)  # wrong


@tg.op
def split(x: Float[Tensor, "n"], lengths: list[int]) -> list[Float[Tensor, "_"]]:
    return list(x.split(lengths))


assert_type(split(t, [1, 1]), list[Tensor])
assert_type(split(t, [1, 1])[0], Tensor)
split(t, [1, 1]).sum()  # wrong
split(t)  # wrong


@tg.op
def split_arrays(x: Float[np.ndarray, "n"], lengths: list[int]) -> list[Float[np.ndarray, "_"]]:
    return [x[:1], x[1:]]


assert_type(split_arrays(t, [1, 1]), list[Tensor])
split_arrays(t, [1, 1]).sum()  # wrong


@tg.op
def unit(
    xs: list[Float[Tensor, "_"]],
) -> tuple[list[Float[Tensor, "_"]], tg.Saved[Float[Tensor, ""], Literal["norm"]]]:
    norm = torch.stack([x.square().sum() for x in xs]).sum().sqrt()
    return [x / norm for x in xs], norm


assert_type(unit([t, t]), list[Tensor])


class Clipped(NamedTuple):
    parts: list[Float[Tensor, "_"]]
    norm: Float[Tensor, ""]


@tg.op
def clip(x: Float[Tensor, "n"]) -> Clipped:
    return Clipped([x / x.norm()], x.norm())


assert_type(clip(t).parts, list[Tensor])
assert_type(clip(t), Clipped)


@tg.op
def pool(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, ""], tg.Saved[Int64[Tensor, ""], Literal["index"]]]:
    return x.amax(), x.argmax()


assert_type(pool(t), Tensor)
pool(t).nothing()  # wrong


@tg.op(data_dependent="k <= n")
def positive(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "k"], Int64[Tensor, "k"]]:
    return x[x > 0], torch.nonzero(x > 0)[:, 0]


assert_type(positive(t), tuple[Tensor, Tensor])
positive(t, t)  # wrong
tg.op(data_dependent=["k"])  # wrong


@tg.op
def both(x: Float[Tensor, "n"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    return x.sin(), x.cos()


assert_type(both(t), tuple[Tensor, Tensor])
both(t).sum()  # wrong


@tg.op
def axpy_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"], a: float) -> None:
    y.add_(x, alpha=a)


assert_type(axpy_(t, t, 2.0), None)
axpy_(t, a=2.0)  # wrong
axpy_(2.0, t, 2.0)  # wrong

# -- kernels on arrays: callers give tensors --------------------------------------------------------------------------


@tg.op
def product(x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"], k: int = 1) -> Float[np.ndarray, "n"]:
    return np.asarray(x * y)


@tg.op(batch="loop")
def shift(
    x: Float[np.ndarray, "n"], bias: Float[np.ndarray, "n"] | None = None, mode: str = "a"
) -> Float[np.ndarray, "n"]:
    return x if bias is None else x + bias


@tg.op
def halves(x: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    return x, x


assert_type(product(t, t), Tensor)
assert_type(product(t, t, 2), Tensor)
assert_type(product(t, t, k=2), Tensor)
assert_type(product(x=t, y=t), Tensor)
assert_type(product(t, y=t, k=3), Tensor)
assert_type(shift(t), Tensor)
assert_type(shift(t, t), Tensor)
assert_type(shift(t, None), Tensor)
assert_type(shift(t, mode="b"), Tensor)
assert_type(shift(t, bias=t), Tensor)
assert_type(halves(t), tuple[Tensor, Tensor])


@tg.op
def scale_(y: tg.Mutated[Float[np.ndarray, "n"]], x: Float[np.ndarray, "n"]) -> Float[np.ndarray, ""]:
    y *= x
    return np.asarray(y.sum())


@tg.op(batch="loop")
def clear_(y: tg.Mutated[Float[np.ndarray, "n"]], x: Float[np.ndarray, "n"]) -> None:
    y[:] = x


assert_type(scale_(t, t), Tensor)
clear_(t, t)
scale_(t, "a")  # wrong
product(t)  # missed: arrays may be given by name, of which no type says how many there are
product(t, "a")  # wrong
product(t, t, "a")  # wrong
product(t, t, j=3)  # wrong
product(t, t, 1, 2)  # wrong
shift(t, "a")  # wrong
shift(t, t, 3)  # wrong
halves(t).sum()  # wrong

# -- kernels in C: stubs ---------------------------------------------------------------------------------------------


@tg.op(kernel=tg.c("double cube(double x) { return x * x * x; }"))
def cube(x: Float[Tensor, "..."], k: int = 0) -> Float[Tensor, "..."]:
    return tg.native


@tg.op(kernel=tg.c("median.c"))
def median(sorted: Float[tg.Workspace, "n"], x: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    return tg.native


@tg.op(kernel=tg.c("modes.c"))
def modes(
    sorted: Float[tg.Workspace, "n"], counts: Int64[tg.Workspace, "n"], x: Float[Tensor, "*batch n"], k: int
) -> Float[Tensor, "*batch"]:
    return tg.native


assert_type(cube(t), Tensor)
assert_type(median(t), Tensor)
assert_type(modes(t, 3), Tensor)
cube(t, "a")  # wrong
cube()  # wrong
median(t, t)  # wrong
modes(t)  # wrong

# -- random operators, those that write, lists ----------------------------------------------------------------------


@tg.op
def jitter(x: Float[Tensor, "..."], *, seed: tg.Seed = tg.drawn) -> Float[Tensor, "..."]:
    noise: Tensor = tg.random_normal(seed)
    return x + noise


@tg.op
def put_(y: tg.Mutated[Float[Tensor, "n"]], x: Float[Tensor, "n"]) -> None:
    y.copy_(x)


@tg.op
def parts(x: Float[Tensor, "n"], *, lengths: list[int]) -> list[Float[Tensor, "_"]]:
    return [part.clone() for part in x.split(lengths)]


assert_type(jitter(t), Tensor)
assert_type(jitter(t, seed=3), Tensor)
assert_type(jitter(t, seed=t), Tensor)
assert_type(jitter(t, seed=torch.Generator()), Tensor)
assert_type(parts(t, lengths=[1, 1]), list[Tensor])
jitter(t, 3)  # wrong
jitter(seed=3)  # wrong
put_(t, t)
put_(t, "a")  # wrong
put_("a", t)  # wrong
put_(t)  # wrong
put_(t, t).sum()  # wrong
parts(t, lengths=3)  # wrong
parts(t, lengths=[1, 1]).sum()  # wrong

# -- what else is made of them ---------------------------------------------------------------------------------------


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        return inputs[0].exp()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


@tg.adopt(Exp)
def exp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return tg.native


Scale = tg.module(scale, parameters=("w",))
layer = Scale(n=3)
assert_type(exp(t), Tensor)
assert_type(layer(t), Tensor)
assert_type(tg.check(scale).ok, bool)
exp(t, t)  # wrong
layer(t).nothing()  # wrong
network: nn.Module = layer


def twice(function: tg.Op[[Tensor], Tensor], x: Tensor) -> Tensor:
    return function(function(x))


twice(exp, t)
twice(polar, t)  # wrong

# -- SciPy's functions ------------------------------------------------------------------------------------------------

assert_type(special.kv(t, 2.0), Tensor)
assert_type(special.kv(2.0, t), Tensor)
assert_type(special.kv(v=t, z=t), Tensor)
assert_type(special.zeta(t), Tensor)
assert_type(special.zeta(2.0, t), Tensor)
assert_type(special.sici(t), tuple[Tensor, Tensor])
assert_type(special.spherical_jn(2, t, derivative=True), Tensor)
assert_type(fft.dct(t), Tensor)
assert_type(torch.ops.aten.sin.default is special.kv.torch_op, bool)
special.kv(1.0, 2.0)  # wrong
special.kv("a", t)  # wrong
special.kv(t)  # wrong
special.zeta(2.0)  # wrong
special.erfcx(2.0)  # wrong
special.sici(t).sum()  # wrong
