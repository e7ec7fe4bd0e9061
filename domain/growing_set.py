"""An immutable set of texts, to which adding one costs about the same at any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from reenact.domain.structs import Frozen


class GrowingSet(Frozen, array_like=True):
    """An immutable set that shares most of its content with the sets that it grew from.

    Each part is more than twice as large as the next: what is added is joined with the parts that would break this. So
    each text is copied about once whenever the set doubles, and a search looks into as many parts.
    """

    parts: tuple[frozenset[str], ...] = ()

    def plus(self, texts: Iterable[str]) -> GrowingSet:
        """Return a set with the texts added; this one does not change."""
        added, parts = frozenset(text for text in texts if text not in self), self.parts
        if not added:
            return self
        while parts and len(parts[-1]) <= 2 * len(added):
            added |= parts[-1]
            parts = parts[:-1]
        return GrowingSet((*parts, added))

    def __contains__(self, text: object) -> bool:
        return any(text in part for part in self.parts)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))
