"""The agent loop, at its edge and from end to end."""
