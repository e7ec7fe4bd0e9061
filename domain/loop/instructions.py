"""What a runner can ask for, as typed values or as mappings under the document's names or ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.calls import ToolCall, call_of
from reenact.domain.loop.events import Option, Options
from reenact.domain.loop.faults import InvalidInstructionError
from reenact.domain.loop.growing import is_list
from reenact.domain.loop.values import Fields, Frozen, FrozenList, frozen, frozen_object, is_mapping

SUMMARIZE: Final = (
    "Summarize the conversation so far for somebody who is to go on with it: what was asked, what was found out and "
    "decided, what is still to be done. Keep names, numbers and paths exactly. Answer with the summary only."
)


class _Instruction(Fields, frozen=True, eq=False):
    type: ClassVar[str]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - fields differ in type
        return self.type if name == "type" else super().__getitem__(_field(type(self), name))

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - fields differ in type
        return self.type if name == "type" else super().get(_field(type(self), name), default)

    def keys(self) -> tuple[str, ...]:
        return ("type", *super().keys())


class CallLLM(_Instruction, frozen=True, eq=False):
    """Call the model with the payload, which is handed to it as it is."""

    type: ClassVar[str] = "call_llm"
    payload: Any = None


class CallTool(_Instruction, frozen=True, eq=False):
    """Run a tool."""

    type: ClassVar[str] = "call_tool"
    tool_call: ToolCall

    def __post_init__(self) -> None:
        """Take a mapping for a call."""
        _set(self, "tool_call", call_of(self.tool_call))


class CallToolsBatch(_Instruction, frozen=True, eq=False):
    """Run several tools at once."""

    type: ClassVar[str] = "call_tools_batch"
    tool_calls: Sequence[ToolCall]

    def __post_init__(self) -> None:
        """Take mappings for calls."""
        _set(self, "tool_calls", _calls(self.tool_calls))


class RequestHumanApprove(_Instruction, frozen=True, eq=False):
    """Ask a person whether these calls may run."""

    type: ClassVar[str] = "request_human_approve"
    pending_tool_calls: Sequence[ToolCall]

    def __post_init__(self) -> None:
        """Take mappings for calls; refuse to wait for nothing."""
        _set(self, "pending_tool_calls", _calls(self.pending_tool_calls))
        if not self.pending_tool_calls:
            msg = "request_human_approve needs at least one call in `pending_tool_calls`"
            raise InvalidInstructionError(msg)


class RequestHumanPrompt(_Instruction, frozen=True, eq=False):
    """Ask a person for text."""

    type: ClassVar[str] = "request_human_prompt"
    prompt: str
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse a question without a text."""
        _check_question(self.type, self.prompt)
        _set(self, "metadata", _metadata(self.metadata))


class RequestHumanSelect(_Instruction, frozen=True, eq=False):
    """Ask a person to select one of the options, or any number of them if `multi`."""

    type: ClassVar[str] = "request_human_select"
    prompt: str
    options: Sequence[Option]
    multi: bool = False
    metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Take mappings and texts for options; refuse a question without any."""
        _check_question(self.type, self.prompt)
        _set(self, "options", _options(self.options))
        _set(self, "metadata", _metadata(self.metadata))
        if not isinstance(self["multi"], bool):
            msg = f"`multi` of request_human_select is true or false, not {self['multi']!r}"
            raise InvalidInstructionError(msg)


class Finish(_Instruction, frozen=True, eq=False):
    """End the conversation."""

    type: ClassVar[str] = "finish"
    reason: str = "completed"
    reason_detail: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no text."""
        for name, allowed in (("reason", str), ("reason_detail", str | None)):
            if not isinstance(self[name], allowed):
                msg = f"`{name}` of finish is text, not {self[name]!r}"
                raise InvalidInstructionError(msg)


class CompressContext(_Instruction, frozen=True, eq=False):
    """Put a summary in the place of all but the last `keep` messages; system messages at the start stay.

    Without a `summary` the model is asked for one, with `prompt` as the last message.
    """

    type: ClassVar[str] = "compress_context"
    keep: int = 4
    summary: str | None = None
    prompt: str = SUMMARIZE
    payload: Any = None

    def __post_init__(self) -> None:
        """Refuse what cannot be kept, and what is no text."""
        if type(self.keep) is not int or self.keep < 0:
            msg = f"`keep` of compress_context is a number of messages, not {self.keep!r}"
            raise InvalidInstructionError(msg)
        if not isinstance(self["summary"], str | None) or not isinstance(self["prompt"], str):
            msg = "`summary` and `prompt` of compress_context are texts"
            raise InvalidInstructionError(msg)


