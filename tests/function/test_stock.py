"""The same body on torch's base class and on torchgraft's: whatever autograd can be asked, the answers are the same."""

import itertools
import threading
import warnings

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import torchgraft as tg

from .table import CASES, some

each = pytest.mark.parametrize("case", CASES.values(), ids=repr)


def tensors(outputs):
    return [t for t in (outputs if isinstance(outputs, tuple) else (outputs,)) if isinstance(t, Tensor)]


def smooth(outputs):
    """The outputs that can have a derivative."""
    return [t for t in tensors(outputs) if t.is_floating_point() or t.is_complex()]


def total(outputs):
    """A real number that weighs every element differently, and depends on them nonlinearly."""
    parts = [torch.view_as_real(t) if t.is_complex() else t for t in smooth(outputs)]
    return sum((part.square() * torch.arange(1, part.numel() + 1).reshape(part.shape)).sum() for part in parts)


def described(outputs):
    return [(t.shape, t.stride(), t.dtype, t.requires_grad, t.is_leaf, t._is_view()) for t in tensors(outputs)]


# -- questions: each takes a function and its leaves, and answers with tensors and words ------------------------------


def values(f, *leaves):
    outputs = f(*leaves)
    return [t.detach() for t in tensors(outputs)], described(outputs)


def gradients(f, *leaves):
    total(f(*leaves)).backward()
    return [leaf.grad for leaf in leaves]


def gradients_of_one_output_each(f, *leaves):
    answers = []
    for output in smooth(f(*leaves)):
        if output.requires_grad:
            seed = torch.ones_like(output)
            answers.append(torch.autograd.grad(output, leaves, seed, retain_graph=True, materialize_grads=True))
    return answers


def derivatives(order):
    def ask(f, *leaves):
        made, answers = total(f(*leaves)), []
        for _ in range(order):
            grads = torch.autograd.grad(made, leaves, create_graph=True, materialize_grads=True)
            answers.append([grad.detach() for grad in grads])
            made = sum((g.abs().square() + 0 * x.abs()).sum() for g, x in zip(grads, leaves, strict=True))
        return answers

    return ask


def twice_through_one_graph(f, *leaves):
    made = total(f(*leaves))
    first = torch.autograd.grad(made, leaves, retain_graph=True)
    return first, torch.autograd.grad(made, leaves)


def accumulated(f, *leaves):
    for _ in range(3):
        total(f(*leaves)).backward()
    return [leaf.grad for leaf in leaves]


def each_subset_of_needs(f, *leaves):
    answers = []
    for needs in itertools.product([False, True], repeat=len(leaves)):
        given = [leaf.detach().clone().requires_grad_(need) for leaf, need in zip(leaves, needs, strict=True)]
        outputs = f(*given)
        answers.append(described(outputs))
        if any(needs):
            total(outputs).backward()
            answers.append([leaf.grad for leaf in given])
    return answers


def same_tensor_in_every_place(f, *leaves):
    if len({leaf.shape for leaf in leaves}) > 1:
        return None
    total(f(*[leaves[0]] * len(leaves))).backward()
    return leaves[0].grad


def hooks(f, *leaves):
    seen = []
    outputs = smooth(f(*leaves))
    for leaf in leaves:
        leaf.register_hook(lambda grad: seen.append(("leaf", grad.clone())))
    for output in outputs:
        if output.requires_grad:
            output.register_hook(lambda grad: 2 * grad)
            output.retain_grad()
    node = next(output.grad_fn for output in outputs if output.requires_grad)
    node.register_prehook(lambda grads: seen.append(("before", len(grads), [g is None for g in grads])))
    node.register_hook(lambda made, given: seen.append(("after", [g is None for g in made], len(given))))
    total(tuple(outputs)).backward()
    return seen, [output.grad for output in outputs if output.requires_grad]


def graph(f, *leaves):
    outputs = smooth(f(*leaves))  # torch 2.11 gives no name of a node whose outputs are gone
    node = next(output.grad_fn for output in outputs if output.requires_grad)
    return node.name(), [edge and edge.name() for edge, _ in node.next_functions], sorted(node.metadata)


