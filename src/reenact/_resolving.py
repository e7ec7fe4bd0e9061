"""Makes msgspec prepare our struct types before several threads use them."""

from __future__ import annotations

import contextlib
from _thread import allocate_lock
from collections.abc import Iterator

import msgspec

_OURS = "reenact."
_resolved: set[type] = set()
_lock = allocate_lock()  # not from `threading`, whose import takes longer
"""Threads may import at the same time: one resolves, the others wait."""


def resolve_types() -> None:
    """Make msgspec prepare each of our imported struct types, once; called when a public name is imported.

    Otherwise msgspec prepares a type at its first use, and a second thread that uses the type at the same time crashes
    the process with a segmentation fault (msgspec 0.22 uses types that are not completely prepared).
    """
    with _lock:
        for kind in struct_types():
            if kind not in _resolved:
                _resolved.add(kind)
                with contextlib.suppress(TypeError, NameError):  # types that are only made may have such fields
                    msgspec.msgpack.Decoder(kind)


def struct_types(of: type[msgspec.Struct] = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    """Yield our struct types that are imported by now."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith(_OURS):
            yield kind
        yield from struct_types(kind)
