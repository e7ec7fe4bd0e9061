"""How a value is held against texts with wildcards, regular expressions, paths and commands."""
