"""The agent loop, where it decides."""
