"""Proving: numeric derivatives, checks, causes in words, reports."""
