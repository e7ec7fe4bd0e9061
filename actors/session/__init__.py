"""The session actor, and its connection to the agent's environment."""
