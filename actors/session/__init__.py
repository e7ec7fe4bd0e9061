"""The session actor, and its side of the environment."""
