"""The redaction policy: its paths, and the other fields that repeat the content of those."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import inspect

from reenact.domain import children, image, tools
from reenact.domain.errors import ConfigurationError, RedactionError
from reenact.domain.history.causes import FORMS
from reenact.domain.history.stored import STORED
from reenact.domain.loop import events as loop
from reenact.domain.messages import ToolUseBlock
from reenact.domain.session import agent
from reenact.domain.stream import events as heard


class ToolRedaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is removed from tool calls.

    `name` is that of a tool, or a pattern with `*` and `?`. `arguments` are the paths of the arguments to remove, such
    as `headers.authorization`; `*` is any name, and by itself all arguments. With `result`, the results are removed,
    too.
    """

    name: str
    arguments: tuple[str, ...] = ("*",)
    result: bool = False


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is removed from everything that is exported, wherever it occurs.

    `fields` are paths such as `message-accepted.content` or `*.reason`: the stored name of an event, then names of
    fields; `*` is any name, and everything below a field is removed with it. Copies of the field in other events and in
    feeds are removed as well. `patterns` are regular expressions by the names of what they find; `values` are known
    texts. `secrets` is whether texts in the form of a secret are removed, too. With a `hash_key`, of 1 to 64 bytes,
    equal values have equal marks, and nobody without the key can guess the values.
    """

    fields: tuple[str, ...] = ()
    tools: tuple[ToolRedaction, ...] = ()
    patterns: dict[str, str] = {}
    values: tuple[str, ...] = ()
    secrets: bool = True
    hash_key: bytes | None = None

    def __repr__(self) -> str:
        """Return a representation without secrets."""
        return f"Redaction(fields={self.fields!r}, tools={self.tools!r}, patterns={list(self.patterns)!r}, …)"


def read_redaction(path: str | os.PathLike[str], *, hash_key: bytes | None = None) -> Redaction:
    """Return the policy from a JSON file: an object with the fields of `Redaction` except the key.

    Raises:
        ConfigurationError: the file cannot be read, or holds no valid policy; the message names the field.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the policy {path} cannot be read: {error.strerror}; name another file") from error
    try:
        policy = msgspec.json.decode(text, type=Redaction)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not a policy for exports: {error}") from None
    if policy.hash_key is not None:
        raise RedactionError(f"{path}: the key for hashes must be in a file of its own, not in the policy")
    return msgspec.structs.replace(policy, hash_key=hash_key)


FieldPath: TypeAlias = tuple[str, ...]

ANY = "*"
NEEDS = "@needs"
"""The first name in paths of the `needs` of a row."""

# The fields of each group have the same content. False marks a copy in another form, which is removed as a whole.
_GROUPS = (
    (("message-scheduled.content", True), ("message-accepted.content", True)),
    (("turn-interrupted.reason", True), ("tool-result.result", False)),
    (("turn-failed.failure.message", True), ("turn-completed.failure.message", True), ("@error.message", True)),
    (("turn-failed.failure.type", True), ("turn-completed.failure.type", True), ("@error.type", True)),
    *(
        ((f"answer-recorded.{field}", True), (f"turn-completed.{field}", True), (f"@message_stop.{field}", True))
        for field in ("stop_sequence", "stop_details")
    ),
    (("answer-recorded.content.signature", True), ("@thinking_end.signature", True)),
    (
        ("answer-recorded.content.input", True),
        ("@tool_call.input", True),
        (f"{NEEDS}.calls.arguments", True),
        ("human-approve-required.calls.arguments", True),
        ("human-approve-required.calls.original", False),
        ("tool-edited.original", True),
        ("tool-edited.edited", True),
        ("human-prompt-required.prompt", False),
        ("human-prompt-required.metadata", False),
        ("human-select-required.prompt", False),
        ("human-select-required.options", False),
        ("human-select-required.metadata", False),
    ),
    (("tool-result.result", True), ("@tool_result.result", True), ("results-recorded.content.content", False)),
    (("human-responded.value", True), ("tool-result.result", False)),
    (("tool-rejected.reason", True), ("tool-result.result", False)),
)
_QUOTES: Final[Mapping[FieldPath, FieldPath]] = {
    ("answer-recorded", "content", "text"): ("output-rejected", "errors"),
}
"""Fields that are quoted in another field, which is then removed, too; but not the other way round."""
_CONTENTS = tuple(tuple((tuple(name.split(".")), keeps) for name, keeps in group) for group in _GROUPS)


