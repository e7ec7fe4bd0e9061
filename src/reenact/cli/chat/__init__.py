"""The conversation with an agent: a chat, a script, and the commands typed in it."""
