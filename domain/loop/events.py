"""What happens to calls of tools: facts that a session's log and the history of an `AgentState` have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class LoopEvent(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag_field="type"):
    """Something that happened in the loop, in its `step`, which counts from 1 (0: outside of any)."""

    step: int = 0
    timestamp: datetime | None = None

    @property
    def type(self) -> str:
        """The event's name."""
        return str(self.__struct_config__.tag)


class AskedCall(msgspec.Struct, frozen=True):
    """A call that a person is asked about. `digest` is that of the exact call and of the revision of the policies."""

    id: str
    name: str
    arguments: dict[str, Any]
    digest: str = ""
    reason: str = ""


class HumanApproveRequired(LoopEvent, frozen=True, kw_only=True, tag="human_approve_required"):
    """These calls do not run before a person has approved each of them; `revision` is that of the policies."""

    session_id: str
    calls: tuple[AskedCall, ...]
    revision: str = ""


class ToolPending(LoopEvent, frozen=True, kw_only=True, tag="tool_pending"):
    """These calls wait for a person."""

    ids: tuple[str, ...]


class Option(msgspec.Struct, frozen=True):
    """Something to select: what people read, and what is answered."""

    label: str
    value: Any


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
    if nothing ran (`ran` is then false).
    """

    id: str
    name: str = ""
    result: Any = None
    is_error: bool = False
    cost: float | None = None
    ran: bool = True


class Warning(LoopEvent, frozen=True, kw_only=True, tag="warning"):  # noqa: A001 - the word of the specification
    """A limit that only warns is exceeded."""

    reason: str
    message: str
