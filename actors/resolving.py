"""What msgspec has to know of our types before several threads use them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

_OURS = "reenact."
_resolved: set[type] = set()
_lock = threading.Lock()
"""Two threads may import at the same time: one resolves, the other waits."""


def resolve_types() -> None:
    """Have msgspec learn each of our struct types that is imported by now, once; called where a module ends.

    Otherwise it learns a type when the first value is converted to it, and a second thread that comes to the same type
    meanwhile ends the process with a segmentation fault (msgspec 0.22 uses what it has not learned to the end).
    """
    with _lock:
        for kind in _structs(msgspec.Struct):
            if kind not in _resolved and kind.__module__.startswith(_OURS):
                resolve(kind)
                _resolved.add(kind)


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