Instruction: TypeAlias = (
    CallLLM
    | CallTool
    | CallToolsBatch
    | RequestHumanApprove
    | RequestHumanPrompt
    | RequestHumanSelect
    | Finish
    | CompressContext
)
KINDS: Final[Mapping[str, type[Instruction]]] = {
    kind.type: kind
    for kind in (
        CallLLM,
        CallTool,
        CallToolsBatch,
        RequestHumanApprove,
        RequestHumanPrompt,
        RequestHumanSelect,
        Finish,
        CompressContext,
    )
}
"""The built-in instructions by their types."""
ASKING: Final = frozenset({"request_human_approve", "request_human_prompt", "request_human_select"})
"""The instructions that ask a person, and so cost nothing."""
_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "call_tool": {"tool_calling": "tool_call", "call": "tool_call", "payload": "tool_call"},
    "call_tools_batch": {"tools_calling": "tool_calls", "calls": "tool_calls", "payload": "tool_calls"},
    "request_human_approve": {
        "pending_tools_calling": "pending_tool_calls",
        "tools_calling": "pending_tool_calls",
        "tool_calls": "pending_tool_calls",
    },
}


def instructions_of(returned: object) -> tuple[object, ...]:
    """Return the instructions that a runner has returned: one, or several in order."""
    if is_list(returned):
        return tuple(returned)
    return (returned,)


def type_of(instruction: object) -> str:
    """Return the type of an instruction, or raise `InvalidInstructionError`."""
    told = instruction.get("type") if is_mapping(instruction) else getattr(instruction, "type", None)
    if isinstance(told, str) and told:
        return told
    msg = f"a runner returns instructions, which have a `type`, or a list of them; not {instruction!r}"
    raise InvalidInstructionError(msg)


def instruction_of(value: object) -> Instruction:
    """Return the built-in instruction that the value asks for, or raise `InvalidInstructionError`."""
    kind = KINDS[type_of(value)]
    if isinstance(value, kind):
        return value
    if not is_mapping(value):
        msg = f"{kind.type} is asked for by a `{kind.__name__}` or a mapping, not by {value!r}"
        raise InvalidInstructionError(msg)
    told: dict[str, Any] = {_field(kind, str(name)): each for name, each in value.items()}
    given = {name: each for name, each in told.items() if name in kind.__struct_fields__}
    missing = [one.name for one in msgspec.structs.fields(kind) if one.required and one.name not in given]
    if missing:
        msg = f"{kind.type} needs `{missing[0]}`, and has: {', '.join(sorted(told)) or 'nothing'}"
        raise InvalidInstructionError(msg)
    return kind(**given)


def snake(name: str) -> str:
    """Return a name of the document's as it is written here: `pendingToolsCalling` is `pending_tools_calling`."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: f"_{found[0]}", name).lower()


def _field(kind: type[_Instruction], name: str) -> str:
    ours = snake(name)
    return _ALIASES.get(kind.type, {}).get(ours, ours)


def _set(instruction: _Instruction, name: str, value: object) -> None:
    msgspec.structs.force_setattr(instruction, name, value)


def _calls(calls: object) -> FrozenList:
    if not is_list(calls):
        msg = f"calls of tools come as a list, not as {calls!r}"
        raise InvalidInstructionError(msg)
    made = FrozenList(call_of(call) for call in calls)
    seen: set[str] = set()
    for call in made:
        if call.id in seen:
            msg = f"two calls have the id {call.id!r}; each answer must find its own call"
            raise InvalidInstructionError(msg)
        seen.add(call.id)
    return made


def _check_question(kind: str, prompt: object) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        msg = f"`prompt` of {kind} is the text of the question, not {prompt!r}"
        raise InvalidInstructionError(msg)


def _metadata(metadata: object) -> Frozen | None:
    return None if metadata is None else frozen_object(metadata, what="metadata")


def _options(options: object) -> Options:
    if not is_list(options) or not options:
        msg = f"`options` of request_human_select is a list with at least one option in it, not {options!r}"
        raise InvalidInstructionError(msg)
    return Options(_option(option) for option in options)


def _option(option: object) -> Option:
    if isinstance(option, Option):
        return option
    if isinstance(option, str):
        return Option(option, option)
    if is_mapping(option) and isinstance(option.get("label"), str):
        label: str = option["label"]
        try:
            return Option(label, frozen(option.get("value", label), what=f"the value of option {label!r}"))
        except InvalidInputError as broken:
            raise InvalidInstructionError(str(broken)) from None
    msg = f"an option is a mapping with a `label` and a `value`, or a text; not {option!r}"
    raise InvalidInstructionError(msg)
