"""A conversation: an immutable sequence of messages to which appending one costs the same at any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, overload

import msgspec

from reenact.domain.messages import Said, TextBlock, ToolResultBlock

Read: TypeAlias = Callable[[], Sequence[Said]]
"""Reads a conversation from the log, from its first message on."""


class Conversation(Sequence[Said]):
    """The messages of a conversation, in order; immutable for everyone who holds one.

    All conversations derived from one another share one list and differ in how much of it they see. Only the one that
    sees the whole list appends to it in place, and one that would append the message that is there already keeps
    sharing; any other makes a copy first. Messages before the shared list are read from the log when they are needed.
    """

    __slots__ = ("_before", "_beginning", "_length", "_shared")

    def __init__(self, said: Sequence[Said] = ()) -> None:
        self._share(None, list(said), len(said))

    @classmethod
    def unread(cls, length: int, read: Read | None = None) -> Conversation:
        """Return a conversation of `length` messages, read when one is needed; without `read`, they cannot be read."""
        conversation = cls()
        conversation._share(_Beginning(length, read) if length else None, [], length)
        return conversation

    @property
    def is_read(self) -> bool:
        """Whether all its messages are in memory."""
        return self._beginning is None or self._beginning.is_read

    def plus(self, said: Said) -> Conversation:
        """Return a conversation with `said` appended; this one does not change."""
        shared, length = self._shared, self._length - self._before
        if length == len(shared) > 0:
            shared.append(said)
        elif length == 0 or shared[length] != said:  # make a copy, also of an empty conversation
            shared = [*shared[:length], said]
        grown = Conversation.__new__(Conversation)
        grown._share(self._beginning, shared, self._length + 1)  # noqa: SLF001 - of the same class
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
        """Return whether both have the same messages; unreadable ones are compared by their number only."""
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
    """The first messages of a conversation, read when needed. Thread-safe: two threads may both read them."""

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
                raise LookupError("the source of the conversation is not set")
            said = self._said = self._read()[: self.length]
        return said


_INTRODUCTION = "This is a summary of the conversation so far, which had become too long to be kept whole:\n\n"


def summary_message(summary: str) -> Said:
    """Return the summary as a message to the model, which begins the shortened conversation."""
    return Said("user", (TextBlock(_INTRODUCTION + summary),))


def replaceable_count(messages: Sequence[Said]) -> int:
    """Return how many messages, from the first on, a summary may replace; 0 if it would replace the question alone.

    The question being answered is kept, unless the messages after it make up the larger part of the conversation: then
    the kept part begins with the last answer, so that the results of calls still follow the calls.
    """
    question = max(
        (at for at, said in enumerate(messages) if said.role == "user" and not said.tool_results),
        default=0,
    )
    answer = max((at for at, said in enumerate(messages) if said.role == "assistant"), default=0)
    if 2 * question >= len(messages):
        return question
    return answer if answer > 1 else 0


LEFT_OUT = "[The result was left out, because with it the conversation is too long. Ask for less of it.]"


def without_longest_result(messages: Sequence[Said]) -> list[Said] | None:
    """Return the messages with a note in the place of the longest result of a tool; None if none is longer."""
    longest = max((block for said in messages for block in said.tool_results), key=_length, default=None)
    if longest is None or _length(longest) <= len(LEFT_OUT):
        return None
    note = msgspec.structs.replace(longest, content=LEFT_OUT)
    return [
        msgspec.structs.replace(said, content=tuple(note if block is longest else block for block in said.content))
        for said in messages
    ]


def _length(result: ToolResultBlock) -> int:
    """Return the number of characters of a result's text."""
    content = result.content
    return len(content) if isinstance(content, str) else sum(len(str(block.get("text", ""))) for block in content)
