"""Reports of what became of tests."""
