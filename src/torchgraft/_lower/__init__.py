"""Lowerings of an operator onto PyTorch: one file for each of its mechanisms."""
