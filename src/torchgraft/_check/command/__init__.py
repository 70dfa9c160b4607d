"""`torchgraft check` and the plugin of pytest: targets found, run one by one, and listed."""
