"""Projections of users' own: what runs them behind a log, and rebuilds their tables."""