def with_copies(paths: Iterable[FieldPath]) -> set[FieldPath]:
    """Return the paths, and those of all copies of the same content."""
    found: set[FieldPath] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        waiting += (quote for place, quote in _QUOTES.items() if _inside(path, place) is not None)
        for content in _CONTENTS:
            for place, keeps in content:
                inside = _inside(path, place)
                if inside is not None:
                    waiting += (
                        other + inside if keeps and as_well else other for other, as_well in content if other != place
                    )
    return found


def with_causes(paths: Iterable[FieldPath]) -> Iterator[FieldPath]:
    """Yield the paths, and those of the fields of commands that may hold the same content."""
    for name, *inside in paths:
        yield (name, *inside)
        for form, (_, places) in FORMS.items():
            for field, references in places.items():
                for event, said, _ in references:
                    if STORED.get(name) is event and inside[:1] in ([said], [ANY]):
                        yield (form, field, *inside[1:])


def _inside(path: FieldPath, place: FieldPath) -> FieldPath | None:
    """Return the rest of the path inside of the place: () is the whole place, None means that the path is elsewhere."""
    if any(one not in (ANY, other) for one, other in zip(path, place, strict=False)):
        return None
    return path[len(place) :]


_STAYS = frozenset(
    {
        *("id", "ids", "digest", "revision", "stop_reason", "usage", "from_state", "activity", "media_type", "role"),
        *("model", "origin"),
    }
)
_STAYS_OF: Final[dict[type, frozenset[str]]] = {
    agent.AgentStopped: frozenset({"reason"}),
    agent.RulesRecorded: frozenset({"rules"}),
    image.Definition: frozenset({"policies", "guards", "base"}),
    tools.ToolSpec: frozenset({"name"}),
    tools.Handover: frozenset({"image"}),
    children.AgentTool: frozenset({"name"}),
    children.Parent: frozenset({"root"}),
    loop.Warning: frozenset({"reason"}),
    ToolUseBlock: frozenset({"name"}),
    loop.AskedCall: frozenset({"name"}),
    **dict.fromkeys((loop.ToolStarted, loop.ToolResult), frozenset({"name"})),
    **dict.fromkeys((heard.ToolCall, heard.ToolResult), frozenset({"name"})),
}
"""Further fields that are kept: later decisions in the history depend on them."""
_SEVERAL = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
_WITHOUT_TEXT = (
    inspect.IntType,
    inspect.FloatType,
    inspect.BoolType,
    inspect.DateTimeType,
    inspect.LiteralType,
    inspect.NoneType,
)


def stays(owner: type, field: str) -> bool:
    """Return whether the field of this type must be kept, since the history depends on it."""
    return field in _STAYS or field.endswith(("_id", "_ids")) or field in _STAYS_OF.get(owner, ())


def paths_of(fields: Iterable[str], kinds: Mapping[str, type[msgspec.Struct]]) -> Iterator[FieldPath]:
    """Yield the paths that a policy's fields name, each beginning with the stored name of an event.

    Raises:
        RedactionError: a field does not exist, or cannot be removed.
    """
    for field in fields:
        name, *below = field.split(".")
        if not all((name, *below)):
            raise RedactionError(f"the policy names the field {field!r}; a path is names with dots between them")
        path = tuple(below) or (ANY,)
        if name != ANY and name not in kinds:
            raise RedactionError(f"the policy names {field!r}, but there is no event {name!r}; `*` is any event")
        found = [one for one in kinds if name in (ANY, one) and list(_ends(inspect.type_info(kinds[one]), path))]
        if not found:
            raise RedactionError(f"the policy names {field!r}, but no event has such a field; see docs/export.md")
        ends = [end for one in found for end in _ends(inspect.type_info(kinds[one]), path)]
        if all(end is None or isinstance(end, _WITHOUT_TEXT) for end in ends):
            message = f"the policy names {field!r}, which has to stay: it holds no text, or holds the history together"
            raise RedactionError(f"{message}; name another field")
        yield from ((one, *path) for one in found)


def _ends(kind: inspect.Type, path: FieldPath) -> Iterator[inspect.Type | None]:
    """Yield the types at the path in values of a type, None for fields that must be kept."""
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _ends(one, path)
    elif isinstance(kind, _SEVERAL) and (path or not isinstance(kind.item_type, inspect.StructType)):
        yield from _ends(kind.item_type, path) if path else (kind,)
    elif not path:
        yield kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if path[0] in (ANY, field.name):
                ends = _ends(field.type, path[1:])
                yield from (None for _ in ends) if stays(kind.cls, field.name) else ends
    elif isinstance(kind, inspect.DictType):
        yield from _ends(kind.value_type, path[1:])
    elif isinstance(kind, inspect.AnyType):
        yield kind
