"""Escape sequences: splits output into tokens with their styles."""
