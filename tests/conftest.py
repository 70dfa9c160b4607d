"""Settings of the whole suite."""

import torch

# The tensors are tiny: a second thread of torch's would only take the core from the other test process.
torch.set_num_threads(1)
