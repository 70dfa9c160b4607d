"""Kernels in torch, NumPy and C, their batching, and the checks of what they return."""
