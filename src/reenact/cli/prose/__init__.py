"""Markdown on a terminal while it streams: what is written is never taken back."""
