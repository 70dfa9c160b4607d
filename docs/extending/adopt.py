import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg


class Swish(torch.autograd.Function):
    """Somebody else's: it may not be edited."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x * torch.sigmoid(slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(ctx.slope * x)
        return grad_output * gate * (1 + ctx.slope * x * (1 - gate)), None


@tg.adopt(Swish)
def swish(x: Float[Tensor, "..."], slope: float = 1.0) -> Float[Tensor, "..."]: ...


x = torch.linspace(-1, 1, 3)
second = torch.func.hessian(lambda x: swish(x).sum())
print("second derivatives: ", second(x).diag())
print("torch's own:        ", torch.func.hessian(lambda x: torch.nn.functional.silu(x).sum())(x).diag())
print("compiled:           ", torch.compile(second, fullgraph=True, backend="aot_eager")(x).diag())

try:

    @tg.adopt(Swish)
    def swish(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...
except tg.DeclarationError as error:
    print(error)


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.noise = 1 + 0.1 * torch.randn_like(x)
        return x * ctx.noise

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.noise


@tg.adopt(Noisy)
def noisy(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]: ...


x = x.requires_grad_()
y = noisy(x)
print("its own noise:      ", torch.allclose(torch.autograd.grad(y.sum(), x)[0] * x, y))
try:
    torch.func.grad(lambda x: noisy(x).sum())(x)
except tg.KernelError as error:
    print(error)
