"""Where this process is: from where policies judge paths, and how links are followed."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from reenact.domain.loop.rules import Rules


def here(rules: Rules, cwd: str | None = None) -> Rules:
    """Return the rules as they hold in this process; relative paths go on from `cwd`, or its working directory."""
    try:
        where = cwd or str(Path.cwd())
    except OSError:  # somebody has removed it
        where = None
    return msgspec.structs.replace(rules, cwd=where, home=os.environ.get("HOME"), resolve=os.path.realpath)
