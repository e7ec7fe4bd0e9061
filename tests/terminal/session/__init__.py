"""A program at a terminal of its own: started, typed to, waited for, ended."""
