# Non-maximum suppression: of boxes that overlap, the one with the best score is kept. How many are is known afterwards.
# In torch for any device, and in C for the CPU; the gradient goes to the boxes and scores that were kept.
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

import torchgraft as tg


class Kept(NamedTuple):
    box: Float[Tensor, "k 4"]
    score: Float[Tensor, "k"]
    index: Int64[Tensor, "k"]


@tg.op(data_dependent="k <= n")
@tg.domain(threshold="[0, 1]")
def nms(boxes: Float[Tensor, "n 4"], scores: Float[Tensor, "n"], threshold: float = 0.5) -> Kept:
    """The boxes that are kept, the best first: each overlaps with better ones by at most a part of their union."""
    lower, upper = boxes[:, :2], boxes[:, 2:]
    size = _area(upper - lower)
    both = _area(torch.minimum(upper[:, None], upper) - torch.maximum(lower[:, None], lower))
    overlap = both > threshold * (size[:, None] + size - both)
    kept: list[int] = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        if not overlap[i, kept].any():
            kept.append(i)
    index = torch.tensor(kept, dtype=torch.int64, device=boxes.device)
    return Kept(boxes[index], scores[index], index)


def _area(size: Tensor) -> Tensor:
    return size.clamp(min=0).prod(-1)


@nms.kernel("cpu", tg.c("nms.c"))
def _(left: UInt8[tg.Workspace, "n"], boxes, scores, threshold): ...


@nms.vjp("boxes", independent="score")
def _(grad_box, index, boxes):
    return torch.zeros_like(boxes).index_add(0, index, grad_box)


@nms.vjp("scores", independent="box")
def _(grad_score, index, scores):
    return torch.zeros_like(scores).index_add(0, index, grad_score)


if __name__ == "__main__":
    corner = torch.tensor([[0.0, 0.0], [0.1, 0.0], [2.0, 2.0], [2.0, 2.2], [5.0, 0.0]])
    boxes = torch.cat([corner, corner + 1], 1).requires_grad_()
    scores = torch.tensor([0.6, 0.9, 0.7, 0.8, 0.3], requires_grad=True)

    kept = nms(boxes, scores)
    print("kept:    ", kept.index.tolist())
    print("scores:  ", [round(score, 2) for score in kept.score.tolist()])
    kept.score.sum().backward()
    print("gradient:", scores.grad.tolist())
    print("in C:    ", nms.prototype().partition("\n")[0])
    print(nms.capabilities()["vmap"])
