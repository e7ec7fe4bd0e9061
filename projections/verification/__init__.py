"""Checks of a log: whether what stands beside its events follows from them."""
