"""`python -m reenact` is the command `reenact`."""

from __future__ import annotations

import sys

from reenact.cli import main

if __name__ == "__main__":
    sys.exit(main())
