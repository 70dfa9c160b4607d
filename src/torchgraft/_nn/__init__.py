"""Modules from operators."""
