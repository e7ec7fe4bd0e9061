"""Extensions in a conversation: skills, commands, agents and hooks."""
