"""What an operator's types say: axes, dtypes, arguments, and the signature that they make."""
