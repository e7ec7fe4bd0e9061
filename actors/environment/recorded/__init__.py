"""Recordings: the requests to an agent's environment and its answers, stored in a file and replayed."""
