"""Test cases in files: their scripts, the controller that executes a script, and the runner of the cases."""
