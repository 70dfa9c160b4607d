"""How PyTorch sees an operator: one file for each of its mechanisms."""
