"""Recordings: what an agent's environment was asked and what it said, kept in a file and played back."""