def packed(f, *leaves):
    """How often saved tensors are packed and unpacked."""
    seen = []

    def pack(tensor):
        seen.append(("pack", tensor.shape))
        return tensor.clone()

    def unpack(tensor):
        seen.append(("unpack", tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        outputs = f(*leaves)
    first = len(seen)
    seeds = [torch.ones_like(output) for output in smooth(outputs)]
    kept = [(o, s) for o, s in zip(smooth(outputs), seeds, strict=True) if o.requires_grad]
    grads = torch.autograd.grad([o for o, _ in kept], leaves, [s for _, s in kept])
    return grads, seen[:first], sorted(map(str, seen[first:]))


def offloaded(f, *leaves):
    with torch.autograd.graph.save_on_cpu():
        made = total(f(*leaves))
    return torch.autograd.grad(made, leaves)


def checkpointed(reentrant):
    def ask(f, *leaves):
        outputs = checkpoint(lambda *leaves: total(f(*leaves)), *leaves, use_reentrant=reentrant)
        outputs.backward()
        return [leaf.grad for leaf in leaves]

    return ask


def without_grad(f, *leaves):
    with torch.no_grad():
        outputs = f(*leaves)
    return [t.clone() for t in tensors(outputs)], described(outputs)


def inference(f, *leaves):
    with torch.inference_mode():
        made = f(*(leaf * 1 for leaf in leaves)), f(*leaves)
        return [([t.clone() for t in tensors(o)], [t.is_inference() for t in tensors(o)]) for o in made]


def inference_tensors_outside(f, *leaves):
    with torch.inference_mode():
        given = [leaf * 1 for leaf in leaves]
    return [t.clone() for t in tensors(f(*given))]


def under_autocast(f, *leaves):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = total(f(*leaves))
    return torch.autograd.grad(made, leaves), made.dtype


def batched_seeds(f, *leaves):
    outputs = [o for o in smooth(f(*leaves)) if o.requires_grad]
    seeds = [torch.stack([torch.ones_like(o), 2 * o.detach()]) for o in outputs]
    return torch.autograd.grad(outputs, leaves, seeds, is_grads_batched=True, allow_unused=True)


def anomaly(f, *leaves):
    with torch.autograd.detect_anomaly(check_nan=True):
        return torch.autograd.grad(total(f(*leaves)), leaves)


def jacobian(f, *leaves):
    if any(leaf.is_complex() for leaf in leaves):
        return None
    return torch.autograd.functional.jacobian(lambda *leaves: total(f(*leaves)), leaves)


def hessian(f, *leaves):
    if any(leaf.is_complex() or leaf.numel() == 0 for leaf in leaves):
        return None
    return torch.autograd.functional.hessian(lambda *leaves: total(f(*leaves)), leaves)


def parameters(f, *leaves):
    given = [torch.nn.Parameter(leaf.detach()) for leaf in leaves]
    return torch.autograd.grad(total(f(*given)), given)


def non_contiguous(f, *leaves):
    given = [torch.stack([leaf, -leaf], -1)[..., 0] for leaf in leaves]
    return torch.autograd.grad(total(f(*given)), leaves)


def meta(f, *leaves):
    outputs = f(*(leaf.to("meta") for leaf in leaves))
    return [(o.device, o.shape, o.dtype) for o in tensors(outputs)]


def another_thread(f, *leaves):
    """Forward on this thread and backward on one of the engine's own."""
    made = total(f(*leaves))
    worker = threading.Thread(target=made.backward)
    worker.start()
    worker.join()
    return [leaf.grad for leaf in leaves]


def fake(f, *leaves):
    with FakeTensorMode() as mode:
        given = [mode.from_tensor(leaf) for leaf in leaves]
        outputs = f(*given)
        return [(o.device, o.shape, o.dtype) for o in tensors(outputs)], total(outputs).requires_grad


class Sub(Tensor):
    """A subclass that torch wraps results in."""


def subclass(f, *leaves):
    outputs = f(*(leaf.as_subclass(Sub) for leaf in leaves))
    grads = torch.autograd.grad(total(outputs), leaves)
    return [type(o).__name__ for o in tensors(outputs)], [grad.as_subclass(Tensor) for grad in grads]


def dispatched(f, *leaves):
    """The operators that run, in their order."""
    seen = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Record():
        total(f(*leaves)).backward()
    # a saved output is read once more after backward, to compare its version: a handle, and no computation
    return [name for name in seen if name != "aten.detach.default"]


def all_hooks_at_once(f, *leaves):
    seen = []
    handle = torch.autograd.graph.register_multi_grad_hook(leaves, lambda grads: seen.append(list(grads)))
    total(f(*leaves)).backward()
    handle.remove()
    return seen


def traced(f, *leaves):
    """Tracing keeps the Function as a call into Python; a change in place it refuses by itself."""
    outputs = f(*leaves)
    if len(tensors(outputs)) < (len(outputs) if isinstance(outputs, tuple) else 1):
        return None  # it wants tensors alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Not `f` itself: `apply` is a builtin of torch 2.14, which has no name to trace it by.
        module = torch.jit.trace(lambda *xs: f(*xs), tuple(leaf.detach() for leaf in leaves), check_trace=False)
    kinds = [node.kind() for node in module.graph.nodes()]
    try:
        return kinds, torch.autograd.grad(total(module(*leaves)), leaves)
    except RuntimeError as error:
        return kinds, str(error)


def default_device(f, *leaves):
    with torch.device("cpu"):
        made = total(f(*leaves))
    return torch.autograd.grad(made, leaves)


def freed(f, *leaves):
    made = total(f(*leaves))
    made.backward()
    try:
        made.backward()
    except RuntimeError as error:
        return type(error), str(error)
    return "not freed"


NUMBERS = {
    "gradients": gradients,
    "of one output each": gradients_of_one_output_each,
    "second derivatives": derivatives(2),
    "third derivatives": derivatives(3),
    "retain_graph": twice_through_one_graph,
    "accumulated": accumulated,
    "same tensor twice": same_tensor_in_every_place,
    "save_on_cpu": offloaded,
    "checkpoint": checkpointed(False),
    "reentrant checkpoint": checkpointed(True),
    "inference tensors": inference_tensors_outside,
    "autocast": under_autocast,
    "is_grads_batched": batched_seeds,
    "anomaly": anomaly,
    "jacobian": jacobian,
    "hessian": hessian,
    "parameters": parameters,
    "non-contiguous": non_contiguous,
    "another thread": another_thread,
}
ORDER = {"second derivatives": 2, "hessian": 2, "third derivatives": 3}
BEHAVIOUR = {
    "values": values,
    "each subset of needs": each_subset_of_needs,
    "hooks": hooks,
    "graph": graph,
    "saved_tensors_hooks": packed,
    "no_grad": without_grad,
    "inference": inference,
    "meta": meta,
    "freed": freed,
    "fake": fake,
    "subclass": subclass,
    "dispatched": dispatched,
    "register_multi_grad_hook": all_hooks_at_once,
    "default device": default_device,
    "jit.trace": traced,
}


def answer(question, f, case):
    """The tensors of an answer, and everything else of it."""
    found = []

    def rest(value):
        if isinstance(value, Tensor):
            found.append(value)
            return value.dtype
        return [rest(item) for item in value] if isinstance(value, (list, tuple)) else value

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")
        return rest(question(f, *case.leaves())), found


def agree(ours, theirs, **tolerances):
    (words, numbers), (expected_words, expected) = ours, theirs
    assert words == expected_words
    torch.testing.assert_close(numbers, expected, **tolerances)


@each
@pytest.mark.parametrize("question", NUMBERS)
def test_numbers(question, case):
    if ORDER.get(question, 1) > case.order:
        pytest.skip("there torch is wrong")
    ask = NUMBERS[question]
    ours = answer(ask, case.make(tg.Function), case)
    agree(ours, answer(ask, case.plain, case))
    if case.on_stock:
        agree(ours, answer(ask, case.make(torch.autograd.Function), case), rtol=0, atol=0)


@pytest.mark.parametrize("case", some(on_stock=True), ids=repr)
@pytest.mark.parametrize("question", BEHAVIOUR)
def test_behaviour(question, case):
    ask = BEHAVIOUR[question]
    ours, stock = (answer(ask, case.make(base), case) for base in (tg.Function, torch.autograd.Function))
    agree(ours, stock, rtol=0, atol=0)
