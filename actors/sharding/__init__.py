"""Sharding: which actors are on this node, and how those on other nodes are reached."""
