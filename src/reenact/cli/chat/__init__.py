"""The conversation with an agent, as a chat or from a script, and the commands typed in it."""
