"""What a loss of power leaves of a SQLite log: the file, and a write-ahead log that ends in the middle of something."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def torn_copy(log: str | os.PathLike[str], directory: str | os.PathLike[str], *, lose: int = 0) -> Path:
    """Copy an open log into a new directory as a crash would leave it, without the last bytes that were written.

    The last `lose` bytes of its write-ahead log are missing (with 0, all is there: only the process has ended). Opened,
    the copy holds whole transactions, from the first one on. Nothing may be written to the log meanwhile.

    Raises:
        FileExistsError: the directory is there already.
        ValueError: `lose` is below zero.
    """
    if lose < 0:
        raise ValueError(f"a write cannot lose {lose} bytes")
    path, target = Path(log), Path(directory)
    target.mkdir(parents=True)
    copy = target / path.name
    shutil.copyfile(path, copy)
    ahead = Path(f"{path}-wal")
    if ahead.exists():
        copied = Path(shutil.copyfile(ahead, f"{copy}-wal"))
        os.truncate(copied, max(0, copied.stat().st_size - lose))
    return copy
