import torch

import torchgraft as tg

for Function in (torch.autograd.Function, tg.Function):

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    x = torch.tensor([1.0, 2.0])
    try:
        print(torch.vmap(torch.func.grad(Square.apply))(x))
        torch.func.jvp(Square.apply, (x,), (x,))
    except RuntimeError as error:
        print(str(error).partition(". For more")[0])
