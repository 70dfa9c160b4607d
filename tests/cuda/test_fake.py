"""Fake tensors on CUDA, which every machine has: shapes, tracers and compilers before a kernel runs."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import torchgraft as tg
from torchgraft.scipy import special

from .operators import make
from .test_samples import make_correlate, make_scaled

CALLS = {
    "an element": (make()["soft"], [(3, 7), (3, 7)], (3, 7)),
    "a sample": (make_correlate(), [(3, 7), (3, 2)], (3, 6)),
    "by hand": (make_scaled(), [(3, 7), (7,)], (3, 7)),
    "by torch": (special.xlogy, [(3, 1), (7,)], (3, 7)),
}


@pytest.fixture(params=CALLS)
def call(request):
    op, shapes, made = CALLS[request.param]
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield op, [torch.empty(shape, device="cuda") for shape in shapes], made


def called_in(graph, op):
    return op.torch_op in {node.target for node in graph.nodes}


def test_shape_dtype_and_device(call):
    op, args, shape = call
    made = op(*args)
    assert (made.shape, made.dtype, made.device.type) == (shape, torch.float32, "cuda")


def test_make_fx(call):
    op, args, _ = call
    assert called_in(make_fx(lambda *args: op(*args) * 2)(*args).graph, op)


def test_export(call):
    op, args, _ = call

    class Module(torch.nn.Module):
        def forward(self, *args):
            return op(*args) * 2

    assert called_in(torch.export.export(Module(), tuple(args)).graph, op)


def test_dynamo(call):
    op, args, shape = call
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    made = torch.compile(lambda *args: op(*args) * 2, backend=backend, fullgraph=True)(*args)
    assert (made.shape, made.device.type) == (shape, "cuda")
    assert len(graphs) == 1


def test_what_cannot_run_on_cuda_is_refused_where_it_is_traced():
    with FakeTensorMode(), pytest.raises(tg.DeviceError, match="there is no kernel") as caught:
        special.struve(*[torch.empty(3, device="cuda")] * 2)
    assert caught.value.operator == "struve"


def test_what_runs_on_cuda_alone_is_refused_elsewhere():
    with FakeTensorMode(), pytest.raises(tg.DeviceError, match="there is no kernel"):
        make_scaled()(torch.empty(3), torch.empty(3))
    assert make_scaled()(*[torch.empty(3, device="meta")] * 2).shape == (3,)
