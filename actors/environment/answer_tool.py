"""A tool that carries the answer, for models that cannot be held to a schema by their API.

The tool is offered to the model beside the other tools. Its call is not recorded as a tool call: the arguments are
reported as the text of the answer. So what is recorded, published and sent back is the same for all models, and no
policy and no intent applies to it. The model is not forced to call the tool, because models that think refuse a forced
call: if the model answers with text instead, the text must be JSON, or the answer is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count

import msgspec

from reenact.actors.environment.incoming import Reported, event_or_error
from reenact.domain.loop.calls import UNREADABLE, is_unreadable, json_text
from reenact.domain.loop.values import is_mapping
from reenact.domain.messages import Block, TextBlock, ToolUseBlock
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json
from reenact.domain.stream.answer import Complete
from reenact.domain.stream.events import InputJsonDelta, MessageStart, MessageStop, StreamData, TextDelta, ToolCall

_NAME = "final_answer"
_DESCRIPTION = "Give the final answer by calling this tool, once; nothing else counts as the answer."
_TOOL_USE = "tool_use"
_END = "end_turn"


class AnswerTool:
    """The answer tool for one request: its definition, and the conversion of its calls to text."""

    def __init__(
        self, output: OutputSpec, others: Iterable[Mapping[str, object]], on_event: Callable[[StreamData], None]
    ) -> None:
        """Create the tool for an answer that fits `output`; `on_event` receives the converted events.

        The name differs from the names of all `others`.
        """
        taken = {tool.get("name") for tool in others}
        names = (_NAME if number == 1 else f"{_NAME}_{number}" for number in count(1))
        self.name = next(name for name in names if name not in taken)
        self.definition: Mapping[str, object] = {
            "name": self.name,
            "description": _DESCRIPTION,
            "input_schema": output.schema,
        }
        self._on_event = on_event
        self._pieces: list[str] | None = None
        self._has_text = self._has_calls = self._has_answered = False

    def convert(self, reported: Reported) -> None:
        """Pass on an event of the driver; a call of the answer tool is passed on as text.

        The text begins on a new line if there is text before it.
        """
        event = event_or_error(reported)
        if self._pieces is not None and not isinstance(event, InputJsonDelta):
            self._report_text("".join(self._pieces))
            self._pieces = None
        match event:
            case ToolCall(name=self.name, input=None):
                self._pieces = []
            case ToolCall(name=self.name):
                self._report_text(_as_json_text(event.input))
            case InputJsonDelta() if self._pieces is not None:
                self._pieces.append(event.partial_json)
            case MessageStop():
                self._on_event(self._converted_stop(event))
            case _:
                if isinstance(event, MessageStart):
                    self._has_text = self._has_calls = self._has_answered = False
                self._has_text = self._has_text or (isinstance(event, TextDelta) and bool(event.text))
                self._has_calls = self._has_calls or isinstance(event, ToolCall)
                self._on_event(event)

    def _report_text(self, text: str) -> None:
        self._on_event(TextDelta(text=f"\n{text}" if self._has_text else text))
        self._has_text = self._has_answered = True

    def _converted_stop(self, stop: MessageStop) -> MessageStop:
        is_over = stop.stop_reason == _TOOL_USE and self._has_answered and not self._has_calls
        stop = msgspec.structs.replace(stop, stop_reason=_END) if is_over else stop
        return (
            msgspec.structs.replace(stop, content=tuple(self._converted_blocks(stop)))
            if isinstance(stop, Complete)
            else stop
        )

    def _converted_blocks(self, whole: Complete) -> Iterable[Block]:
        speaks = False
        for block in whole.content:
            if isinstance(block, ToolUseBlock) and block.name == self.name:
                text = _as_json_text(block.input)
                yield TextBlock(f"\n{text}" if speaks else text)
                speaks = True
            else:
                speaks = speaks or (isinstance(block, TextBlock) and bool(block.text))
                yield block


def _as_json_text(value: Json) -> str:
    if is_mapping(value) and is_unreadable(value):
        return str(value[UNREADABLE])
    return json_text(value)
