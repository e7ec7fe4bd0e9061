"""What one transaction will write beside the streams: how far consumers have come, and what has been carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from reenact.actors.journal.api import Mark, Remembered
from reenact.actors.journal.store import Store, Values


class Marks:
    """The marks of a transaction, gathered so that each consumer is written once."""

    __slots__ = ("_marks", "_store")

    def __init__(self, store: Store) -> None:
        """Begin with none, in the store's open transaction."""
        self._store = store
        self._marks: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, marks: Iterable[Mark]) -> None:
        """Take marks in; the higher cursor and the later time stand."""
        gathered = self._marks
        for mark in marks:
            key = (mark.topic, mark.client_id)
            cursor, at = gathered.get(key, (mark.cursor, mark.at))
            gathered[key] = (max(cursor, mark.cursor), max(at, mark.at))

    def delete(self, consumers: Sequence[tuple[str, str]], before: int) -> int:
        """Delete marks, also of those that were taken in, and return how many they were."""
        self._store.write_marks(self.values())
        self._marks.clear()
        return self._store.delete_marks(consumers, before)

    def values(self) -> Values:
        """Return what is to be written."""
        values: Values = []
        for key, mark in self._marks.items():
            values += (*key, *mark)
        return values


class Requests:
    """The requests that a transaction carries out, none of which may have been carried out before."""

    __slots__ = ("_added", "_expected", "_standing", "_store")

    def __init__(self, store: Store, expected: Callable[[], Iterable[str]]) -> None:
        """Begin with none, in the store's open transaction; those that are `expected` are looked up together."""
        self._store = store
        self._expected = expected
        self._standing: set[str] | None = None
        self._added: dict[str, Remembered] = {}

    def holds(self, request_id: str) -> bool:
        """Return whether the request has taken effect, or does in this transaction."""
        if self._standing is None:
            self._standing = set(self._store.remembered(list(set(self._expected()))))
        return request_id in self._standing or request_id in self._added

    def add(self, request: Remembered) -> None:
        """Take in a request that is not held."""
        self._added[request.id] = request

    def delete(self, request_ids: Sequence[str], before: int) -> int:
        """Delete requests of earlier transactions and return how many they were."""
        self._standing = None
        return self._store.delete_requests(request_ids, before)

    def values(self) -> Values:
        """Return what is to be written."""
        values: Values = []
        for request in self._added.values():
            values += (request.id, request.digest, request.note, request.at)
        return values
