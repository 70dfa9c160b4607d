"""Generated inputs: from annotations and declared domains, simple ones first."""
