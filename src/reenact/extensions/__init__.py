"""Extensions of the command line: skills, commands, agents and hooks, of a user and of a project."""
