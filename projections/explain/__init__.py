"""Explanations of a log: its entries, a session's history, causes and effects of events, differences of states."""
