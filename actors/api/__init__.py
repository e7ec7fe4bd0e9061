"""What callers are handed: facades, the operations behind them, and the command protocol."""
