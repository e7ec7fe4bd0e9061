"""Test cases in files, and who runs them."""
