"""The examples with sizes known only after the call, against plain implementations, and proved."""

import pytest
import torch
from torch.func import jvp

import torchgraft as tg
from examples.nms import nms
from examples.unique_consecutive import unique_consecutive

LISTS = [
    [2.0, 2, 0.5, 3, 3, 3],
    [1.0],
    [1.0, 1, 1],
    [1.0, 2, 1, 2],
    [],
    [0.0, -0.0, 1],
    [float("nan"), float("nan"), 1],
]


def in_torch(op, *arguments):
    """What the kernel in torch gives, which serves other devices."""
    values = [*arguments, *(p.default for p in op._record.signature.parameters[len(arguments) :])]
    return op._record.kernels[None].run(values, op._record.plan(values))


# -- unique_consecutive ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", LISTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_runs(values, dtype):
    x = torch.tensor(values, dtype=dtype)
    expected = torch.unique_consecutive(x, return_counts=True)
    for made in (unique_consecutive(x), in_torch(unique_consecutive, x)):
        torch.testing.assert_close(tuple(made), expected, equal_nan=True)


@pytest.mark.parametrize("values", LISTS[:4], ids=str)
def test_the_derivative_along_changes_that_keep_runs(values):
    """<v J, u> = <v, J u> for every u that is the same within each run; and each element of a run has its part."""
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    runs, counts = unique_consecutive(x)
    cotangent, change = torch.randn_like(runs), torch.randn_like(runs)
    (gradient,) = torch.autograd.grad(runs, x, cotangent)
    direction = change.repeat_interleave(counts)
    torch.testing.assert_close(gradient @ direction, cotangent @ change)
    torch.testing.assert_close(jvp(lambda x: unique_consecutive(x).values, (x.detach(),), (direction,))[1], change)
    parts = gradient.split(counts.tolist())
    assert all((part == part[0]).all() for part in parts)
    torch.testing.assert_close(torch.stack([part.sum() for part in parts]), cotangent)


# -- non-maximum suppression -------------------------------------------------------------------------------------------


def plainly(boxes, scores, threshold):
    """The indices that are kept, box by box."""

    def area(width, height):
        return max(0.0, width) * max(0.0, height)

    def overlap(a, b):
        both = area(min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1]))
        return both, area(a[2] - a[0], a[3] - a[1]) + area(b[2] - b[0], b[3] - b[1]) - both

    rows, kept = boxes.tolist(), []
    for i in sorted(range(len(rows)), key=lambda i: -float(scores[i])):
        pairs = [overlap(rows[i], rows[j]) for j in kept]
        if all(both <= threshold * union for both, union in pairs):
            kept.append(i)
    return kept


def crowd(count, seed):
    generator = torch.Generator().manual_seed(seed)
    corner = 4 * torch.rand(count, 2, dtype=torch.float64, generator=generator)
    size = 2 * torch.rand(count, 2, dtype=torch.float64, generator=generator)
    return torch.cat([corner, corner + size], 1), torch.rand(count, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("count", [0, 1, 2, 10, 40])
def test_kept_boxes(count, threshold):
    for seed in range(3):
        boxes, scores = crowd(count, seed)
        expected = plainly(boxes, scores, threshold)
        assert 0 < len(expected) <= count or not count
        for box, score, index in (nms(boxes, scores, threshold), in_torch(nms, boxes, scores, threshold)):
            assert index.tolist() == expected
            assert torch.equal(box, boxes[expected])
            assert torch.equal(score, scores[expected])


def test_equal_scores_and_empty_boxes():
    boxes = torch.tensor([[0.0, 0, 1, 1], [0.0, 0, 1, 1], [5.0, 5, 5, 5], [5.0, 5, 5, 5], [1.0, 1, 0, 0]])
    scores = torch.ones(5)
    for made in (nms(boxes, scores), in_torch(nms, boxes, scores)):
        assert made[2].tolist() == [0, 2, 3, 4]


def test_gradients_go_to_what_was_kept():
    boxes, scores = (t.requires_grad_() for t in crowd(12, 0))
    kept = nms(boxes, scores)
    assert 0 < len(kept.index) < 12
    found = torch.autograd.grad(kept.box.sin().sum() + kept.score.square().sum(), (boxes, scores))
    expected = torch.autograd.grad(boxes[kept.index].sin().sum() + scores[kept.index].square().sum(), (boxes, scores))
    torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_compiled_detections():
    """A gradient step that moves boxes and scores, in one graph for all numbers of boxes that are kept."""

    def step(nms, boxes, scores):
        kept = nms(boxes, scores, 0.3)
        return (kept.box.mean(1) * kept.score).sum()

    compiled = torch.compile(lambda b, s: step(nms, b, s), backend="aot_eager", fullgraph=True)
    for seed in range(3):
        arguments = [t.requires_grad_() for t in crowd(10, seed)]
        found, expected = compiled(*arguments), step(nms, *arguments)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, arguments), torch.autograd.grad(expected, arguments))
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.parametrize("op", [unique_consecutive, nms], ids=lambda op: op.__name__)
def test_proved(op):
    report = tg.check(op)
    assert report.verdict == "PASS", str(report)


@pytest.mark.slow
@pytest.mark.parametrize("op", [unique_consecutive, nms], ids=lambda op: op.__name__)
def test_proved_with_compilers(op):
    report = tg.check(op, compilers=True)
    assert report.verdict == "PASS", str(report)
