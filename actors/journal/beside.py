"""What stands beside streams and feeds in a log: is each row one that could have been written?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reenact.actors.journal.chain import request_proof
from reenact.actors.journal.evidence import Evidence
from reenact.actors.journal.requests import UNDER_WAY
from reenact.actors.journal.walk import Finding, Kind, text_of

_FORMS: Final[dict[str, tuple[Kind, tuple[tuple[str, type | None], ...]]]] = {
    "requests": ("request", (("id", None), ("digest", bytes), ("note", bytes), ("at", int))),
    "tracking": ("reader", (("application_name", None), ("notification_id", int))),
    "consumers": ("consumer", (("topic", None), ("client_id", None), ("cursor", int), ("seen_at", int))),
}
"""Tables, what a finding about one of their rows is of, and their columns with what they hold; None is text."""


def check_beside(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is wrong with the rows of requests, readers and consumers."""
    for table, (kind, columns) in _FORMS.items():
        for row in evidence.aside(table):
            wrong = [
                name
                for (name, form), cell in zip(columns, row, strict=False)
                if type(cell) is not (form or evidence.text) or (isinstance(cell, int) and cell < 0)
            ]
            key = "/".join(text_of(cell) for (_, form), cell in zip(columns, row, strict=False) if form is None)
            if wrong:
                yield Finding(kind, key, 0, f"the table {table} holds no such row: see {', '.join(wrong)}")
            elif kind == "reader" and key == UNDER_WAY and row[1]:
                yield Finding("log", "", 0, "an import was cut short; import the same export again, and it goes on")
            elif kind == "request" and row[4] != request_proof(*row[:4]):
                yield Finding(kind, key, 0, "what is remembered of the request was changed")
            elif kind == "consumer" and row[2] > (row[4] or 0):
                yield Finding(kind, key, row[2], f"it has acknowledged more than was said, which ends at {row[4] or 0}")


def check_counts(evidence: Evidence) -> Iterator[Finding]:
    """Yield the first position without an event: positions are given without holes, so what is removed leaves one."""
    counts = evidence.counts()
    hole = evidence.first_hole(counts.first) if counts.last else counts.events and 1
    if hole and hole != counts.last + 1:
        there = f"{counts.events} of {max(counts.last, counts.said)} events are there"
        yield Finding("log", "", hole, f"position {hole} is missing: {there}")
    elif counts.said != counts.last:
        problem = f"the log says that it ends at position {counts.said}, and its last event stands at {counts.last}"
        yield Finding("log", "", min(counts.said, counts.last) + 1, problem)


def check_tables(evidence: Evidence) -> Iterator[Finding]:
    """Yield the tables that a log has, and this one lacks."""
    for name in evidence.missing():
        yield Finding("log", name, 0, "the table is missing")


def check_faults(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is wrong with what keeps the tables, and what that finds wrong with them by itself."""
    for name, fault in evidence.faults():
        yield Finding("file", name, 0, fault)
