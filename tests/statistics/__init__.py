"""What a log comes to in figures."""
