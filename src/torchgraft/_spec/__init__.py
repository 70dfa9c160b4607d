"""The specification in an operator's types: axes, dtypes, arguments, and the signature that they make."""
