"""What a terminal shows, worked out by an engine."""
