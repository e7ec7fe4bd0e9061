"""What tests of tools have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jsonschema import Draft202012Validator


def fits(schema: Mapping[str, Any], value: object) -> bool:
    """Return whether the schema, which is checked itself, describes the value."""
    Draft202012Validator.check_schema(schema)
    is_valid: Callable[[object], bool] = getattr(Draft202012Validator(schema), "is_valid")  # noqa: B009 - its types are partly unknown
    return is_valid(value)
