"""Operators that go along a sequence step by step: in tensor code each would be a Python loop."""

from .ops import isotonic, smooth

__all__ = ["isotonic", "smooth"]
