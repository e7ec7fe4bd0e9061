"""Pages that ask for confirmation before a session's turn is ended, or before it branches off."""

from __future__ import annotations

from typing import Final

from markupsafe import escape

from reenact.domain.errors import AgentNotFoundError, InvalidInputError, SessionNotFoundError
from reenact.inspector.actions import Actions, Form, catch_up
from reenact.inspector.rendering import Address, Page, whole_number
from reenact.inspector.source import Source
from reenact.inspector.text import visible
from reenact.projections.read_model.session_list import SessionLine, lines_of, questions_at

EDITED: Final = 8_000
"""The largest message, in bytes, that can be changed in a form."""


def ask_interrupt(source: Source, address: Address) -> Page:
    """Return the page that asks whether to end the current turn."""
    line = _line(source, address.required("id"))
    return Page("interrupt.html", {"line": line, "turn": _turn_under_way(source, line)})


def interrupt(source: Source, address: Address, actions: Actions, form: Form) -> Page | str:
    """End the turn that was shown as current, if it still is."""
    line = _line(source, form.text("id"))
    turn = _turn_under_way(source, line)
    if turn is None or turn[0] != form.text("turn"):
        return Page("interrupt.html", {"line": line, "turn": None}, 409)
    try:
        actions.owner.agents.interrupt(turn[1])
    except AgentNotFoundError:
        return Page("interrupt.html", {"line": line, "turn": None}, 409)
    catch_up(source)
    return address.to("/session", id=line.id)


def ask_branch(source: Source, address: Address) -> Page:
    """Return the page that asks whether a session is to branch off, and with which message."""
    line = _line(source, address.required("id"))
    at = address.number("at") or line.position
    return Page("branch.html", {"line": line, "at": at, "message": _message(source, line, at)})


def branch(source: Source, address: Address, actions: Actions, form: Form) -> Page | str:
    """Create the branch, and run it if that is asked for.

    Raises:
        ReenactError: the runtime refuses it.
    """
    at = whole_number(form.text("at"))
    if at is None:
        raise InvalidInputError(f"at must be a position, not {form.text('at')!r}")
    edit = form.text("edit").strip()
    sessions = actions.owner.sessions
    made = sessions.branch(form.text("id"), at=at, edit=edit if form.text("do") == "edit" else None)
    if form.text("run"):
        sessions.run(made.id)
    catch_up(source)
    return address.to("/session", id=made.id)


def _line(source: Source, id_: str) -> SessionLine:
    source.tables.refresh()
    keys = source.tables.query("SELECT position FROM sessions WHERE id = :id AND deleted_at IS NULL", id=id_)
    lines = lines_of(source.tables, [key for (key,) in keys if isinstance(key, int)])
    if not lines:
        raise SessionNotFoundError(id_)
    return lines[0]


def _turn_under_way(source: Source, line: SessionLine) -> tuple[str, str] | None:
    """Return the current turn of the session's agent, and the agent, or None."""
    rows = source.tables.query(
        "SELECT turn_id, id FROM agents WHERE session = :key AND stopped_at IS NULL AND turn_id IS NOT NULL",
        key=line.key,
    )
    return next(((str(turn), str(agent)) for turn, agent in rows), None)


def _message(source: Source, line: SessionLine, at: int) -> str | None:
    """Return the last message up to the position, if it is short enough to be changed in a form."""
    ((asked,),) = source.tables.query(
        "SELECT max(asked) FROM turns WHERE session = :key AND asked <= :at", key=line.key, at=at
    )
    if not isinstance(asked, int):
        return None
    ((size,),) = source.tables.query("SELECT length(content) FROM messages WHERE position = :key", key=asked)
    text = questions_at(source.tables, [asked]).get(asked, "") if isinstance(size, int) and size <= EDITED else ""
    return text if visible(text) == escape(text) else None  # text with invisible or active characters is not editable
