"""A tool that stands for the answer, for models without a mode of their own for answers that fit a schema.

The model is told of it beside the other tools. Its call never becomes one: the arguments are reported as the text of
the answer. So what is recorded, heard and sent back to models is the same for all of them, and there is no policy and
no intent for it. Nobody is forced to call it, for models that think refuse that: words are JSON, or are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count

import msgspec

from reenact.actors.environment.incoming import Reported, incoming
from reenact.domain.loop.calls import UNREADABLE, is_unreadable
from reenact.domain.loop.values import is_mapping
from reenact.domain.messages import Block, TextBlock, ToolUseBlock
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import InputJsonDelta, MessageStart, MessageStop, StreamData, TextDelta, ToolCall

_NAME = "final_answer"
_TOLD = "Give the final answer by calling this tool, once; nothing else counts as the answer."
_TOOL_USE = "tool_use"
_END = "end_turn"


class AnswerTool:
    """The tool, and what hears of its calls in one answer."""

    def __init__(
        self, output: OutputSpec, others: Iterable[Mapping[str, object]], on_event: Callable[[StreamData], None]
    ) -> None:
        """Take what the answer must be, the other tools, and who is told of the answer."""
        taken = {tool.get("name") for tool in others}
        names = (_NAME if number == 1 else f"{_NAME}_{number}" for number in count(1))
        self.name = next(name for name in names if name not in taken)
        self.offered: Mapping[str, object] = {
            "name": self.name,
            "description": _TOLD,
            "input_schema": output.schema,
        }
        self._on_event = on_event
        self._pieces: list[str] | None = None
        self._speaks = self._calls = self._has_answered = False

    def hear(self, reported: Reported) -> None:
        """Report what the driver reports, the call of the tool as text; on a line of its own, where there is more."""
        event = incoming(reported)
        if self._pieces is not None and not isinstance(event, InputJsonDelta):
            self._say("".join(self._pieces))
            self._pieces = None
        match event:
            case ToolCall(name=self.name, input=None):
                self._pieces = []
            case ToolCall(name=self.name):
                self._say(_written(event.input))
            case InputJsonDelta() if self._pieces is not None:
                self._pieces.append(event.partial_json)
            case MessageStop():
                self._on_event(self._ended(event))
            case _:
                if isinstance(event, MessageStart):
                    self._speaks = self._calls = self._has_answered = False
                self._speaks = self._speaks or (isinstance(event, TextDelta) and bool(event.text))
                self._calls = self._calls or isinstance(event, ToolCall)
                self._on_event(event)

    def _say(self, text: str) -> None:
        self._on_event(TextDelta(text=f"\n{text}" if self._speaks else text))
        self._speaks = self._has_answered = True

    def _ended(self, stop: MessageStop) -> MessageStop:
        is_over = stop.stop_reason == _TOOL_USE and self._has_answered and not self._calls
        stop = msgspec.structs.replace(stop, stop_reason=_END) if is_over else stop
        return msgspec.structs.replace(stop, content=tuple(self._told(stop))) if isinstance(stop, Complete) else stop

    def _told(self, whole: Complete) -> Iterable[Block]:
        speaks = False
        for block in whole.content:
            if isinstance(block, ToolUseBlock) and block.name == self.name:
                text = _written(block.input)
                yield TextBlock(f"\n{text}" if speaks else text)
                speaks = True
            else:
                speaks = speaks or (isinstance(block, TextBlock) and bool(block.text))
                yield block


def _written(value: Json) -> str:
    if is_mapping(value) and is_unreadable(value):
        return str(value[UNREADABLE])
    return msgspec.json.encode(value).decode()
