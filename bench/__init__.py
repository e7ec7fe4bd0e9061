"""How fast it is: every workload on Reenact and on hand-written sqlite3, in turns, in one run; ratios, not promises."""
