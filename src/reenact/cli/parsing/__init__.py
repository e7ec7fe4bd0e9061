"""Parsing of the command line: options, help, settings and completion."""
