"""The newest sessions of a log for completion, read from the tables beside it without changing anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from reenact.actors.journal.opening import file_of
from reenact.domain.tools import is_array, is_object
from reenact.projections.generations import Generations

_MOST: Final = 50
_PATIENCE: Final = 0.1
"""Seconds to wait for whoever writes."""
_NEWEST: Final = """
    SELECT id, (SELECT content FROM messages WHERE session = sessions.position ORDER BY asked, position LIMIT 1)
    FROM sessions WHERE deleted_at IS NULL ORDER BY position DESC LIMIT ?
"""


def recent_sessions(database: str) -> list[tuple[str, str]]:
    """Return the ids of the newest sessions of a log, the newest first, each with the first words that were said in it.

    Raises:
        ReenactError: there is no such log, or it cannot be read.
        sqlite3.Error: likewise.
    """
    tables = Generations(Path(f"{file_of(database)}.projections")).current().absolute()
    # Who reads what somebody may be writing leaves files of its own beside it; where nobody does, it need not.
    form = "mode=ro" if Path(f"{tables}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(tables))}?{form}", uri=True, timeout=_PATIENCE)) as connection:
        rows: list[tuple[str, bytes | None]] = connection.execute(_NEWEST, (_MOST,)).fetchall()
    return [(session, "" if content is None else _text(msgspec.msgpack.decode(content))) for session, content in rows]


def _text(blocks: Any) -> str:  # noqa: ANN401 - any value of MessagePack
    texts: Sequence[object] = [block.get("text") for block in blocks if is_object(block)] if is_array(blocks) else []
    return " ".join(text for text in texts if isinstance(text, str))
