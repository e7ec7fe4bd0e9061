"""Comparison of text with what is expected."""
