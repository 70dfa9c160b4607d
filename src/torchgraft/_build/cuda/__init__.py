"""Functions in C on CUDA: their text for NVRTC, its machine code, and the launcher in C."""
