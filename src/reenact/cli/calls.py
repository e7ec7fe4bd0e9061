"""The calls of tools that were heard of: as a program reads them at the end, and as a person sees them meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from rich.cells import cell_len, set_cell_size

from reenact.cli.exact import harmless, on_one_line, plain_or_quoted
from reenact.domain.events import AssistantMessage, EventData, ToolEdited, ToolResult, ToolStarted
from reenact.domain.loop.calls import content_of
from reenact.domain.messages import ToolUseBlock
from reenact.domain.people import PendingCall
from reenact.domain.tools import is_object

_WIDTH: Final = 200
_LINES: Final = 3
"""So many lines of a result are shown."""


class CallMade(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asked for, and its answer; `result` is null while there is none."""

    id: str
    name: str
    input: dict[str, Any]
    result: Any = None
    is_error: bool = False


class Calls:
    """Takes note of calls as they are heard of."""

    def __init__(self, pending: Iterable[PendingCall] = ()) -> None:
        """Take note of those that were asked for earlier, and wait for a person."""
        self._made = {call.id: CallMade(id=call.id, name=call.name, input=call.arguments) for call in pending}

    @property
    def made(self) -> tuple[CallMade, ...]:
        """The calls, in the order in which the model asked for them."""
        return tuple(self._made.values())

    def hear(self, event: EventData) -> None:
        """Take note of what an event says of a call."""
        match event:
            case AssistantMessage(message=message):
                for block in message.content:
                    if isinstance(block, ToolUseBlock):
                        self._made[block.id] = CallMade(id=block.id, name=block.name, input=block.input)
            case ToolEdited():
                self._change(event.id, input=event.edited)
            case ToolStarted() if event.id not in self._made:
                self._made[event.id] = CallMade(id=event.id, name=event.name, input=event.input)
            case ToolResult():
                self._change(event.id, result=event.result, is_error=event.is_error)
            case _:
                pass

    def _change(self, call_id: str | None, **changes: Any) -> None:  # noqa: ANN401 - fields differ in type
        if call_id is not None and call_id in self._made:
            self._made[call_id] = msgspec.structs.replace(self._made[call_id], **changes)


def call_line(name: str, arguments: object, width: int) -> str:
    """Return the call on one line of at most so many columns."""
    inside = (
        ", ".join(f"{plain_or_quoted(str(key))}: {on_one_line(value)}" for key, value in arguments.items())
        if is_object(arguments)
        else on_one_line(arguments)
    )
    return cut(f"{plain_or_quoted(name)}({inside})", width)


def told(call: PendingCall) -> str:
    """Return a line that says what waits for a person."""
    what = call_line(call.name, call.arguments, _WIDTH) if call.prompt is None else harmless(call.prompt)
    return f"{harmless(call.id)}  {what}"


def result_lines(result: object, width: int) -> list[str]:
    """Return the first lines of a result, each of at most so many columns, and how many there are more."""
    content = content_of(result)
    text = content if isinstance(content, str) else "\n".join(map(_block, content))
    lines = [harmless(line) for line in text.rstrip().splitlines()] or ["(nothing)"]
    more = len(lines) - _LINES
    shown = [cut(line, width) for line in lines[:_LINES]]
    return shown if more <= 0 else [*shown, f"… {more} more line{'' if more == 1 else 's'}"]


def cut(line: str, width: int) -> str:
    """Return the line with at most so many columns; an ellipsis stands for what is left out."""
    return line if cell_len(line) <= width else f"{set_cell_size(line, max(width - 1, 1)).rstrip()}…"


def _block(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type')}]"
