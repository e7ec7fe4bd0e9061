"""Where results, messages and failures go, and in which form."""
