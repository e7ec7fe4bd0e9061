"""Text compared with what was expected."""
