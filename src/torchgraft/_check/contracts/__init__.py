"""The checks beside the numeric one; `checks.py` lists them."""
