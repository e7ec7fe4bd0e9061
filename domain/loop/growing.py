"""A sequence that grows at its end: a value like a tuple, but to add to it costs the same at any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeGuard, TypeVar, overload

T = TypeVar("T")


def is_growing(value: object) -> TypeGuard[Growing[Any]]:
    """Return whether the value is such a sequence."""
    return isinstance(value, Growing)


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether the value can be iterated over."""
    return isinstance(value, Iterable)


def is_list(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether the value is a list or a tuple."""
    return isinstance(value, list | tuple)


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
        grown: Growing[T] = Growing()
        grown._shared, grown._length = shared, length
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
        if is_growing(other) or is_list(other):
            return self._length == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))
        return NotImplemented

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
