"""Causes in words: which one mistake would give exactly the wrong Jacobian that was found."""
