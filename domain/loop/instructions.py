"""The instructions of a runner, as typed values or as mappings with the names of the specification or ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias, get_args

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.calls import ToolCall, call_of
from reenact.domain.loop.events import Option, Options
from reenact.domain.loop.faults import InvalidInstructionError
from reenact.domain.loop.values import Fields, FrozenList, frozen, frozen_object, is_mapping
from reenact.domain.plain import Encodable, JsonObject, is_sequence

SUMMARIZE = (
    "Summarize the conversation so far for somebody who is to go on with it: what was asked, what was found out and "
    "decided, what is still to be done. Keep names, numbers and paths exactly. Answer with the summary only."
)


class _Instruction(Fields):
    type: ClassVar[str]

    def __post_init__(self) -> None:
        """Convert the fields from the forms that users may give, or raise `InvalidInputError`."""
        for name in self.__struct_fields__:
            msgspec.structs.force_setattr(self, name, _field_value(self.type, name, getattr(self, name)))

    def __getitem__(self, name: str) -> object:
        return super().__getitem__(_canonical_name(name))

    def keys(self) -> tuple[str, ...]:
        return ("type", *super().keys())


class CallLLM(_Instruction):
    """Call the model with the payload, which is passed on unchanged."""

    type = "call_llm"
    payload: Encodable = None


class CallTool(_Instruction):
    """Run a tool."""

    type = "call_tool"
    tool_call: ToolCall


class CallToolsBatch(_Instruction):
    """Run several tools at once."""

    type = "call_tools_batch"
    tool_calls: Sequence[ToolCall]


class RequestHumanApprove(_Instruction):
    """Ask a person whether these calls, at least one, may run."""

    type = "request_human_approve"
    pending_tool_calls: Sequence[ToolCall]


class RequestHumanPrompt(_Instruction):
    """Ask a person for text."""

    type = "request_human_prompt"
    prompt: str
    metadata: JsonObject | None = None


class RequestHumanSelect(_Instruction):
    """Ask a person to select one of the options, or any number of them if `multi`."""

    type = "request_human_select"
    prompt: str
    options: Sequence[Option]
    multi: bool = False
    metadata: JsonObject | None = None


class Finish(_Instruction):
    """End the conversation."""

    type = "finish"
    reason: str = "completed"
    reason_detail: str | None = None


class CompressContext(_Instruction):
    """Replace all but the last `keep` messages by a summary; system messages at the start stay.

    Without a `summary` the model is asked for one, with `prompt` as the last message.
    """

    type = "compress_context"
    keep: int = 4
    summary: str | None = None
    prompt: str = SUMMARIZE
    payload: Encodable = None


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
KINDS: Final[Mapping[str, type[Instruction]]] = {kind.type: kind for kind in get_args(Instruction)}
"""The built-in instructions by their types."""
ASKING = frozenset({"request_human_approve", "request_human_prompt", "request_human_select"})
"""The instructions that ask a person, and therefore cost nothing."""
_ALIASES = {
    "tool_calling": "tool_call",
    "tools_calling": "tool_calls",
    "pending_tools_calling": "pending_tool_calls",
}


def instructions_of(returned: object) -> tuple[object, ...]:
    """Return the instructions that a runner returned, one or several, in order."""
    return tuple(returned) if is_sequence(returned) else (returned,)


def type_of(instruction: object) -> str:
    """Return the type of an instruction, or raise `InvalidInstructionError`."""
    told = instruction.get("type") if is_mapping(instruction) else getattr(instruction, "type", None)
    if isinstance(told, str) and told:
        return told
    raise InvalidInstructionError(
        f"a runner returns instructions, which have a `type`, or a list of them; not {instruction!r}"
    )


def instruction_of(value: object) -> Instruction:
    """Return the built-in instruction that the value describes, or raise `InvalidInstructionError`."""
    kind = KINDS[type_of(value)]
    if isinstance(value, Instruction):
        return value
    if not is_mapping(value):
        raise InvalidInstructionError(f"{kind.type} is asked for by a `{kind.__name__}` or a mapping, not by {value!r}")
    told: dict[str, object] = {_canonical_name(str(name)): each for name, each in value.items()}
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in told:
            raise InvalidInstructionError(f"{kind.type} needs `{field.name}`, and has: {', '.join(sorted(told))}")
    make: Callable[..., Instruction] = kind
    return make(**{name: each for name, each in told.items() if name in kind.__struct_fields__})


def snake(name: str) -> str:
    """Return a name in camel case as the name in snake case: `pendingToolsCalling` is `pending_tools_calling`."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: f"_{found[0]}", name).lower()


def _canonical_name(name: str) -> str:
    return _ALIASES.get(snake(name), snake(name))


def _field_value(kind: str, name: str, told: object) -> object:
    """Return the field's value converted from the forms that users may give, or raise `InvalidInputError`."""
    several = told if is_sequence(told) else ()
    match name:
        case "tool_call":
            return call_of(told)
        case "metadata":
            return None if told is None else frozen_object(told, what=name)
        case "tool_calls":
            fits, wanted = is_sequence(told), "a list of calls"
        case "pending_tool_calls":
            fits, wanted = is_sequence(told) and bool(told), "a list with at least one call in it"
        case "options":
            fits, wanted = is_sequence(told) and bool(told), "a list with at least one option in it"
        case "prompt":
            fits, wanted = isinstance(told, str) and bool(told.strip()), "the text that is asked"
        case "reason" | "reason_detail" | "summary":
            fits, wanted = isinstance(told, str) or (told is None and name != "reason"), "text"
        case "multi":
            fits, wanted = isinstance(told, bool), "true or false"
        case "keep":
            fits, wanted = type(told) is int and told >= 0, "a number of messages"
        case _:
            return told
    if not fits:
        raise InvalidInstructionError(f"`{name}` of {kind} must be {wanted}, not {told!r}")
    if name == "options":
        return Options(map(_option, several))
    return _unique_calls(several) if name.endswith("tool_calls") else told


def _unique_calls(calls: Iterable[object]) -> FrozenList[ToolCall]:
    made = FrozenList(map(call_of, calls))
    seen: set[str] = set()
    for call in made:
        if call.id in seen:
            raise InvalidInstructionError(f"two calls have the id {call.id!r}; each answer must find its own call")
        seen.add(call.id)
    return made


def _option(option: object) -> Option:
    if isinstance(option, Option):
        return option
    if isinstance(option, str):
        return Option(option, option)
    if is_mapping(option) and isinstance(label := option.get("label"), str):
        try:
            return Option(label, frozen(option.get("value", label), what=f"the value of option {label!r}"))
        except InvalidInputError as broken:
            raise InvalidInstructionError(str(broken)) from None
    raise InvalidInstructionError(
        f"an option must be a mapping with a `label` and a `value`, or a text, not {option!r}"
    )
