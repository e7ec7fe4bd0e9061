"""What callers can ask for: the table of operations, and what is checked of a request."""
