"""Requests of callers: the table of operations, and the checks of a request."""
