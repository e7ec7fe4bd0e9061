"""Has msgspec learn our struct types before several threads use them."""

from __future__ import annotations

import contextlib
from _thread import allocate_lock
from collections.abc import Iterator

import msgspec

_OURS = "reenact."
_resolved: set[type] = set()
_lock = allocate_lock()  # not from `threading`, which a program that wants a value need not wait for
"""Two threads may import at the same time: one resolves, the other waits."""


def resolve_types() -> None:
    """Have msgspec learn each of our struct types that is imported by now, once; called when a public name is imported.

    Otherwise it learns a type when the first value is converted to it, and a second thread that comes to the same type
    meanwhile ends the process with a segmentation fault (msgspec 0.22 uses what it has not learned to the end).
    """
    with _lock:
        for kind in struct_types():
            if kind not in _resolved:
                _resolved.add(kind)
                with contextlib.suppress(TypeError, NameError):  # some are only made, and hold what has no stored form
                    msgspec.msgpack.Decoder(kind)


def struct_types(of: type[msgspec.Struct] = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    """Yield our struct types that are imported by now."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith(_OURS):
            yield kind
        yield from struct_types(kind)
