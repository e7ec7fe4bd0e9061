"""Answers that the Messages API holds to a schema: which schemas it takes, and what part of them is sent.

The API takes objects whose members are all known, and checks types, enumerations and some formats. Other rules of a
schema are sent to the model as a description, and are checked when the answer has arrived. (platform.claude.com:
"Structured outputs".)
"""

from __future__ import annotations

from reenact.actors.environment.tools.arguments import inner_schemas, reachable, references
from reenact.actors.environment.wire.stream import object_in
from reenact.domain.output import OutputSpec, is_plain_object
from reenact.domain.plain import JsonObject
from reenact.domain.tools import is_array

_NOT_TAKEN = frozenset(
    {"patternProperties", "propertyNames", "prefixItems", "not", "if", "oneOf", "allOf", "contains", "definitions"}
    | {"dependentRequired", "dependentSchemas"}
)
"""Keywords that a description cannot replace: without them the API would enforce a different schema."""
_KINDS = ("type", "enum", "const", "anyOf", "$ref")


def is_format(schema: JsonObject) -> bool:
    """Return whether the API takes the schema, and answers that fit what is sent of it can fit all of it."""
    definitions = object_in(schema, "$defs")
    is_recursive = any(name in reachable(references(of), definitions) for name, of in definitions.items())
    return _is_taken(schema) and not is_recursive


def output_format(output: OutputSpec) -> dict[str, object]:
    """Return the `format` of the request's `output_config`."""
    from anthropic import transform_schema  # noqa: PLC0415 - half a second, spent only where Claude is used

    return {"type": "json_schema", "schema": transform_schema({**output.schema})}


def _is_taken(node: object) -> bool:
    if not is_plain_object(node) or not _NOT_TAKEN.isdisjoint(node) or all(kind not in node for kind in _KINDS):
        return False
    kind, others = node.get("type"), node.get("additionalProperties", False)
    if is_array(kind) or (kind == "array" and "items" not in node):
        return False
    if kind == "object" and (others is not False or "properties" not in node):
        return False
    return all(map(_is_taken, inner_schemas(node)))
