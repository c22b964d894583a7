"""Runs a function over payloads, here or elsewhere. Knows nothing of what the function does."""
