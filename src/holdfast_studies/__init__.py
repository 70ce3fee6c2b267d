"""The claims of five papers as experiments that can fail."""
