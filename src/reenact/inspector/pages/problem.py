"""Pages and notices that say why a page, or a part of it, cannot be shown, and what to do."""

from __future__ import annotations

from typing import Final

from reenact.domain.errors import (
    KeyRingError,
    LogEncryptedError,
    ReadTooLongError,
    ReenactError,
    SessionForgottenError,
)
from reenact.inspector.addresses import Address
from reenact.inspector.late_tables import TablesNotReadyError
from reenact.inspector.rendering import Page
from reenact.inspector.source import Source
from reenact.projections.errors import QueryTooLongError, ReadModelError

_FROM_TABLES: Final = frozenset({"/", "/waiting", "/costs", "/branches"})


def problem_of(error: ReenactError, status: int) -> Page:
    """Return the page that replaces one that could not be made."""
    match error:
        case TablesNotReadyError():
            return Page("making.html", {"done": error.done, "total": error.total}, status)
        case QueryTooLongError() | ReadTooLongError():
            sign, title = "wait", "This page would take too long"
        case LogEncryptedError() | KeyRingError() | ReadModelError(__cause__=LogEncryptedError() | KeyRingError()):
            sign, title = "warn", "This log is encrypted"
        case ReadModelError():
            sign, title = "warn", "The tables of this log cannot be read"
        case SessionForgottenError():
            sign, title = "none", "This session was forgotten"
        case _ if status == 404:  # noqa: PLR2004 - as it is in HTTP
            sign, title = "none", "There is nothing like that in this log"
        case _:
            sign, title = "warn", "This page cannot be shown"
    return Page("problem.html", {"code": error.code, "why": str(error), "sign": sign, "title": title}, status)


def notice_of(source: Source, address: Address) -> str:
    """Return a notice for a page that is made from the tables, or ""."""
    tables = source.tables_now
    if address.path not in _FROM_TABLES or tables is None:
        return ""
    try:
        behind = tables.lag()
        if behind and not tables.is_private:
            return f"The tables are {behind:,} events behind the log; whoever writes it brings them up."
    except ReenactError as error:
        return str(error)
    return ""
