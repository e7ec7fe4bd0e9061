"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from typing import NamedTuple


class Deprecated(NamedTuple):
    """A name that goes: the one to use instead, since which version that is said, and which version is without it."""

    instead: str
    since: str
    until: str

    def warning(self, name: str, instead: str) -> str:
        """Return the sentence that whoever uses the name is told."""
        return f"{name} is deprecated since {self.since} and goes in {self.until}: use {instead}"


def lazy_names(
    package: str, modules: Mapping[str, str], deprecated: Mapping[str, Deprecated] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package: for each module of `modules`, which names it has.

    A deprecated name is that of the package which is to be used instead, and warns.
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
        from reenact._resolving import resolve_types  # noqa: PLC0415 - it brings in msgspec, which no version number needs

        value: object = getattr(importlib.import_module(modules_of[name]), name)
        resolve_types()
        loaded[name] = value
        return value

    return get, lambda: sorted({*loaded, *modules_of})


def installed(names: list[str], of_libraries: Mapping[str, str]) -> list[str]:
    """Return the names without those of libraries that are not installed: `import *` would end at the first of them.

    By itself each can be asked for, which says what to install.
    """
    lacking = {name for library in of_libraries if not _is_there(library) for name in of_libraries[library].split()}
    return [name for name in names if name not in lacking]


def _is_there(library: str) -> bool:
    return PathFinder.find_spec(library) is not None
