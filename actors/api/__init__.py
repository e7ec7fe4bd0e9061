"""The API for callers: facades, the operations behind them, and the command protocol."""
