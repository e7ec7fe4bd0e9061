"""The screen of a terminal, as computed by an engine."""
