"""A mesh whose ranks all live in this process."""

import contextlib
import math

from torch import distributed


@contextlib.contextmanager
def simulated(*shape):
    """Simulate the ranks of a mesh: within, a tensor of a rank has a value for each of them."""
    from torch.distributed._local_tensor import LocalTensorMode  # They take a second to import.
    from torch.distributed.tensor import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    ranks = math.prod(shape)
    distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        with LocalTensorMode(ranks):
            yield init_device_mesh("cpu", shape)
    finally:
        distributed.destroy_process_group()
