"""A conversation that grows at its end: a value like a tuple, but to add one message costs the same at any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, overload

from reenact.domain.messages import Said, TextBlock, ToolResultBlock

Read: TypeAlias = Callable[[], Sequence[Said]]
"""Returns a conversation as the log has it, from its first message on."""


class Conversation(Sequence[Said]):
    """What was said, in order; immutable to everyone who holds one.

    All conversations that grew out of one another share one list and differ in how much of it they see. Only the one
    that sees all of it may add to it in place, and one that would add what stands there already goes on sharing; any
    other makes a copy first. What stands before the list is read when somebody asks for it, if anything does.
    """

    __slots__ = ("_before", "_beginning", "_length", "_shared")

    def __init__(self, said: Sequence[Said] = ()) -> None:
        self._share(None, list(said), len(said))

    @classmethod
    def unread(cls, length: int, read: Read | None = None) -> Conversation:
        """Return a conversation of so many messages, which are read when one of them is asked for, if they can be."""
        conversation = cls()
        conversation._share(_Beginning(length, read) if length else None, [], length)
        return conversation

    @property
    def is_read(self) -> bool:
        """Whether all of it is in memory."""
        return self._beginning is None or self._beginning.is_read

    def plus(self, said: Said) -> Conversation:
        """Return the conversation that goes on with `said`; this one stays what it is."""
        shared, length = self._shared, self._length - self._before
        if length == len(shared) > 0:
            shared.append(said)
        elif length == 0 or shared[length] != said:  # a list of its own, also for all that begin with nothing
            shared = [*shared[:length], said]
        grown = Conversation.__new__(Conversation)
        grown._share(self._beginning, shared, self._length + 1)  # noqa: SLF001 - one of its own kind
        return grown

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Said: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Said]: ...
    def __getitem__(self, index: int | slice) -> Said | Sequence[Said]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step > 0 and start >= self._before:
                return self._shared[start - self._before : max(start, stop) - self._before : step]
            return list(self)[index]
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(index)
        if self._beginning is not None and place < self._before:
            return self._beginning.said()[place]
        return self._shared[place - self._before]

    def __iter__(self) -> Iterator[Said]:
        if self._beginning is not None:
            yield from self._beginning.said()
        for place in range(self._length - self._before):
            yield self._shared[place]

    def __eq__(self, other: object) -> bool:
        """Return whether the same was said; where one cannot be read, whether as much was said before the rest."""
        if not isinstance(other, Conversation) or len(self) != len(other):
            return False
        known = max(self._unreadable, other._unreadable)
        return list(self[known:]) == list(other[known:])

    def __hash__(self) -> int:
        return hash(self._length)

    @property
    def _unreadable(self) -> int:
        return 0 if self._beginning is None or self._beginning.can_be_read else self._before

    def _share(self, beginning: _Beginning | None, said: list[Said], length: int) -> None:
        self._beginning = beginning
        self._before = 0 if beginning is None else beginning.length
        self._shared = said
        self._length = length

    def __repr__(self) -> str:
        before = f"{self._unreadable} before, " if self._unreadable else ""
        return f"Conversation({before}{list(self[self._unreadable :])!r})"


class _Beginning:
    """The first messages of a conversation. Thread-safe: of two who ask at once, both may read the same."""

    __slots__ = ("_read", "_said", "length")

    def __init__(self, length: int, read: Read | None) -> None:
        self.length = length
        self._read = read
        self._said: Sequence[Said] | None = None

    @property
    def is_read(self) -> bool:
        return self._said is not None

    @property
    def can_be_read(self) -> bool:
        return self._read is not None

    def said(self) -> Sequence[Said]:
        said = self._said
        if said is None:
            if self._read is None:
                raise LookupError("nobody has said where the conversation is read")
            said = self._said = self._read()[: self.length]
        return said


LEAST = 2
"""So many messages have to be replaced, for a summary to be worth its price."""
_INTRODUCTION = "This is a summary of the conversation so far, which had become too long to be kept whole:\n\n"


def introduced(summary: str) -> Said:
    """Return the summary as the model is given it, at the beginning of what is left of the conversation."""
    return Said("user", (TextBlock(_INTRODUCTION + summary),))


def cut_of(messages: Sequence[Said]) -> int:
    """Return how many messages, from the first on, a summary may replace; 0 if it would not be worth it.

    The question that is being answered stays as it is, unless the answer to it is what has become so long: then what is
    kept begins with the last answer, so that the results of calls follow the calls.
    """
    question = max(
        (
            at
            for at, said in enumerate(messages)
            if said.role == "user" and not any(isinstance(block, ToolResultBlock) for block in said.content)
        ),
        default=0,
    )
    answer = max((at for at, said in enumerate(messages) if said.role == "assistant"), default=0)
    cut = question if 2 * question >= len(messages) else answer
    return cut if cut >= LEAST else 0
