"""Projections of users' own: what runs them behind a log, and makes their tables anew."""
