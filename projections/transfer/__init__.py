"""Exports: a log as lines, without what must not leave, and into a log again."""
