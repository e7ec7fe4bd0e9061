"""Projections of users' own."""
