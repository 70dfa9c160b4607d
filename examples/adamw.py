# An optimizer's step in C, which writes three tensors; `AdamW` takes the place of `torch.optim.AdamW`.
# Loshchilov and Hutter, Decoupled weight decay regularization (ICLR 2019), algorithm 2.
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

import torchgraft as tg

SOURCE = tg.c("""
#include <tgmath.h>

void adamw_(T parameter, T mean, T square, T gradient, double lr, double beta1, double beta2, double eps, double decay,
            int64_t step, T *parameter_after, T *mean_after, T *square_after) {
    T scale = lr / (1 - pow(beta1, (double)step)), unbias = sqrt(1 - pow(beta2, (double)step));
    *mean_after = mean + (T)(1 - beta1) * (gradient - mean);
    *square_after = (T)beta2 * square + (T)(1 - beta2) * gradient * gradient;
    *parameter_after = parameter * (T)(1 - lr * decay) - scale * *mean_after / (sqrt(*square_after) / unbias + (T)eps);
}
""")


@tg.domain(square="[0, inf)", lr="[0, 1]", beta1="[0, 1)", beta2="[0, 1)", eps="(0, 1]", decay="unit", step={1, 2, 9})
@tg.op(kernel=SOURCE)
def adamw_(
    parameter: tg.Mutated[Float[Tensor, "..."]],
    mean: tg.Mutated[Float[Tensor, "..."]],
    square: tg.Mutated[Float[Tensor, "..."]],
    gradient: Float[Tensor, "..."],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    step: int,
) -> None:
    """One step of AdamW; the first is step 1."""


adamw_.nondifferentiable("parameter", "mean", "square", "gradient", reason="nobody differentiates a step")


@adamw_.reference
def _(parameter, mean, square, gradient, lr, beta1, beta2, eps, decay, step):
    mean = beta1 * mean + (1 - beta1) * gradient
    square = beta2 * square + (1 - beta2) * gradient**2
    root = (square / (1 - beta2**step)).sqrt() + eps
    return parameter * (1 - lr * decay) - lr * mean / (1 - beta1**step) / root, mean, square


class AdamW(torch.optim.Optimizer):
    """`torch.optim.AdamW` by `adamw_`."""

    def __init__(
        self, params: Iterable[Tensor], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Write all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    state = self.state[p]
                    if not state:
                        state |= {"step": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                    state["step"] += 1
                    adamw_(
                        p, state["exp_avg"], state["exp_avg_sq"], p.grad, group["lr"], *group["betas"], group["eps"],
                        group["weight_decay"], state["step"],
                    )  # fmt: skip
        return loss


if __name__ == "__main__":
    data = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    target = data.square().sum(1, keepdim=True)

    def trained(optimizer: type[torch.optim.Optimizer], **options: Any) -> tuple[list[float], Tensor]:
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        steps, losses = optimizer(network.parameters(), lr=1e-2, **options), []
        for _ in range(200):
            steps.zero_grad()
            loss = nn.functional.mse_loss(network(data), target)
            loss.backward()
            steps.step()
            losses.append(loss.item())
        return losses, nn.utils.parameters_to_vector(network.parameters())

    losses, parameters = trained(AdamW)
    expected, others = trained(torch.optim.AdamW, foreach=False)
    torch.testing.assert_close(parameters, others, rtol=1e-3, atol=1e-4)
    print(f"loss with ours    {losses[0]:.2f} -> {losses[-1]:.4f}")
    print(f"loss with torch's {expected[0]:.2f} -> {expected[-1]:.4f}")
    print(f"parameters differ by {(parameters - others).abs().max():.1e} after 200 steps")
