"""Costs of the kinds of operators, one file a kind."""
