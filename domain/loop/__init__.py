"""The agent loop: tool calls of a model, their handling, limits and the end; pure, and shared by all runners."""
