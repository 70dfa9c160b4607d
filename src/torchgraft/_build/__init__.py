"""From C source to a loaded library: what the function takes, the shim around it, the compiler, the cache."""
