"""The payload of both sides: the same in each run, different in each turn."""

from __future__ import annotations

DELTAS = 20


def question(turn: int) -> str:
    """Return a message of 120 characters."""
    return f"question {turn:06d} ".ljust(120, "q")


def deltas(turn: int) -> list[str]:
    """Return the answer to it: 20 deltas of 24 characters."""
    return [f"d{turn:06d}.{number:02d} ".ljust(24, "a") for number in range(DELTAS)]
