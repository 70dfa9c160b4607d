"""What `benchmarks/accuracy.py` is made of: entries of functions, their points, references and scores."""
