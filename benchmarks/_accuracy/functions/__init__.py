"""Entries of `torchgraft.scipy.special`, by family."""
