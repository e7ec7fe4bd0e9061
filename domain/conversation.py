"""A conversation that grows at its end: a value like a tuple, but to add one message costs the same at any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from reenact.domain.messages import Said


class Conversation(Sequence[Said]):
    """What was said, in order; immutable to everyone who holds one.

    All conversations that grew out of one another share one list and differ in how much of it they see. Only the one
    that sees all of it may add to it in place, and one that would add what stands there already goes on sharing; any
    other makes a copy first.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, said: Sequence[Said] = ()) -> None:
        self._share(list(said), len(said))

    def plus(self, said: Said) -> Conversation:
        """Return the conversation that goes on with `said`; this one stays what it is."""
        shared, length = self._shared, self._length
        if length == len(shared) > 0:
            shared.append(said)
        elif length == 0 or shared[length] != said:  # a list of its own, also for all that begin with nothing
            shared = [*shared[:length], said]
        grown = Conversation.__new__(Conversation)
        grown._share(shared, length + 1)  # noqa: SLF001 - one of its own kind
        return grown

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Said: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Said]: ...
    def __getitem__(self, index: int | slice) -> Said | Sequence[Said]:
        if isinstance(index, slice):
            return self._shared[: self._length][index]
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(index)
        return self._shared[place]

    def __iter__(self) -> Iterator[Said]:
        for index in range(self._length):
            yield self._shared[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(said.role for said in self))

    def _share(self, said: list[Said], length: int) -> None:
        self._shared = said
        self._length = length

    def __repr__(self) -> str:
        return f"Conversation({list(self)!r})"
