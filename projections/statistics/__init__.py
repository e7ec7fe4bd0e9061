"""What a log comes to in figures: counted from the read model's rows, as tables and as drawings."""
