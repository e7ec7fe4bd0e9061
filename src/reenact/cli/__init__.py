"""The command line: a chat for people, one answer for programs, and a look into the log."""

from __future__ import annotations

from reenact.cli.app import main

__all__ = ["main"]
