"""The JSON Schema of a tool's arguments, as the Messages API takes it: an object at the top, and few references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from reenact.domain.tools import is_array, is_json, is_object

Json: TypeAlias = dict[str, Any]

_PREFIX: Final = "#/$defs/"
_NOT_JSON_SCHEMA: Final = "discriminator"  # OpenAPI's; it holds references to what is put in their place


def schema_of(
    struct: type[msgspec.Struct], texts: Mapping[str, str], defaults: Mapping[str, Any], hook: Callable[[type], Json]
) -> Json:
    """Return the schema of the struct, with descriptions and defaults of its fields.

    A reference is replaced by what it refers to, except where that refers to itself. `hook` gives the schemas of types
    that msgspec does not know, or raises `NotImplementedError`.

    Raises:
        TypeError, NameError: a type of the struct has no schema.
    """
    (top,), components = msgspec.json.schema_components([struct], schema_hook=hook, ref_template=f"{_PREFIX}{{name}}")
    definitions: Json = {}
    for name, schema in components.items():
        _define(definitions, name, _gathered(schema, definitions))
    schema = definitions.pop(_referred(top))
    for name, field in schema["properties"].items():
        _complete(field, texts.get(name), defaults.get(name, msgspec.UNSET))
    cyclic = {name for name in definitions if _refers(definitions[name], name, definitions, set())}
    inlined: Json = _inlined(schema, definitions, cyclic)
    needed = sorted(_needed(inlined, definitions, cyclic, set()))
    del inlined["title"]
    return inlined | (
        {"$defs": {name: _inlined(definitions[name], definitions, cyclic) for name in needed}} if needed else {}
    )


def _complete(field: Json, text: str | None, default: object) -> None:
    """Add what the signature and the docstring say of a field."""
    if text:
        field["description"] = text
    try:
        value = msgspec.to_builtins(default, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return
    if is_json(value):
        field["default"] = value


def _define(definitions: Json, name: str, schema: object) -> None:
    if definitions.setdefault(name, schema) != schema:
        msg = f"two different types have the name {name!r}; rename one of them"
        raise TypeError(msg)


def _gathered(node: Any, definitions: Json) -> Any:  # noqa: ANN401 - any part of a schema
    """Return the schema without the `$defs` in it, which are added to the definitions."""
    if is_array(node):
        return [_gathered(item, definitions) for item in node]
    if not is_object(node):
        return node
    inner = node.get("$defs")
    for name, schema in inner.items() if is_object(inner) else ():
        _define(definitions, name, _gathered(schema, definitions))
    return {key: _gathered(value, definitions) for key, value in node.items() if key != "$defs"}


def _inlined(node: Any, definitions: Json, cyclic: set[str]) -> Any:  # noqa: ANN401 - likewise
    if is_array(node):
        return [_inlined(item, definitions, cyclic) for item in node]
    if not is_object(node):
        return node
    name = _referred(node)
    if name in definitions and name not in cyclic:
        return _inlined(
            {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}, definitions, cyclic
        )
    return {key: _inlined(value, definitions, cyclic) for key, value in node.items() if key != _NOT_JSON_SCHEMA}


def _referred(node: Json) -> str:
    """Return the name of the definition that the schema refers to; empty if it refers to none."""
    reference = node.get("$ref")
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""


def _references(node: object) -> Iterator[str]:
    if is_array(node):
        for item in node:
            yield from _references(item)
    elif is_object(node):
        if name := _referred(node):
            yield name
        for key, value in node.items():
            if key != _NOT_JSON_SCHEMA:
                yield from _references(value)


def _refers(node: object, name: str, definitions: Json, seen: set[str]) -> bool:
    """Return whether the schema refers to the name, through others or directly."""
    for reference in _references(node):
        if reference == name:
            return True
        if reference not in seen and reference in definitions:
            seen.add(reference)
            if _refers(definitions[reference], name, definitions, seen):
                return True
    return False


def _needed(node: object, definitions: Json, cyclic: set[str], found: set[str]) -> set[str]:
    for name in _references(node):
        if name in definitions and name not in found:
            found.add(name)
            _needed(_inlined(definitions[name], definitions, cyclic), definitions, cyclic, found)
    return found
