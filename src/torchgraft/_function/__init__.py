"""The door for existing code: `Function`, the class of PyTorch's own documentation, and `adopt`."""
