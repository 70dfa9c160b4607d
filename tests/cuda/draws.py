"""Random calls of the operators, and what their results are compared by."""

import math

import torch

TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def tensor(chance, shape, dtype):
    """Draw a tensor that broadcasts to a shape, in one of many layouts."""

    def drawn(shape):
        numbers = torch.tensor([chance.gauss(0, 2) for _ in range(math.prod(shape))], dtype=torch.float64)
        return (numbers > 0 if dtype == torch.bool else numbers).to(dtype).reshape(shape)

    match chance.randrange(6):
        case 1:
            return drawn([2 * s + 1 for s in shape])[tuple(slice(1, None, 2) for _ in shape)]
        case 2:
            order = chance.sample(range(len(shape)), len(shape))
            return drawn([shape[i] for i in order]).permute([order.index(i) for i in range(len(shape))])
        case 3:
            return drawn([1 if chance.random() < 0.5 else s for s in shape])
        case 4:
            return drawn(shape[chance.randint(0, len(shape)) :])
        case 5:
            return drawn([]).expand(shape)
    return drawn(shape)


def shape_of(chance):
    sizes = [0, 1, 2, 3, 5] if chance.random() < 0.1 else [1, 2, 3, 5]
    return [chance.choice(sizes) for _ in range(chance.randrange(6))]


def arguments(chance, name, dtype):
    """Draw what an operator is called with."""
    shape = shape_of(chance)
    one = tensor(chance, shape, dtype)
    match name:
        case "soft":
            return (one, tensor(chance, shape, dtype), chance.choice([0.5, 1.0, 2.0])), {}
        case "polar":
            return (one, tensor(chance, shape, dtype)), {}
        case "shifted":
            return (one, chance.randrange(4), chance.random() < 0.5, chance.choice([None, 2.0, -1.5])), {}
        case "chosen":
            return (tensor(chance, shape, torch.bool), one, tensor(chance, shape, torch.int64)), {}
        case "noisy":
            return (one,), {"seed": chance.randrange(100)}
    return (one,), {}


def listed(made):
    return list(made) if isinstance(made, (tuple, list)) else [made]


def compare(made, expected, dtype):
    for one, other in zip(listed(made), listed(expected), strict=True):
        tolerance = TOLERANCES.get(dtype, 0)
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def gradients(op, args, options):
    """Gradients of all tensors among the arguments."""
    args = [a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args]
    inputs = [a for a in args if isinstance(a, torch.Tensor)]
    out = op(*args, **options)
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape).to(out.dtype)
    return list(torch.autograd.grad(out, inputs, weights))


def apart(made, expected):
    """The largest difference, relative where values are larger than one; infinite where shapes or dtypes differ."""
    if made.shape != expected.shape or made.dtype != expected.dtype:
        return float("inf")
    one, other = made.double(), expected.double()
    equal = (one == other) | (one.isnan() & other.isnan())
    found = ((one - other).abs() / other.abs().clamp(min=1)).masked_fill(equal, 0)
    return float(found.max()) if found.numel() else 0.0
