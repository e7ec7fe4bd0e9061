"""What happens to calls of tools: facts that a session's log and the history of an `AgentState` have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.growing import is_list
from reenact.domain.loop.values import Fields


class LoopEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Something that happened in the loop, in its `step`, which counts from 1 (0: outside of any).

    `changes` are what else has become of an `AgentState`, by field: what an executor of somebody's own has made of it.
    """

    step: int = 0
    timestamp: datetime | None = None
    changes: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The event's name."""
        return str(self.__struct_config__.tag)


class AskedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a person is asked about. `digest` is that of the exact call and of the revision of the policies.

    `original` is the call as it was written down, where that is to be kept.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    digest: str = ""
    reason: str = ""
    original: dict[str, Any] | None = None

    @property
    def tool_call(self) -> ToolCall:
        """The call as it was written down."""
        return ToolCall(self.original, id=self.id, name=self.name, arguments=self.arguments)


class HumanApproveRequired(LoopEvent, frozen=True, kw_only=True, tag="human_approve_required"):
    """These calls do not run before a person has approved each of them; `revision` is that of the policies."""

    session_id: str
    calls: tuple[AskedCall, ...]
    revision: str = ""

    @property
    def pending_tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls as they were written down."""
        return tuple(call.tool_call for call in self.calls)


class ToolPending(LoopEvent, frozen=True, kw_only=True, tag="tool_pending"):
    """These calls wait for a person."""

    ids: tuple[str, ...]


class Option(Fields, frozen=True, eq=False):
    """Something to select: what people read, and what is answered."""

    label: str
    value: Any


class Options(tuple[Option, ...]):
    """What can be selected; it also equals a list of the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if is_list(other) else other)

    def __hash__(self) -> int:
        return super().__hash__()


class HumanPromptRequired(LoopEvent, frozen=True, kw_only=True, tag="human_prompt_required"):
    """A person is asked for text; `id` is the call that asked, if one did."""

    session_id: str
    prompt: str
    metadata: dict[str, Any] | None = None
    id: str | None = None


class HumanSelectRequired(LoopEvent, frozen=True, kw_only=True, tag="human_select_required"):
    """A person is asked to select one of the options, or any number of them if `multi`."""

    session_id: str
    prompt: str
    options: tuple[Option, ...]
    multi: bool = False
    id: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Let the options equal a list."""
        msgspec.structs.force_setattr(self, "options", Options(self.options))


class ToolApproved(LoopEvent, frozen=True, kw_only=True, tag="tool_approved"):
    """A person approved the call with this digest."""

    id: str
    digest: str
    by: str | None = None


class ToolEdited(LoopEvent, frozen=True, kw_only=True, tag="tool_edited"):
    """A person changed the arguments of the call."""

    id: str
    original: dict[str, Any]
    edited: dict[str, Any]
    by: str | None = None


class ToolRejected(LoopEvent, frozen=True, kw_only=True, tag="tool_rejected"):
    """A person rejected the call."""

    id: str
    reason: str
    by: str | None = None


class HumanResponded(LoopEvent, frozen=True, kw_only=True, tag="human_responded"):
    """A person answered what was asked."""

    value: Any
    id: str | None = None
    by: str | None = None


class ToolStarted(LoopEvent, frozen=True, kw_only=True, tag="tool_started"):
    """The call is about to run: recorded before it does. `attempt` counts from 1."""

    id: str
    name: str
    attempt: int = 1


class ToolResult(LoopEvent, frozen=True, kw_only=True, tag="tool_result"):
    """The call is answered, by the tool or by what kept it from running.

    `result` is text, a sequence of content blocks as mappings, or any other JSON value; `cost` is None if unknown, or
    if nothing ran (`ran` is then false). `batch` tells that the call is one of several that were made together.
    """

    id: str
    name: str = ""
    result: Any = None
    is_error: bool = False
    cost: float | None = None
    ran: bool = True
    batch: bool = False


class Warning(LoopEvent, frozen=True, kw_only=True, tag="warning"):  # noqa: A001 - the word of the specification
    """A limit that only warns is exceeded."""

    reason: str
    message: str
