"""Tests of Claude as an environment."""
