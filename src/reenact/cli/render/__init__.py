"""Renders an answer on the terminal: streamed Markdown, tables, source code, and the live line."""
