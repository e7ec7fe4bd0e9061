"""A log explained: its entries, a session's history, what led to what, and what differs."""
