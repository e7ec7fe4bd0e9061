"""Processes that are killed at each point between a command and its last consequence."""
