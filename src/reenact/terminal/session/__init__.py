"""A program at its own terminal: starting it, sending input, waiting, and ending it with its child processes."""
