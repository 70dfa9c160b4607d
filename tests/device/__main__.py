"""Run `python -m tests.device START STEP`: what is other on a device beside the CPU, as JSON; `0 1` looks at all."""

from __future__ import annotations

import json
import os
import sys
import warnings

import torch

from .own import begin

begin()
torch.set_num_threads(1)
warnings.simplefilter("ignore")
from . import matrix, zoo  # noqa: E402 - operators may name the device

bugs, other = zoo.looked_at(*map(int, sys.argv[1:]))
cells, cells_other = matrix.looked_at(*map(int, sys.argv[1:]))
print(json.dumps({"bugs": bugs, "cells": cells, "other": other | cells_other}), flush=True)
os._exit(0)  # Autograd's thread of the device would outlive what it needs.
