"""The event log: hash-chained streams with feeds, group commit, and one global order of events."""
