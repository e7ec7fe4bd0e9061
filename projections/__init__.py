"""What the log adds up to: the tables that every get and list is served from, and what keeps them behind the log."""
