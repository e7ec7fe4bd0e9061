"""Runs the command `reenact` for `python -m reenact`."""

from __future__ import annotations

import sys

from reenact.cli import main

if __name__ == "__main__":
    sys.exit(main())
