import torch

import torchgraft as tg

for Function in (torch.autograd.Function, tg.Function):

    class MulConstant(Function):
        @staticmethod
        def forward(ctx, tensor, constant):
            ctx.constant = constant
            return tensor * constant

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.constant  # and None for the constant, which is missing

    x = torch.ones(3, requires_grad=True)
    try:
        MulConstant.apply(x, 5.0).sum().backward()
    except RuntimeError as error:
        print(error)
