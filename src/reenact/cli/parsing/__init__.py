"""The command line, read: options, help and completion."""
