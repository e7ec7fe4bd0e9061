"""Test cases in files, and their runner."""
