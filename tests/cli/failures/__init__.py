"""Every failure of the command: what makes it happen, and what a caller sees of it in each form."""
