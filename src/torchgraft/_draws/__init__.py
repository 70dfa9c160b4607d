"""Random numbers that depend on a seed and a number alone, the same in torch, in NumPy and in `torchgraft/random.h`."""
