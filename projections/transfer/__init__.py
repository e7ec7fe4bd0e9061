"""Exports: writing a log as lines, redacted if requested, and reading such lines into a log."""
