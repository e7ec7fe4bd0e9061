"""Claude: the Messages API as an environment."""
