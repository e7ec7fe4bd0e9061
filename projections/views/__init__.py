"""Users' projections: declaring them, running them on a log, and rebuilding their tables."""
