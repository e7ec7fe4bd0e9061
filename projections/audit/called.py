"""Which of the values on the way are of calls of tools that a policy names, wherever in a history they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from reenact.domain import events as heard
from reenact.domain.announce import Call
from reenact.domain.loop import events as loop
from reenact.domain.messages import ToolResultBlock, ToolUseBlock
from reenact.projections.audit.copies import Path
from reenact.projections.audit.redaction import ToolRedaction
from reenact.projections.audit.taking import Paths


class Called:
    """What is to be taken out of calls. A call of which only the id is told, and that nobody has seen, may be any."""

    def __init__(self, tools: Sequence[ToolRedaction]) -> None:
        """Take what a policy says of tools."""
        self._tools = [(tool, [tuple(path.split(".")) for path in tool.arguments]) for tool in tools]
        self._streams: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}

    def enter(self, stream: str) -> None:
        """Take note that what comes is a row of this stream."""
        if self._tools:
            self._names = self._streams.setdefault(stream, {})

    def branch(self, origin: str) -> None:
        """Take note that the row's stream goes on with the calls of another one."""
        if self._tools:
            self._names.update(self._streams.get(origin, {}))

    def forget(self, stream: str, ids: Iterable[str]) -> None:
        """Take note that these calls are answered."""
        for each in ids:
            self._streams.get(stream, {}).pop(each, None)

    def paths(self, value: msgspec.Struct) -> Paths:
        """Return what is to be taken out of the value."""
        if not self._tools:
            return ()
        match value:
            case ToolUseBlock(id=call_id, name=name):
                self._names[call_id] = name
                return self._arguments(name, "input", and_whole=("extra",))
            case heard.ToolCall(id=call_id, name=name):
                if call_id is not None:
                    self._names[call_id] = name
                return self._arguments(name, "input")
            case loop.AskedCall(name=name):
                return self._arguments(name, "arguments", and_whole=("original", "reason"))
            case _:
                return self._of_known(value)

    def _of_known(self, value: msgspec.Struct) -> Paths:
        """Return the same for what names a call by its id."""
        match value:
            case Call(id=call_id):
                return self._arguments(self._names.get(call_id), "arguments")
            case loop.ToolEdited(id=call_id):
                return self._arguments(self._names.get(call_id), "original", "edited")
            case loop.HumanPromptRequired(id=known):
                return self._arguments(self._name_of(known), and_whole=("prompt", "metadata"))
            case loop.HumanSelectRequired(id=known):
                return self._arguments(self._name_of(known), and_whole=("prompt", "options", "metadata"))
            case loop.ToolResult(id=call_id, name=name):
                return self._result(name or self._names.get(call_id), "result")
            case heard.ToolResult(id=known, name=called):
                return self._result(called or self._name_of(known), "result")
            case loop.HumanResponded(id=known):
                return self._result(self._name_of(known), "value")
            case ToolResultBlock(tool_use_id=call_id):
                return self._result(self._names.get(call_id), "content")
            case _:
                return ()

    def _name_of(self, call_id: str | None) -> str | None:
        return None if call_id is None else self._names.get(call_id)

    def _arguments(self, name: str | None, *fields: str, and_whole: Sequence[str] = ()) -> Paths:
        found: list[Path] = []
        for tool, arguments in self._tools:
            if arguments and (name is None or fnmatchcase(name, tool.name)):
                found += ((field, *path) for field in fields for path in arguments)
                found += ((field,) for field in and_whole)
        return found

    def _result(self, name: str | None, field: str) -> Paths:
        return [(field,) for tool, _ in self._tools if tool.result and (name is None or fnmatchcase(name, tool.name))]
