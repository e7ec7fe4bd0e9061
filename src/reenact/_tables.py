"""Opens the tables of a log for reading, while another process may be writing it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from reenact._location import location_of
from reenact._runtime import codec
from reenact.actors.journal.key_ring import KeyRing
from reenact.projections.log import OnProgress
from reenact.projections.read_model.reader_tables import SECONDS, ReaderTables


@contextmanager
def open_tables(
    path: str | os.PathLike[str],
    *,
    keys: KeyRing | None = None,
    seconds: float = SECONDS,
    progress: OnProgress | None = None,
) -> Generator[ReaderTables]:
    """Open the log at a path, or a `sqlite:///` or `postgresql://` URL, and its tables, as `ReaderTables` does.

    Raises:
        ConfigurationError: it names no log, or a package is missing.
        StorageError: the log cannot be read, or the tables cannot be made; the subclass says why.
    """
    location = location_of(path, keys)
    with (
        location.open(codec(), read_only=True) as log,
        ReaderTables(
            location.url, log, location.has_writer, seconds=seconds, progress=progress, cipher=log.codec.vault
        ) as tables,
    ):
        yield tables
