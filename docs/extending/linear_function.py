import torch
from jaxtyping import Float
from torch import Tensor

import torchgraft as tg

x, weight = torch.ones(5, 4), torch.ones(1, 4)  # one output feature

for Function in (torch.autograd.Function, tg.Function):

    class LinearFunction(Function):
        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx, grad_output):
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0).squeeze(0)  # as old editions of the note have it
            return grad_input, grad_weight, grad_bias

    bias = torch.zeros(1, requires_grad=True)
    try:
        LinearFunction.apply(x, weight, bias).sum().backward()
        print("tg.Function:", bias.grad)
    except RuntimeError as error:
        print(error)


@tg.op
def linear(
    input: Float[Tensor, "*batch n"], weight: Float[Tensor, "m n"], bias: Float[Tensor, "m"] | None = None
) -> Float[Tensor, "*batch m"]:
    out = input @ weight.mT
    return out if bias is None else out + bias


@linear.vjp("input")
def _(grad, weight):
    return grad @ weight


@linear.vjp("weight")
def _(grad, input):
    return torch.einsum("...m,...n->mn", grad, input)


@linear.vjp("bias")
def _(grad):
    return torch.einsum("...m->m", grad)


bias = torch.zeros(1, requires_grad=True)
linear(x, weight, bias).sum().backward()
print("operator:   ", bias.grad)
