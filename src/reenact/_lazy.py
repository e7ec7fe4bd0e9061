"""Imports the public names of a package when they are first used."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from typing import NamedTuple


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
        from reenact._resolving import resolve_types  # noqa: PLC0415 - imports msgspec, which takes a while

        value: object = getattr(importlib.import_module(modules_of[name]), name)
        resolve_types()
        loaded[name] = value
        return value

    return get, lambda: sorted({*loaded, *modules_of})


def installed(names: list[str], of_libraries: Mapping[str, str]) -> list[str]:
    """Return the names without those of libraries that are not installed, at which `import *` would fail.

    Importing such a name by itself raises an error that says what to install.
    """
    lacking = {name for library in of_libraries if not _is_installed(library) for name in of_libraries[library].split()}
    return [name for name in names if name not in lacking]


def _is_installed(library: str) -> bool:
    return PathFinder.find_spec(library) is not None
