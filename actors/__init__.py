"""Who acts: the live, writing side. Nothing here is imported by name but what the shell puts together."""
