"""Answers that are to fit a schema: what is sent of it, and whether the server is asked to hold to it strictly.

OpenAI holds strictly to schemas whose objects say all of their members, and takes no others as strict ones. To the rest
models keep as well as they can; the answer is checked when it has come.
(platform.openai.com: "Structured model outputs".)
"""

from __future__ import annotations

from reenact.domain.output import OutputSpec, is_plain_object
from reenact.domain.tools import is_array

_STRICT = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties"}
    | {"required", "title", "type", "exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxItems", "minimum"}
    | {"minItems", "multipleOf", "pattern"}
)
"""Keywords that a strict schema may have."""


def schema_format(output: OutputSpec) -> dict[str, object]:
    """Return the name and the schema, and whether it is a strict one."""
    return {"name": output.name, "schema": output.schema, "strict": is_strict(output.schema)}


def is_strict(node: object) -> bool:
    """Return whether the server can hold an answer to this schema, and to those in it."""
    if not is_plain_object(node) or not node.keys() <= _STRICT:
        return False
    properties, definitions = node.get("properties", {}), node.get("$defs", {})
    if not is_plain_object(properties) or not is_plain_object(definitions):
        return False
    if node.get("type") == "object":
        required = node.get("required", [])
        if not is_array(required) or properties.keys() != set(required):
            return False
        if node.get("additionalProperties") is not False:
            return False
    alternatives = node.get("anyOf")
    inner = [*properties.values(), *definitions.values(), *(alternatives if is_array(alternatives) else ())]
    return all(map(is_strict, [*inner, node["items"]] if "items" in node else inner))
