"""Draws a stack of transforms, and writes it as Python source.

Every layer takes a function of the differentiable tensors that returns a tuple of tensors, and gives one of the same
kind: so any layer goes on any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .choose import Chooser, chance, some, weighted

REVERSE, FORWARD = "R", "F"

HELPERS = {
    "flat": """\
def flat(made):  # a tuple of the floating tensors, and of None where a derivative is None
    leaves = torch.utils._pytree.tree_leaves(made, is_leaf=lambda leaf: leaf is None)
    return tuple(t for t in leaves if t is None or t.is_floating_point() or t.is_complex())
""",
    "direction": """\
def direction(t, start=-0.5):  # a tensor like t, the same at each call
    return torch.linspace(start, 1.0, t.numel(), dtype=t.dtype).reshape(t.shape)
""",
    "scalar": """\
def scalar(ys):  # a curved function of all elements
    reals = [torch.view_as_real(y) if y.is_complex() else y for y in ys if y is not None]
    return sum((torch.sin(y) * direction(y, 0.5)).sum() for y in reals)
""",
    "wanted": """\
def wanted(xs):
    return [x for x in xs if x.requires_grad]
""",
    "mapped": """\
def mapped(t, dim, size):  # size variants of t along a new axis
    if dim is None:
        return t
    factors = torch.linspace(1.0, 0.5, size, dtype=t.dtype).reshape(size, *[1] * t.ndim)
    return (t * factors).movedim(0, dim)
""",
    "Through": """\
