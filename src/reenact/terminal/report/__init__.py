"""Reports of test results."""
