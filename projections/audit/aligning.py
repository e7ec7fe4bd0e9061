"""Which items of two lists are the same, so that the fewest are added and removed, whichever list is the first."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
"""The places of an item in the left and in the right list."""


def aligned(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """Return the places of the items that both lists have in the same order: as many as can be.

    Items are the same if their names are, the first of a name with the first, the second with the second, and so on.
    """
    names = _numbered(left)
    places = {name: place for place, name in enumerate(_numbered(right))}
    pairs = [(here, places[name]) for here, name in enumerate(names) if name in places]
    return _longest_rising(pairs, names)


def _numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    numbered: list[tuple[str, int]] = []
    for name in names:
        numbered.append((name, seen[name]))
        seen[name] += 1
    return numbered


def _longest_rising(pairs: Sequence[Pair], names: Sequence[tuple[str, int]]) -> list[Pair]:
    """Return the most pairs that rise on both sides; of several such choices one that does not depend on the side."""
    ranks: defaultdict[int, list[Pair]] = defaultdict(list)
    ends: list[int] = []  # where, negated, the rising pairs of each length begin that leave most room before them
    for here, there in reversed(pairs):
        rank = bisect_left(ends, -there)
        ends[rank : rank + 1] = [-there]
        ranks[rank].append((here, there))
    chosen: list[Pair] = []
    last = (-1, -1)
    for rank in range(len(ends) - 1, -1, -1):
        fitting = [pair for pair in ranks[rank] if pair[0] > last[0] and pair[1] > last[1]]
        last = min(fitting, key=lambda pair: (max(pair), min(pair), names[pair[0]]))
        chosen.append(last)
    return chosen
