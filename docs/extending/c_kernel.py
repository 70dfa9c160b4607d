import ctypes
import subprocess
import tempfile

import numpy as np
import torch
from jaxtyping import Float64

import torchgraft as tg

SOURCE = """
#include <math.h>
#include <stdint.h>
void softplus(int64_t n, const double *x, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = fmax(x[i], 0) + log1p(exp(-fabs(x[i])));
}
"""

with tempfile.TemporaryDirectory() as folder:
    command = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-lm", "-o", f"{folder}/softplus.so"]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    library = ctypes.CDLL(f"{folder}/softplus.so")
array = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
library.softplus.argtypes = [ctypes.c_int64, array, array]
library.softplus.restype = None


@tg.op
def softplus(x: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    x = np.asarray(x, order="C")
    out = np.empty_like(x)
    library.softplus(x.size, x, out)
    return out


@softplus.partial("x")
def _(x):
    return torch.sigmoid(x)


x = torch.tensor([-100.0, 0.0, 100.0], dtype=torch.float64, requires_grad=True)
print(softplus(x).tolist())
print(torch.autograd.gradcheck(softplus, x), torch.autograd.gradgradcheck(softplus, x))
try:
    softplus(x.float())
except tg.DtypeError as error:
    print(error)
