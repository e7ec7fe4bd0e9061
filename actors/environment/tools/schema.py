"""The JSON Schema of a tool's arguments, as the Messages API takes it: an object at the top, and few references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from reenact.domain.tools import is_array, is_json, is_object

Json: TypeAlias = dict[str, Any]

_PREFIX: Final = "#/$defs/"
_REFERENCE: Final = re.compile(r'"\$ref":"#/\$defs/([^"]*)"')
_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})


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
    for name, definition in (*_inner_definitions(components), *components.items()):
        plain = {key: value for key, value in definition.items() if key != "$defs"}
        if definitions.setdefault(name, plain) != plain:
            msg = f"two different types have the name {name!r}; rename one of them"
            raise TypeError(msg)
    schema = definitions.pop(_referred(top))
    for name, field in schema["properties"].items():
        _complete(field, texts.get(name), defaults.get(name, msgspec.UNSET))
    del schema["title"]
    inline = {name: of for name, of in definitions.items() if name not in _reachable(_references(of), definitions)}
    needed = sorted(_reachable(_references(schema), definitions) - inline.keys())
    inlined: Json = _inlined(schema, inline)
    return inlined | ({"$defs": {name: _inlined(definitions[name], inline) for name in needed}} if needed else {})


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


def _inner_definitions(node: object) -> Iterator[tuple[str, Json]]:
    """Yield the definitions in a schema, and those in these."""
    if is_object(node) and is_object(inner := node.get("$defs")):
        yield from inner.items()
    for part in node.values() if is_object(node) else node if is_array(node) else ():
        yield from _inner_definitions(part)


def _inlined(node: Any, inline: Json) -> Any:  # noqa: ANN401 - any part of a schema
    """Return the schema with the references to these definitions replaced by them."""
    if is_array(node):
        return [_inlined(item, inline) for item in node]
    if not is_object(node):
        return node
    if (name := _referred(node)) in inline:
        return _inlined({**inline[name], **{key: value for key, value in node.items() if key != "$ref"}}, inline)
    # The discriminator of alternatives is OpenAPI's: it refers to definitions that replace the references to them.
    left_out = {"$defs"} if _ALTERNATIVES.isdisjoint(node) else {"$defs", "discriminator"}
    return {key: _inlined(value, inline) for key, value in node.items() if key not in left_out}


def _referred(node: Json) -> str:
    """Return the name of the definition that the schema refers to; empty if it refers to none."""
    reference = node.get("$ref")
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else ""


def _references(schema: Json) -> set[str]:
    """Return the names of the definitions that the schema refers to."""
    return set(_REFERENCE.findall(msgspec.json.encode(schema).decode()))


def _reachable(names: Iterable[str], definitions: Json) -> set[str]:
    """Return the names, and those of the definitions that they refer to, directly or through others."""
    found: set[str] = set()
    left = set(names)
    while left:
        found |= left
        left = {name for one in left for name in _references(definitions.get(one, {}))} - found
    return found