class Through(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
""",
    "Module": """\
class Module(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *xs):
        return self.f(*xs)
""",
}
"""Functions that layers use, by name."""

USES = {"scalar": ("direction",)}
FUNC_REVERSE = {"grad", "vjp", "vjp of zeros", "jacrev", "hessian", "gradient of linearize"}
FUNC_FORWARD = {"jvp", "jacfwd", "linearize", "vmap", "vmap of size 0", "functionalize"}
HOOKS = {"saved_tensors_hooks", "checkpoint", "checkpoint, reentrant"}


@dataclass(frozen=True)
class Layer:
    """One transform.

    Attributes:
        name: for the report.
        body: code of a function of ``f`` and ``xs``; or of ``f`` alone, if it has no return.
        modes: the derivatives that it takes, in order.
        direct: the function itself, instead of one that calls it: ``torch.compile(f)``.
    """

    name: str
    body: str
    modes: str = ""
    direct: bool = False


@dataclass(frozen=True)
class Stack:
    """Layers from the inside to the outside."""

    layers: tuple[Layer, ...]
    recorded: bool
    dual: bool = False

    @property
    def modes(self) -> str:
        return "".join(layer.modes for layer in self.layers)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(layer.name for layer in self.layers)

    @property
    def compiled(self) -> bool:
        return any(name in SLOW for name in self.names)

    def text(self) -> str:
        lines = ["def stack(f, xs):"]
        for i, layer in enumerate(self.layers):
            before, after = "f" if i == 0 else f"f{i}", f"f{i + 1}"
            body = layer.body.replace("F(", f"{before}(").replace("F,", f"{before},").replace("F)", f"{before})")
            if layer.direct:
                lines.append(f"    {after} = {body}")
            else:
                lines += [
                    "",
                    f"    def {after}(*xs):  # {layer.name}",
                    *(f"        {line}" for line in body.splitlines()),
                    "",
                ]
        lines.append(f"    return f{len(self.layers)}(*xs)" if self.layers else "    return f(*xs)")
        return "\n".join(lines) + "\n"

    def helpers(self) -> list[str]:
        text = self.text()
        found = [name for name in HELPERS if f"{name}(" in text]
        found += [other for name in found for other in USES.get(name, ())]
        return [name for name in HELPERS if name in found or name == "flat"]


Maker = Callable[[Chooser, int], Layer]
"""Makes a layer for so many tensors."""


def _argnums(c: Chooser, count: int) -> str:
    chosen = tuple(range(count)) if c.pick((True, True, False)) else tuple(some(c, range(count), least=1))
    return repr(chosen)


def _grad(c: Chooser, count: int) -> Layer:
    return Layer(
        "grad", f"return flat(torch.func.grad(lambda *xs: scalar(F(*xs)), argnums={_argnums(c, count)})(*xs))", "R"
    )


def _jvp(c: Chooser, count: int) -> Layer:
    return Layer("jvp", "return flat(torch.func.jvp(F, xs, tuple(direction(x) for x in xs)))", "F")


def _vjp(c: Chooser, count: int) -> Layer:
    body = "ys, pull = torch.func.vjp(F, *xs)\nreturn flat((ys, pull(tuple(direction(y) for y in ys))))"
    return Layer("vjp", body, "R")


def _vjp_zero(c: Chooser, count: int) -> Layer:
    body = "ys, pull = torch.func.vjp(F, *xs)\nreturn flat((ys, pull(tuple(torch.zeros_like(y) for y in ys))))"
    return Layer("vjp of zeros", body, "R")


def _jacrev(c: Chooser, count: int) -> Layer:
    return Layer("jacrev", f"return flat(torch.func.jacrev(F, argnums={_argnums(c, count)})(*xs))", "R")


def _jacfwd(c: Chooser, count: int) -> Layer:
    return Layer("jacfwd", f"return flat(torch.func.jacfwd(F, argnums={_argnums(c, count)})(*xs))", "F")


def _hessian(c: Chooser, count: int) -> Layer:
    body = f"return flat(torch.func.hessian(lambda *xs: scalar(F(*xs)), argnums={_argnums(c, count)})(*xs))"
    return Layer("hessian", body, "RF")


def _linearize(c: Chooser, count: int) -> Layer:
    body = "ys, push = linearizer(F, xs)\nreturn flat((ys, push(*(direction(x) for x in xs))))"
    return Layer("linearize", body, "F")


def _linearize_gradient(c: Chooser, count: int) -> Layer:
    body = (
        "ys, push = linearizer(F, xs)\n"
        "vs = tuple(direction(x).requires_grad_() for x in xs)\n"
        "return flat((ys, torch.autograd.grad(scalar(flat(push(*vs))), vs, allow_unused=True)))"
    )
    return Layer("gradient of linearize", body, "FR")


def _vmap(c: Chooser, count: int) -> Layer:
    size = weighted(c, {2: 6, 3: 3, 1: 1, 0: 2})
    dims = [c.pick((0, 0, None, -1)) for _ in range(count)]
    if all(dim is None for dim in dims):
        dims[0] = 0
    options = f", in_dims={tuple(dims)!r}"
    place = c.pick((0, 0, -1))  # moved afterwards: torch's own out_dims corrupt memory where a result is not batched
    options += c.pick(("", "", "", "", ", chunk_size=1", ", chunk_size=2")) if size else ""
    options += c.pick(("", "", "", "", ', randomness="different"', ', randomness="same"'))
    body = f"ts = [mapped(x, dim, {size}) for x, dim in zip(xs, {tuple(dims)!r})]\n"
    body += f"ys = flat(torch.func.vmap(F{options})(*ts))\n"
    body += f"return tuple(y if y is None else y.movedim(0, {place}) for y in ys)"
    return Layer("vmap of size 0" if size == 0 else "vmap", body)


def _autograd(c: Chooser, count: int) -> Layer:
    chosen = "xs" if c.pick((True, True, False)) else f"[xs[i] for i in {tuple(some(c, range(count), least=1))!r}]"
    body = f"return flat(torch.autograd.grad(scalar(F(*xs)), wanted({chosen}), create_graph=True, allow_unused=True))"
    return Layer("autograd.grad", body, "R")


def _autograd_end(c: Chooser, count: int) -> Layer:
    return Layer(
        "autograd.grad", "return flat(torch.autograd.grad(scalar(F(*xs)), wanted(xs), allow_unused=True))", "R"
    )


def _backward(c: Chooser, count: int) -> Layer:
    body = "scalar(F(*xs)).backward()\nreturn flat([x.grad for x in xs])"
    return Layer("backward", body, "R")


def _batched(c: Chooser, count: int) -> Layer:
    body = (
        "ys = [y for y in F(*xs) if y is not None and y.requires_grad]\n"
        "if not ys:\n"
        "    raise RuntimeError('does not require grad')\n"
        "gs = [torch.stack([direction(y), torch.zeros_like(y), torch.ones_like(y)]) for y in ys]\n"
        "return flat(torch.autograd.grad(ys, wanted(xs), gs, allow_unused=True, is_grads_batched=True))"
    )
    return Layer("is_grads_batched", body, "R")


def _dual(c: Chooser, count: int) -> Layer:
    body = (
        "with fwAD.dual_level():\n"
        "    ys = F(*(fwAD.make_dual(x, direction(x)) for x in xs))\n"
        "    return flat([tuple(fwAD.unpack_dual(y)) for y in ys if y is not None])"
    )
    return Layer("dual level", body, "F")


def _dual_one(c: Chooser, count: int) -> Layer:
    which = c.pick(range(count))
    body = (
        "with fwAD.dual_level():\n"
        f"    ys = F(*(fwAD.make_dual(x, direction(x)) if i == {which} else x for i, x in enumerate(xs)))\n"
        "    return flat([tuple(fwAD.unpack_dual(y)) for y in ys if y is not None])"
    )
    return Layer("dual level", body, "F")


def _context(name: str, manager: str) -> Maker:
    return lambda c, count: Layer(name, f"with {manager}:\n    return F(*xs)")


def _checkpoint(c: Chooser, count: int) -> Layer:
    reentrant = c.pick((False, True))
    body = f"return flat(torch.utils.checkpoint.checkpoint(F, *xs, use_reentrant={reentrant}))"
    return Layer("checkpoint, reentrant" if reentrant else "checkpoint", body)


def _functionalize(c: Chooser, count: int) -> Layer:
    return Layer("functionalize", "torch.func.functionalize(F)", direct=True)


def _make_fx(c: Chooser, count: int) -> Layer:
    return Layer("make_fx", "return flat(tracer(F, xs)(*xs))")


def _compile(c: Chooser, count: int) -> Layer:
    backend = weighted(c, {"eager": 6, "aot_eager": 6, "inductor": 1})
    return Layer(f"compile, {backend}", f'compiler(F, backend="{backend}")', direct=True)


def _export(c: Chooser, count: int) -> Layer:
    return Layer("export", "return flat(exporter(F, xs)(*xs))")


def _same(c: Chooser, count: int) -> Layer:
    body = "x = xs[0]\nreturn F(*(x if y.shape == x.shape and y.dtype == x.dtype else y for y in xs))"
    return Layer("the same tensor twice", body)


def _computed(c: Chooser, count: int) -> Layer:
    how = c.pick(
        ("x * 2.0", "x.clone(memory_format=torch.contiguous_format)", "x.reshape(-1).reshape(x.shape)", "torch.neg(x)",
         "torch.stack([x, x], -1)[..., 0]", "x.mT.contiguous().mT if x.ndim > 1 else x",
         "x.flip(0).flip(0) if x.ndim else x",
         "torch._neg_view(-x)", "x.conj() if x.is_complex() else x")
    )  # fmt: skip
    return Layer("computed inputs", f"return F(*({how} for x in xs))")


VALUES: dict[Maker, int] = {
    _vmap: 10, _functionalize: 2, _make_fx: 1, _computed: 3, _same: 1,
    _context("dispatch mode", "Through()"): 4, _context("autocast", 'torch.autocast("cpu", torch.bfloat16)'): 2,
    _context("saved_tensors_hooks", "torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)"): 4,
    _checkpoint: 4, _context("no_grad", "torch.no_grad()"): 1,
}  # fmt: skip
DERIVATIVES: dict[Maker, int] = {
    _grad: 8, _jvp: 8, _vjp: 6, _vjp_zero: 1, _jacrev: 4, _jacfwd: 4, _hessian: 5,
    _linearize: 2, _linearize_gradient: 1,
}  # fmt: skip
RECORDS: dict[Maker, int] = {_autograd: 10, _dual: 4, _dual_one: 2}
ENDS: dict[Maker, int] = {_autograd_end: 4, _backward: 3, _batched: 2}
DEAR = {"linearize", "gradient of linearize", "make_fx"}
"""Layers that trace: at most one, and no more than one derivative beside it."""
SLOW = {"compile, eager", "compile, aot_eager", "compile, inductor", "export"}


def draw_stack(c: Chooser, count: int, *, slow: bool = True) -> Stack:
    """A stack for so many differentiable tensors.

    Args:
        slow: compilers and exporters may be in it.
    """
    recorded = c.pick((True, False, True))
    depth = weighted(c, {1: 4, 2: 5, 3: 2, 4: 1})
    layers = [weighted(c, DERIVATIVES | VALUES)(c, count) for _ in range(depth)]
    if recorded:  # torch.autograd's own layers are outside of those of torch.func
        outer = weighted(c, {0: 3, 1: 4, 2: 3})
        layers = layers[: max(depth - outer, 0)] + [weighted(c, RECORDS)(c, count) for _ in range(outer)]
        if c.pick((True, True, False)):
            layers.append(weighted(c, ENDS)(c, count))
        if chance(c, 20):
            place = c.pick(range(len(layers) + 1))
            layers.insert(place, weighted(c, VALUES)(c, count))
    if slow and chance(c, 5):
        layers.insert(c.pick(range(len(layers) + 1)), weighted(c, {_compile: 12, _export: 1})(c, count))
    if chance(c, 5):
        layers.append(_context("inference_mode", "torch.inference_mode()")(c, count))
    layers.sort(key=lambda layer: layer.name == "gradient of linearize" and not recorded)
    kept: Sequence[Layer] = _sane(layers)
    return Stack(tuple(kept[:6]), recorded)


def _sane(layers: Sequence[Layer]) -> list[Layer]:
    """Without what grows too large (no more than three derivatives, two Jacobians), and what torch cannot do."""
    kept: list[Layer] = []
    for layer in layers:
        before = {other.name for other in kept}
        if (layer.name in FUNC_REVERSE and before & HOOKS) or (layer.name in HOOKS and before & FUNC_REVERSE):
            continue
        if (DEAR | SLOW) & (before | {layer.name}) and len("".join(other.modes for other in (*kept, layer))) > 2:
            continue
        if layer.name in DEAR and before & DEAR:
            continue
        if "gradient of linearize" in before and layer.name in FUNC_REVERSE | FUNC_FORWARD:
            continue
        if layer.name == "dual level" and "F" in "".join(other.modes for other in kept):
            continue
        modes = "".join(other.modes for other in kept) + layer.modes
        wide = sum(other.name in ("jacrev", "jacfwd", "hessian") for other in (*kept, layer))
        if len(modes) <= 3 and wide <= 2 and sum(other.name in SLOW for other in (*kept, layer)) <= 1:
            kept.append(layer)
    return kept
