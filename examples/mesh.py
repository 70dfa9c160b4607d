# The network of `torchgraft demo` on 2, 4 or 8 processes: torchrun --nproc-per-node 4 examples/mesh.py. FSDP2 shards
# each batch; from 4 processes on, `tg.ShardAxis` cuts every layer in two as well. The losses are those of one process.
import tempfile
import warnings
from itertools import count

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module

import torchgraft as tg
from torchgraft._demo.digits import load
from torchgraft._demo.network import SCIPY, Network, operators
from torchgraft._demo.training import accuracy, train

EPOCHS, BATCH = 6, 32
TOLERANCE = 1e-5  # of the losses: ranks sum in another order, and every step adds to that difference


def make_mesh():
    """The processes, data x tensor: each batch is cut into parts, and from 4 processes on each layer too."""
    processes = dist.get_world_size()
    tensor = 2 if processes % 4 == 0 else 1
    return dist.init_device_mesh("cpu", (processes // tensor, tensor), mesh_dim_names=("data", "tensor"))


def distribute(network, mesh):
    """Shard the parameters over the mesh."""
    if mesh["tensor"].size() > 1:  # Each of two has half of the filters, and half of the sum over what they found.
        plan = {"filter": tg.ShardAxis("filters"), "classify": tg.ShardAxis("n")}
        parallelize_module(network, mesh["tensor"], plan)
    fully_shard(network, mesh=mesh["data"])


def trained(digits, epochs, mesh=None):
    """A network and its history. One seed gives the same initial weights and the same batches everywhere."""
    torch.manual_seed(0)
    network = Network(SCIPY)
    if mesh is None:
        return network, train(network, digits, epochs=epochs, batch=BATCH, shown=False)
    distribute(network, mesh)
    share = {"part": mesh["data"].get_local_rank(), "parts": mesh["data"].size()}
    history = train(network, digits, epochs=epochs, batch=BATCH, **share, shown=False)
    losses = torch.tensor(history.loss, dtype=torch.float64)  # Each is that of a part of every batch.
    dist.all_reduce(losses)
    history.loss = (losses / dist.get_world_size()).tolist()
    return network, history


def loaded_by_one(network):
    """The network without a mesh, loaded from a checkpoint that all processes wrote together."""
    alone = Network(SCIPY)
    with tempfile.TemporaryDirectory() as folder:
        chosen = [folder]
        dist.broadcast_object_list(chosen)
        dcp.save({"network": network.state_dict()}, checkpoint_id=chosen[0])
        dcp.load({"network": alone.state_dict()}, checkpoint_id=chosen[0], no_dist=True)
        dist.barrier()  # The folder stays until everybody has read it.
    return alone


def show(alone, together, after, mesh):
    """Print both trainings side by side; return what differs."""
    for operator in operators(SCIPY):
        print(f"{operator.__name__:9}", *[line.strip() for line in str(operator).splitlines() if "  mesh " in line])
    print(f"\nparts of a batch: {mesh['data'].size()}, parts of a layer: {mesh['tensor'].size()}")
    if mesh.size() == 1:
        print("One process cuts nothing: torchrun --nproc-per-node 4 examples/mesh.py")
    print(f"\nepoch  {'loss alone':>10} {'on the mesh':>12}  {'accuracy alone':>14} {'on the mesh':>12}")
    for row in zip(count(1), alone.loss, together.loss, alone.accuracy, together.accuracy, strict=False):
        print("{:5}  {:10.7f} {:12.7f}  {:14.1%} {:12.1%}".format(*row))
    worst = max(abs(a - b) / a for a, b in zip(alone.loss, together.loss, strict=True))
    print(f"\nlargest relative difference of the losses: {worst:.1e} (allowed: {TOLERANCE:.0e})")
    print(f"accuracy of the checkpoint, loaded by one process: {after:.1%}")
    failures = [f"the losses of one process and of {mesh.size()} differ by {worst:.1e}"] if worst > TOLERANCE else []
    if after != together.accuracy[-1]:
        failures.append(f"accuracy {together.accuracy[-1]:.1%} is {after:.1%} after loading")
    return failures


def main(epochs=EPOCHS, at_most=None):
    """Train on one process and on all of them; return what differs."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # Nobody writes into the scores.
    warnings.filterwarnings("ignore", ".*assuming the intent is to load in a single process")  # So it is.
    one = {} if dist.is_torchelastic_launched() else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", **one)
    try:
        digits, mesh, first = load(at_most), make_mesh(), dist.get_rank() == 0
        alone = trained(digits, epochs)[1] if first else None
        network, together = trained(digits, epochs, mesh)
        after = accuracy(loaded_by_one(network), digits.test_images, digits.test_labels)
        return show(alone, together, after, mesh) if first else []
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
