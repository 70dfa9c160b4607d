"""Kinds of operators, each against the same function in plain torch."""
