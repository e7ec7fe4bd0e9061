"""Logs that travel through files."""
