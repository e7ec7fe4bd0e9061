"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package: for each module of `modules`, which names it has."""
    modules_of = {name: module for module, names in modules.items() for name in names.split()}
    loaded = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in modules_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(modules_of[name]), name)
        loaded[name] = value
        return value

    return get, lambda: sorted({*loaded, *modules_of})
