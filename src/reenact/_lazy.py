"""Imports the public names of a package when they are first used, and prepares the struct types that come with them."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import PathFinder
from typing import NamedTuple

_OURS = "reenact."
_resolved: set[type] = set()
_lock = allocate_lock()  # not from `threading`, whose import takes longer
"""Threads may import at the same time: one resolves, the others wait."""


class Deprecated(NamedTuple):
    """A deprecated name: the one to use instead, the version that deprecated it, and the version that removes it."""

    instead: str
    since: str
    until: str

    def warning(self, name: str, instead: str) -> str:
        """Return the text of the deprecation warning."""
        return f"{name} is deprecated since {self.since} and goes in {self.until}: use {instead}"


def lazy_names(
    package: str, modules: Mapping[str, str], deprecated: Mapping[str, Deprecated] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `modules` maps a module to the names that come from it.

    A deprecated name returns the object of its replacement in the package, with a warning.
    """
    modules_of = {name: module for module, names in modules.items() for name in names.split()}
    old = deprecated or {}
    loaded = vars(sys.modules[package])

    def get(name: str) -> object:
        if name in old:
            instead = old[name].instead
            said = old[name].warning(f"{package}.{name}", f"{package}.{instead}")
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[package], instead)
        if name not in modules_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(modules_of[name]), name)
        resolve_types()
        loaded[name] = value
        return value

    return get, lambda: sorted({*loaded, *modules_of})


def installed(names: list[str], library: str, of_library: str) -> list[str]:
    """Return the names, without those of the library if it is not installed: `import *` would fail at them.

    Importing such a name by itself raises an error that says what to install.
    """
    lacking = () if PathFinder.find_spec(library) else of_library.split()
    return [name for name in names if name not in lacking]


def resolve_types() -> None:
    """Make msgspec prepare each of our imported struct types, once; called when a public name is imported.

    Otherwise msgspec prepares a type at its first use, and a second thread that uses the type at the same time crashes
    the process with a segmentation fault (msgspec 0.22 uses types that are not completely prepared).
    """
    import msgspec  # noqa: PLC0415 - takes a while

    with _lock:
        for kind in struct_types(msgspec.Struct):
            if kind not in _resolved:
                _resolved.add(kind)
                with contextlib.suppress(TypeError, NameError):  # types that are only made may have such fields
                    msgspec.msgpack.Decoder(kind)


def struct_types(of: type[object]) -> Iterator[type[object]]:
    """Yield our types that are derived from this one and imported by now."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith(_OURS):
            yield kind
        yield from struct_types(kind)
