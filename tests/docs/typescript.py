"""What the client for browsers and Node has of the schemas: its types, and the table of its operations."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from reenact.domain.errors import ServerUnreachableError
from reenact.domain.operations.table import tidied
from reenact.domain.plain import is_mapping, is_sequence
from reenact.events import CATALOGUE, REQUESTS, RESPONSES, json_schema
from reenact.server.answers import frames_schema
from tests.jsons import array_at, object_at

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "protocol.md"
CLIENT = ROOT / "clients" / "js"
SOURCE = CLIENT / "reenact.js"
TYPES = CLIENT / "types.d.ts"
COMPILER = Path(sys.prefix) / "node_modules" / ".bin" / "tsc"
"""`make typescript` brings it."""
BEGIN, END = "  // operations: .venv/bin/python -m tests.docs.generated\n", "  // /operations\n"
METHODS = {
    "session_list_request": ("sessions", "listByContainer"),
    "session_page_request": ("sessions", "list"),
    "message_send_request": ("agents", "receive"),
}
"""The methods that do not have the names of their requests, as in Python."""
_ENVELOPE = """export interface Envelope<T, D> {
  id: string;
  type: T;
  timestamp: string;
  source: string;
  category: string;
  intent: string;
  context: Context;
  cursor?: number | null;
  data: D;
}

"""
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def operation(name: str) -> tuple[str, str]:
    """Return the group and the name of the method of a request."""
    group, _, verb = name.removesuffix("_request").partition("_")
    return METHODS.get(name) or (f"{group}s", re.sub(r"_(\w)", lambda found: found[1].upper(), verb))


def with_operations(source: str) -> str:
    """Return the source of the client with the table as it ought to be."""
    before, _, rest = source.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines: list[str] = []
    for group, methods in _groups().items():
        lines += (f"  {group}: {{\n", *(f'    {method}: "{name}",\n' for method, name in methods.items()), "  },\n")
    return f"{before}{BEGIN}{''.join(lines)}{END}{after}"


def types() -> str:
    """Return the types of events, requests, results, frames and codes, as a file holds them."""
    events, frames = json_schema(), frames_schema()
    kinds = {name: kind for name, kind in CATALOGUE.items() if kind.source != "command"}
    results, more = msgspec.json.schema_components(
        [kind.result for kind in REQUESTS.values()], ref_template="#/$defs/{name}"
    )
    returned = dict(zip(REQUESTS, map(_type, results), strict=True))
    named = {**object_at(events, "$defs"), **object_at(frames, "$defs"), **object_at(tidied(more))}
    responses = {kind.__name__ for kind in RESPONSES.values()}
    return (
        "".join(
            (
                "// The types of what travels. Made from the schemas: .venv/bin/python -m tests.docs.generated\n\n",
                'import type { RequestOptions } from "./reenact.js";\n\n',
                "/** Stable codes of errors. More may come; take one that you do not know for `internal_error`. */\n",
                f"export type ErrorCode =\n{_union(map(json.dumps, codes()))};\n\n",
                "/** What is told, with its head; `cursor` counts the events of a session: 1, 2, 3, … */\n",
                _ENVELOPE,
                "/** What events say, by their type. */\n",
                _interface("Notifications", ((name, kind.__name__, "") for name, kind in kinds.items())),
                "/** An event; to compare its `type` tells what its `data` is. */\n",
                "export type Notification = { [T in keyof Notifications]: Envelope<T, Notifications[T]> }",
                "[keyof Notifications];\n\n",
                "/** What requests are made with, by their type. */\n",
                _interface("Requests", ((name, kind.__name__, "") for name, kind in REQUESTS.items())),
                "/** What requests return, by their type. */\n",
                _interface("Results", ((name, result, "") for name, result in returned.items())),
                "/** The methods of a client, by their group. */\n",
                "export interface Operations {\n",
                *_operations(),
                "}\n\n",
                *(_declared(name, shape) for name, shape in sorted(named.items()) if name not in responses),
            )
        ).rstrip("\n")
        + "\n"
    )


def codes() -> list[str]:
    """Return the codes that the page about the protocol names, and that of a client without a connection."""
    rows = (row.split("|") for row in PAGE.read_text(encoding="utf-8").partition("## Codes")[2].splitlines())
    named = {code for row in rows if len(row) > 1 for code in re.findall(r"`(\w+)`", row[1])}
    return sorted({*named, ServerUnreachableError.code})


def compiled(directory: Path, *programs: Path) -> str:
    """Return what the compiler has against the client in the directory, or against programs there, as strictly."""
    settings = directory / "tsconfig.json"
    if programs:
        extends = {"extends": str(CLIENT / settings.name), "files": [str(program) for program in programs]}
        settings.write_text(json.dumps(extends), encoding="utf-8")
    command = (str(COMPILER), "--project", str(settings))
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def write() -> None:
    """Write the table and the types."""
    SOURCE.write_text(with_operations(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
    TYPES.write_text(types(), encoding="utf-8")


def _groups() -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for name in REQUESTS:
        group, method = operation(name)
        groups.setdefault(group, {})[method] = name
    return groups


def _operations() -> Iterator[str]:
    for group, methods in _groups().items():
        yield f"  {group}: {{\n"
        for method, name in methods.items():
            kind = REQUESTS[name]
            fields = (field for field in msgspec.structs.fields(kind) if field.name != "request_id")
            optional = "" if any(field.required for field in fields) else "?"
            yield _comment(" ".join((kind.__doc__ or "").split()), "    ")
            yield f'    {method}(data{optional}: Requests["{name}"], options?: RequestOptions): '
            yield f'Promise<Results["{name}"]>;\n'
        yield "  };\n"


def _declared(name: str, shape: Mapping[str, object]) -> str:
    comment = _comment(str(shape.get("description", "")), "")
    properties = shape.get("properties")
    if not is_mapping(properties):
        return f"{comment}export type {name} = {_type(shape)};\n\n"
    return comment + _interface(name, _fields(shape))


def _fields(shape: object) -> Iterator[tuple[str, str, str]]:
    required = array_at(shape, "required") if is_mapping(shape) and "required" in shape else []
    for field, kind in object_at(shape, "properties").items():
        if field != "request_id":
            yield field, _type(kind), "" if field in required else "?"


def _interface(name: str, fields: Iterable[tuple[str, str, str]]) -> str:
    lines = "".join(f"  {field}{optional}: {kind};\n" for field, kind, optional in fields)
    return f"export interface {name} {{\n{lines}}}\n\n"


def _type(shape: object) -> str:
    if not is_mapping(shape):
        return "unknown"
    match shape:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"const": constant}:
            return json.dumps(constant)
        case {"enum": several} if is_sequence(several):
            return " | ".join(map(json.dumps, several))
        case {"anyOf": several} | {"oneOf": several} if is_sequence(several):
            return " | ".join(dict.fromkeys(_type(one) for one in several))
        case {"type": "array", "items": items}:
            return f"Array<{_type(items)}>"
        case {"type": "array"}:
            return "Array<unknown>"
        case {"type": "object", "properties": _}:
            return "{ " + "; ".join(f"{name}{mark}: {kind}" for name, kind, mark in _fields(shape)) + " }"
        case {"type": "object", "additionalProperties": values} if is_mapping(values):
            return f"Record<string, {_type(values)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": str(plain)}:
            return _PLAIN[plain]
        case _:
            return "unknown"


def _union(members: Iterable[str]) -> str:
    return "\n".join(f"  | {member}" for member in members)


def _comment(text: str, indent: str) -> str:
    return f"{indent}/** {text} */\n" if text else ""
