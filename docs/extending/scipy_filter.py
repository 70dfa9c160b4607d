import scipy.signal
import torch
from torch.autograd.function import once_differentiable

import torchgraft as tg

for Function in (torch.autograd.Function, tg.Function):

    class ScipyConv2dFunction(Function):
        @staticmethod
        def forward(ctx, input, filter):
            ctx.save_for_backward(input, filter)
            result = scipy.signal.correlate2d(input.detach().numpy(), filter.detach().numpy(), mode="valid")
            return torch.from_numpy(result)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            input, filter = (tensor.detach() for tensor in ctx.saved_tensors)
            grad_output = grad_output.numpy()
            grad_input = scipy.signal.convolve2d(grad_output, filter.numpy(), mode="full")
            grad_filter = scipy.signal.correlate2d(input.numpy(), grad_output, mode="valid")
            return torch.from_numpy(grad_input), torch.from_numpy(grad_filter).to(torch.float)

    input = torch.full((5, 5), 0.1, dtype=torch.float64, requires_grad=True)
    filter = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    try:
        print("gradcheck:", torch.autograd.gradcheck(ScipyConv2dFunction.apply, (input, filter)))
        ScipyConv2dFunction.apply(input, filter).sum().backward()
        print("filter gradient, nine times 0.1:", filter.grad[0, 0].item())
    except tg.RuleError as error:
        print(error)
