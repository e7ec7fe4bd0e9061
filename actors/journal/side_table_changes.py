"""Collects a transaction's changes to the tables beside the streams: consumer marks and requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reenact.actors.journal.api import Mark, Remembered
from reenact.actors.journal.requests import Request, remembered_of
from reenact.actors.journal.store import Changes, SideTable, Store, Values
from reenact.domain.chain import request_proof


class SideTableChanges:
    """Collects marks, so that each consumer is written once, and requests that have not been carried out before."""

    def __init__(self, store: Store, requests: Sequence[Request]) -> None:
        """Start empty, in the store's open transaction; all these requests are looked up together."""
        self._store = store
        self._expected = requests
        self._known_ids: set[str] | None = None
        self._remembered: dict[str, Remembered] = {}
        self._marks: dict[tuple[str, str], tuple[int, int]] = {}

    def mark(self, marks: Iterable[Mark]) -> None:
        """Add marks; of several for a consumer, the higher cursor and the later time are kept."""
        gathered = self._marks
        for mark in marks:
            key = (mark.topic, mark.client_id)
            cursor, at = gathered.get(key, (mark.cursor, mark.at))
            gathered[key] = (max(cursor, mark.cursor), max(at, mark.at))

    def delete(self, table: SideTable, keys: Sequence[tuple[str, ...]], before: int) -> int:
        """Delete marks, including those added here, or requests of earlier transactions, and return their number."""
        if table == "consumers":
            self._store.write_marks(self._mark_values())
            self._marks.clear()
        else:
            self._known_ids = None
        return self._store.delete(table, keys, before)

    def remembers(self, request_id: str) -> bool:
        """Return whether the request has taken effect, or takes effect in this transaction."""
        if self._known_ids is None:
            self._known_ids = set(self._store.remembered(list(set(remembered_of(self._expected)))))
        return request_id in self._known_ids or request_id in self._remembered

    def remember(self, request: Remembered) -> None:
        """Add a request that has not been carried out before."""
        self._remembered[request.id] = request

    def fill(self, changes: Changes) -> None:
        """Add the collected changes to those of the transaction."""
        changes.marks = self._mark_values()
        for request in self._remembered.values():
            proof = request_proof(request.id.encode(), request.digest, request.note, request.at)
            changes.remembered += (request.id, request.digest, request.note, request.at, proof)

    def _mark_values(self) -> Values:
        values: Values = []
        for key, mark in self._marks.items():
            values += (*key, *mark)
        return values
