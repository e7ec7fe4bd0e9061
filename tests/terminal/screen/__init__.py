"""What a screen shows: engines, recordings, drawings."""
