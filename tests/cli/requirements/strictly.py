"""JSON as the strictest of readers takes it."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def lines_of_json(printed: str) -> list[Json]:
    """Return the objects of the lines, taking for the end of one what any reader may take for it.

    What is not JSON, no object, or has a key twice is refused.

    Raises:
        ValueError: a line is not what it should be.
    """
    return [_object(line) for line in printed.splitlines() if line]


def _object(line: str) -> Json:
    value = json.loads(line, parse_constant=_refuse, object_pairs_hook=_once_each)
    if not isinstance(value, dict):
        raise TypeError(f"no object: {line}")
    return {str(name): one for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - what JSON holds


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _once_each(pairs: list[tuple[str, Any]]) -> Json:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"a key twice: {names}")
    return dict(pairs)
