"""The checks; `table` lists them."""
