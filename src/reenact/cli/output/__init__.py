"""Output of results, messages and failures, and their formats."""
