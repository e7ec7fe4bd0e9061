"""Tells which files belong to a log, so that nothing else is written under their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reenact.actors.journal.opening import file_of, is_postgres

_SUFFIXES: Final = ("-wal", "-shm", "-journal", ".lock", ".sessions")
_FAMILIES: Final = (".projections", ".views")
"""What is beside a log under names that go on in several ways: tables that are made from it."""


def is_own(log: str | os.PathLike[str], path: Path) -> bool:
    """Return whether the path is that of the log, or of a file that belongs to it, whether it is there or not."""
    if is_postgres(log):
        return False
    own, given = Path(file_of(log)).resolve(), path.resolve()
    if any(one.parent == own.parent and _belongs(own.name, one.name) for one in (given, *given.parents)):
        return True
    return given.exists() and any(one.samefile(given) for one in _there(own))


def owner_of(path: Path) -> Path | None:
    """Return the log that is there and to which a file of this name belongs, None if there is none."""
    given = path.resolve()
    return next((log for one in (given, *given.parents) for log in _owners(one) if log.is_file()), None)


def _belongs(log: str, name: str) -> bool:
    rest = name.removeprefix(log)
    return name.startswith(log) and (rest in ("", *_SUFFIXES) or rest.startswith(_FAMILIES))


def _owners(path: Path) -> Iterator[Path]:
    """Yield the logs to which a file of this name would belong."""
    names = [path.name.removesuffix(suffix) for suffix in _SUFFIXES if path.name.endswith(suffix)]
    names += [path.name.partition(family)[0] for family in _FAMILIES if family in path.name]
    yield from (path.with_name(name) for name in names if name)


def _there(own: Path) -> list[Path]:
    """Return the files of the log that are there: one of them may have another name as well."""
    if not own.parent.is_dir():
        return []
    return [one for one in own.parent.iterdir() if _belongs(own.name, one.name)]
