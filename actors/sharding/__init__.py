"""Sharding: which actors are on this node, and how those of other nodes are reached."""
