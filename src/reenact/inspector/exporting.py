"""Writes a session as one self-contained page without scripts, such as for a mail."""

from __future__ import annotations

from datetime import datetime

from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import GENESIS
from reenact.domain.chain import Row as Record
from reenact.domain.errors import InvalidInputError
from reenact.inspector.conversation import conversation_of
from reenact.inspector.lanes import lanes_of
from reenact.inspector.pages.session import drawing_label, state_of, waits_since
from reenact.inspector.relations import Relations
from reenact.inspector.rendering import HERE, Address, Page, render
from reenact.inspector.states import full_state
from reenact.inspector.text import CUT
from reenact.inspector.timeline import lines_by_call, work_of
from reenact.inspector.windows import History

MOST = 20_000
"""The most events of a file."""
DRAWN = 400
"""The most events for which there is a drawing of where the time went."""
_RECORDS = f"SELECT {', '.join(Record.__struct_fields__)} FROM steps WHERE stream = ? ORDER BY version, cursor"  # noqa: S608 - ours


class _InFile(Address, frozen=True):
    """Addresses in the file: of its events, and of nothing else."""

    def to(self, path: str, /, **query: object) -> str:
        """Return the address of an event, or an empty string for another page."""
        return f"#p{query['at']}" if path == "/event" else ""


def page_of(log: StoredJournal, name: str, session_id: str, now: datetime) -> str:
    """Return the page of a session as HTML; `name` is that of the log.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        SessionForgottenError: it was forgotten.
        InvalidInputError: it is too long for a page.
        LogUnusableError: the log holds events that cannot have happened.
    """
    history = History(log, session_id)
    if history.count > MOST:
        message = f"session {session_id!r} has {history.count:,} events, and a page at most {MOST:,}"
        raise InvalidInputError(f"{message}; export it as a file for `reenact import`, without --html")
    window = history.between(1, history.count)
    relations = Relations(window.rows)
    drawing = lanes_of(relations, window) if history.count <= DRAWN else None
    work, span = work_of(relations, window)
    values = {
        "id": session_id,
        "name": name,
        "style": (HERE / "static" / "style.css").read_text("utf-8"),
        "begun": history.begun.event,
        "began": history.begun.recorded_at,
        "state": state_of(window.own),
        "ledger": full_state(history, history.count).ledger,
        "broken": _broken_at(log, history),
        "count": history.count,
        "first": window.own[0].position,
        "last": window.own[-1].position,
        "said": conversation_of(relations, window),
        "lines": lines_by_call(relations, window),
        "room": CUT,
        "drawing": drawing,
        "drawn": "" if drawing is None else drawing_label(drawing),
        "work": work,
        "span": span,
        "waits_since": waits_since(relations, window),
    }
    return render(Page("exported.html", values), address=_InFile("", "/session", {}), now=now)


def _broken_at(log: StoredJournal, history: History) -> int | None:
    """Return the position of the first changed record of the history, or None if all are unchanged.

    It reads all of them.
    """
    for part in history.parts:
        digest = GENESIS
        for cells in log.select(_RECORDS, (part.stream,)):
            record = Record(*cells)
            if record.version > part.last:
                break
            if not record.follows(digest):
                return record.position
            digest = record.digest
    return None
