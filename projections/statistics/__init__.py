"""Statistics of a log, counted from the read model's rows, as tables and as charts."""
