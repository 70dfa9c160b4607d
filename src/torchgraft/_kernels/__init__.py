"""Where the numbers come from: torch and NumPy kernels, their batching, and the check of what they return."""
