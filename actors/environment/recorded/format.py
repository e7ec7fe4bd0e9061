"""The format of a recording, version 1.

A recording is one JSON object. Its first line holds `format` and `version`; each line after that is one of the
`entries`, and the last line closes the object. An entry is what the environment was asked and what it said to that
(`exchange`), a call of a tool and its result (`tool`), or the note that one of these was cut short while it was being
written (`cut`). Entries are numbered in the order in which they began, and stand in the order in which they ended.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from reenact.actors.environment.api import EnvironmentConfig
from reenact.domain.answer import Complete, gather
from reenact.domain.events import MessageStart, MessageStop, StreamData, stream_event
from reenact.domain.messages import Said

FORMAT: Final = "reenact-recording"
VERSION: Final = 1
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
SHORTEST_DIGESTED: Final = 16
"""Characters of the shortest key of which there is a digest: less could be guessed from it."""


class Digest(msgspec.Struct, frozen=True):
    """How long a key was, and its SHA-256 in hexadecimal digits."""

    length: Annotated[int, msgspec.Meta(ge=SHORTEST_DIGESTED)]
    sha256: str


class ToldTool(msgspec.Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request holds besides the conversation. Of MCP servers only the names: what reaches them may be secret."""

    system: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    tools: tuple[ToldTool, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    api_tools: tuple[dict[str, Any], ...] = ()


class Spoken(msgspec.Struct, frozen=True):
    """An event that the environment emitted, `at` seconds after it was asked."""

    at: _Seconds
    type: str
    data: dict[str, Any]

    @property
    def event(self) -> StreamData:
        """The event as it is emitted.

        Raises:
            UnknownEventTypeError: there is no stream event of the type.
            msgspec.ValidationError: the data does not fit it.
        """
        if self.type == MessageStop.event_type and "content" in self.data:
            return msgspec.convert(self.data, Complete)
        return stream_event(self.type, self.data)


class Exchange(msgspec.Struct, frozen=True, tag_field="kind", tag="exchange", kw_only=True, omit_defaults=True):
    """What the environment was asked, and what it said to that.

    The conversation is that of the exchange which this one `follows`, and then `messages`; without a `setting`, that
    is the same too. One that is not `complete` was cut short, by an interrupt for instance, and never came to its end.
    `hidden` are the keys that stood in the setting or the messages.
    """

    number: _Number
    session: str
    turn: str
    step: _Number
    follows: _Number | None = None
    setting: Setting | None = None
    messages: tuple[Said, ...]
    events: tuple[Spoken, ...] = ()
    complete: bool = True
    hidden: tuple[Digest, ...] = ()

    @property
    def answer(self) -> Said:
        """What the events add up to, as it goes into the conversation."""
        return Said("assistant", gather(spoken.event for spoken in self.events).blocks)


class ToolRun(msgspec.Struct, frozen=True, tag_field="kind", tag="tool", kw_only=True, omit_defaults=True):
    """A call that was run, of the exchange that asked for it, and the result that came `seconds` later.

    One that was run after a restart names no exchange.
    """

    number: _Number
    exchange: _Number | None = None
    id: str
    name: str
    input: dict[str, Any]
    result: Any = None
    is_error: bool = False
    seconds: _Seconds = 0.0
    complete: bool = True


class Cut(msgspec.Struct, frozen=True, tag_field="kind", tag="cut", omit_defaults=True):
    """The entry of this number was cut short: nobody heard more of it than its first `events`."""

    number: _Number
    events: Annotated[int, msgspec.Meta(ge=0)] = 0


Entry: TypeAlias = Exchange | ToolRun | Cut


def spoken(event: StreamData, at: float) -> Spoken:
    """Return the event as it is recorded: without ids that are the runtime's, and without what is not there."""
    if isinstance(event, MessageStart):
        event = MessageStart(model=event.model)
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return Spoken(round(at, 6), event.event_type, {name: one for name, one in fields.items() if one is not None})


def setting_of(config: EnvironmentConfig) -> Setting:
    """Return what an agent's requests hold besides the conversation.

    The tools of MCP servers are not there yet when an environment is made, and are not waited for.
    """
    told = () if config.tools is None else config.tools.specs()
    return Setting(
        system=config.system_prompt,
        model=config.model or config.llm.model,
        max_tokens=config.max_tokens or config.llm.max_tokens,
        tools=tuple(ToldTool(spec.name, spec.description, spec.input_schema) for spec in told),
        mcp_servers=tuple(server.name for server in config.mcp_servers),
        api_tools=tuple(msgspec.to_builtins(dict(tool)) for tool in config.api_tools),
    )
