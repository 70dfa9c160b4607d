import torch

import torchgraft as tg

for Function in (torch.autograd.Function, tg.Function):

    class ShiftedSquare(Function):
        def __init__(self, shift):
            self.shift = shift

        def forward(self, x):
            self.save_for_backward(x)
            return (x - self.shift) ** 2

        def backward(self, grad_output):
            (x,) = self.saved_variables
            return 2 * (x - self.shift) * grad_output

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    try:
        ShiftedSquare(3.0)(x).sum().backward()
        print(x.grad)
        print(torch.vmap(torch.func.hessian(ShiftedSquare(3.0)))(x.detach()))
    except RuntimeError as error:
        print(error)

learned = torch.tensor(3.0, requires_grad=True)
try:
    ShiftedSquare(learned)(x)
except tg.ArgumentError as error:
    print(error)
