"""A program at a terminal of its own: started, typed to, waited for, ended with all that it started."""
