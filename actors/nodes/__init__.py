"""Ownership of shards: which of several nodes may write which part of a log."""
