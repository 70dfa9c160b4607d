"""Modules that are made from operators."""
