"""Answers written by hand as servers send them, and what is reported of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from reenact.actors.environment.openai.chat import ChatReader
from reenact.actors.environment.openai.responses import ResponsesReader
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.domain.messages import Block, Said, ToolUseBlock
from reenact.domain.stream.answer import Answer, Complete
from reenact.domain.stream.events import StreamData

Json: TypeAlias = dict[str, Any]
Reader: TypeAlias = ChatReader | ResponsesReader


class Heard:
    """What was reported of an answer."""

    def __init__(self, events: Sequence[StreamData]) -> None:
        self.events = list(events)

    @property
    def end(self) -> Complete:
        """The end of the message."""
        (end,) = (event for event in self.events if isinstance(event, Complete))
        return end

    @property
    def content(self) -> tuple[Block, ...]:
        """The message, whole; who only gathers what was reported has the same."""
        answer = Answer(lambda: "msg")
        for event in self.events:
            if not isinstance(event, Complete):
                answer.accept(event)
        assert [type(block) for block in answer.blocks] == [type(block) for block in self.end.content]
        return self.end.content

    @property
    def calls(self) -> list[tuple[str, object]]:
        """The calls, by name and arguments."""
        return [(block.name, block.input) for block in self.content if isinstance(block, ToolUseBlock)]

    @property
    def ids(self) -> list[str]:
        """The ids of the calls."""
        return [block.id for block in self.content if isinstance(block, ToolUseBlock)]


def read(
    reader: Callable[[MessageDecoder, Iterable[Said]], Reader],
    data: Iterable[Json | str | bytes],
    conversation: Sequence[Said] = (),
) -> Heard:
    """Return what is reported of these events, each an object, or what stands in its place."""
    events: list[StreamData] = []

    def hear(event: object) -> None:
        assert isinstance(event, StreamData)
        events.append(event)

    reading = reader(MessageDecoder(hear), conversation)
    for one in data:
        text = one if isinstance(one, str | bytes) else json.dumps(one)
        reading.take("", text if isinstance(text, bytes) else text.encode())
    reading.end()
    return Heard(events)


def chunk(delta: Json | None = None, finish_reason: str | None = None, **fields: object) -> Json:
    """Return a chunk of Chat Completions."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields}


def piece(arguments: object, *, name: str | None = None, **fields: object) -> Json:
    """Return a delta with a piece of a call."""
    named = {} if name is None else {"name": name}
    return {"tool_calls": [{**fields, "function": {**named, "arguments": arguments}}]}


def chat(*data: Json | str | bytes, conversation: Sequence[Said] = ()) -> Heard:
    """Return what is reported of these chunks."""
    return read(ChatReader, data, conversation)


def responses(*data: Json | str | bytes, conversation: Sequence[Said] = ()) -> Heard:
    """Return what is reported of these events of Responses."""
    return read(ResponsesReader, data, conversation)
