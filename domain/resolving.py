"""What msgspec has to know of our types before several threads use them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

_OURS = "reenact."
_resolved: set[type] = set()


def resolve_types() -> None:
    """Have msgspec learn each of our struct types that is imported by now, once. Not thread-safe: imports call it.

    Otherwise it learns a type when the first value is converted to it, and a second thread that comes to the same type
    meanwhile ends the process with a segmentation fault (msgspec 0.22 uses what it has not learned to the end).
    """
    for kind in _structs(msgspec.Struct):
        if kind not in _resolved and kind.__module__.startswith(_OURS):
            _resolved.add(kind)
            resolve(kind)


def resolve(kind: type[msgspec.Struct]) -> None:
    """Have msgspec learn a type, unless nothing can be converted to it."""
    try:
        msgspec.msgpack.Decoder(kind)
    except (TypeError, NameError):  # some are only made, never read, and hold what has no stored form
        return


def _structs(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _structs(each)
