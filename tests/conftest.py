"""Settings of the whole suite."""

import os

import torch

# Those who mend torchgraft want to see its frames.
os.environ["TORCHGRAFT_TRACEBACK"] = "full"

# The tensors are tiny: a second thread of torch's would only take the core from the other test process.
torch.set_num_threads(1)
