"""Proving: numeric derivatives, the contract battery, causes in words, reports."""
