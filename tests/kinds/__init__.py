"""Kinds of operators beside those whose outputs are made of their inputs alone."""
