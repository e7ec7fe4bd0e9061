"""Escape sequences: text taken apart into tokens, with their styles."""
