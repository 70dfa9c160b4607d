import torch

import torchgraft as tg

for Function in (torch.autograd.Function, tg.Function):

    class Relu(Function):
        @staticmethod
        def forward(ctx, x):
            x.clamp_(min=0)  # ctx.mark_dirty(x) is missing
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * (x > 0)

    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = 3 * x
    try:
        loss = (Relu.apply(y) + y).sum()  # y is 0 where x is negative, now
        loss.backward()
        print("derivative at -1, where the loss is constant:", x.grad[0].item())
    except tg.KernelError as error:
        print(error)
