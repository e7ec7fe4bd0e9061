"""A sequence that grows at its end: a value like a tuple, but to add to it costs the same at any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Growing(Sequence[T], Generic[T]):
    """What has come so far, in order; immutable to everyone who holds one, and equal to any list or tuple of the same.

    All that grew out of one another share their items, by place, and differ in how many of them they see. Whoever adds
    an item where another has added a different one goes on with a copy.
    """

    __slots__ = ("_length", "_shared")

    _length: int
    _shared: dict[int, T]

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._shared = dict(enumerate(items))
        self._length = len(self._shared)

    def plus(self, items: Iterable[T]) -> Growing[T]:
        """Return the sequence that goes on with the items; this one stays what it is."""
        shared, length = self._shared, self._length
        for item in items:
            if shared.setdefault(length, item) is not item:  # one step, also between threads
                shared = {place: shared[place] for place in range(length)}
                shared[length] = item
            length += 1
        grown = Growing[T].__new__(Growing)
        grown._shared, grown._length = shared, length  # noqa: SLF001 - one of its own kind
        return grown

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._shared[place] for place in range(*index.indices(self._length))]
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError(index)
        return self._shared[place]

    def __iter__(self) -> Iterator[T]:
        for place in range(self._length):
            yield self._shared[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Growing):
            others = Growing[T].__iter__(other)
            return self._length == len(other) and all(mine == its for mine, its in zip(self, others, strict=True))
        return list(self) == list[object](other) if isinstance(other, list | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._length)

    def __copy__(self) -> Growing[T]:
        return self

    def __deepcopy__(self, memo: object) -> Growing[T]:
        return self

    def __reduce__(self) -> tuple[type[Growing[T]], tuple[list[T]]]:
        return Growing, (list(self),)

    def __repr__(self) -> str:
        return repr(list(self))
