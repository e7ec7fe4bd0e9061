"""Checks of a log: whether feeds, snapshots, links and tables follow from its events."""
