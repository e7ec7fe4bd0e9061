"""The cause of each step: the command that led to it, as the log stores it.

A field that an event of the same step has already is not stored with the command, but read from that event. The name of
a stored form, the names of its fields and the events in which they are looked up never change: a changed form is a new
one, with the next version in its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import compress
from operator import attrgetter, ne
from typing import Final, NamedTuple, TypeAlias, Union

import msgspec
from msgspec import UNSET, UnsetType

from reenact.domain.children import ChildEnded, ChildrenInterrupted, ChildStarted
from reenact.domain.container import ContainerCreated, CreateContainer
from reenact.domain.errors import LogTooNewError, LogUnusableError
from reenact.domain.guards import GuardChecked
from reenact.domain.idempotency import IdempotencyKey
from reenact.domain.image import ImageRegistered, RegisterImage
from reenact.domain.loop.events import HumanResponded, ToolApproved, ToolEdited, ToolRejected, ToolResult
from reenact.domain.loop.rules import Rules
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    ReceivedAnswer,
    ResultsRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.commands import (
    Approve,
    BeginChild,
    BranchSession,
    CancelSchedule,
    Compress,
    CreateSession,
    Delete,
    Finish,
    FireSchedule,
    GiveUpChildren,
    Interrupt,
    PassAnswer,
    Receive,
    Reject,
    Report,
    ReportChild,
    Respond,
    Resume,
    Run,
    ScheduleMessage,
    SessionCommand,
    Stop,
    Switch,
)
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionDeleted
from reenact.domain.structs import Frozen

AnyCommand: TypeAlias = SessionCommand | CreateContainer | RegisterImage
_ANSWER = "so_far"
_RULES = "rules"
_TOOLS = "runs_tools"
_TOOLS_RUN = True
_ONCE = "once"
_CHECKED = "checked"


class Reference(NamedTuple):
    """Where a field of a command is found: in this field of the first event of the type in the step.

    With `equals`, the command's field is a boolean: whether the event's field has that value.
    """

    event: type[msgspec.Struct]
    field: str
    equals: str | None = None

    @property
    def reader(self) -> Callable[[object], object]:
        """A function that reads the value from the event."""
        read, equals = attrgetter(self.field), self.equals
        return read if equals is None else lambda event: read(event) == equals


_Places: TypeAlias = Mapping[str, tuple[Reference, ...]]
_AT = tuple(
    Reference(event, "at")
    for event in (
        *(MessageAccepted, AnswerRecorded, ResultsRecorded, StepStarted),
        *(TurnStarted, TurnContinued, ContextCompressed),
    )
)
_TURN_ID = tuple(
    Reference(event, "turn_id")
    for event in (AnswerRecorded, TurnFailed, TurnCompleted, StepStarted, ResultsRecorded, ContextCompressed)
)
_RESULTS_ID = (Reference(ResultsRecorded, "message_id"),)
_ENDING_PLACES: Final[_Places] = {
    "at": _AT,
    "results_id": _RESULTS_ID,
    "message_id": (Reference(AnswerRecorded, "message_id"),),
    "content": (Reference(AnswerRecorded, "content"),),
    "stop_reason": (Reference(AnswerRecorded, "stop_reason"), Reference(TurnCompleted, "stop_reason")),
    "usage": (Reference(AnswerRecorded, "usage"), Reference(TurnCompleted, "usage")),
    "model": (Reference(AnswerRecorded, "model"),),
    "responding": (
        Reference(ToolsRequested, "from_state", "responding"),
        Reference(TurnCompleted, "from_state", "responding"),
    ),
    "failure": (Reference(TurnFailed, "failure"), Reference(TurnCompleted, "failure")),
    "stop_sequence": (Reference(AnswerRecorded, "stop_sequence"), Reference(TurnCompleted, "stop_sequence")),
    "stop_details": (Reference(AnswerRecorded, "stop_details"), Reference(TurnCompleted, "stop_details")),
    "first_delta": (Reference(AnswerRecorded, "first_delta"),),
}
"""The places of the fields of a command that ends a turn, with the answer so far."""
_CONTINUING_PLACES: Final[_Places] = {
    "at": _AT,
    "turn_id": (Reference(TurnContinued, "turn_id"),),
    "results_id": _RESULTS_ID,
}
"""The places of the fields of a command that continues with calls, and may begin a turn."""


def _same_fields(event: type[msgspec.Struct], *fields: str) -> _Places:
    return {field: (Reference(event, field),) for field in fields}


def _call_decision_places(*events: type[msgspec.Struct]) -> _Places:
    return {
        **_CONTINUING_PLACES,
        "call_id": tuple(Reference(event, "id") for event in events),
        "by": tuple(Reference(event, "by") for event in events),
    }


_NEW_SESSION_FIELDS = ("session_id", "container_id", "image_id", "image_revision")
FORMS: Final[Mapping[str, tuple[type[AnyCommand], _Places]]] = {
    "create-container:1": (CreateContainer, _same_fields(ContainerCreated, "container_id", "name")),
    "register-image:1": (RegisterImage, _same_fields(ImageRegistered, "image_id", "definition")),
    "create-session:1": (CreateSession, _same_fields(SessionCreated, *_NEW_SESSION_FIELDS)),
    "branch-session:1": (
        BranchSession,
        {
            **_same_fields(SessionBranched, *_NEW_SESSION_FIELDS, "origin", "version", "digest", "parent", "budget"),
            "at": (Reference(MessageAccepted, "at"),),
            "left_at": (Reference(AnswerRecorded, "at"), Reference(ResultsRecorded, "at")),
            "results_id": _RESULTS_ID,
        },
    ),
    "switch:1": (
        Switch,
        {
            field: (Reference(HandoverRequested, field), Reference(ImageChanged, field))
            for field in ("image_id", "image_revision", "history")
        },
    ),
    "schedule-message:1": (
        ScheduleMessage,
        _same_fields(MessageScheduled, "schedule_id", "content", "due", "every", "until"),
    ),
    "cancel-schedule:1": (CancelSchedule, _same_fields(ScheduleCancelled, "schedule_id")),
    "fire-schedule:1": (
        FireSchedule,
        {
            **_CONTINUING_PLACES,
            **_same_fields(ScheduleFired, "schedule_id", "due"),
            **_same_fields(AgentStarted, "agent_id"),
            **_same_fields(MessageAccepted, "message_id", "at"),
            "message_turn_id": (Reference(ScheduleFired, "turn_id"),),
        },
    ),
    "run:1": (Run, {**_CONTINUING_PLACES, "agent_id": (Reference(AgentStarted, "agent_id"),)}),
    "receive:1": (
        Receive,
        {
            **_same_fields(MessageAccepted, "turn_id", "message_id", "content", "at", "request_id", "output"),
            _ONCE: (Reference(MessageAccepted, "request_id"),),
        },
    ),
    "finish:1": (Finish, {**_ENDING_PLACES, "turn_id": _TURN_ID}),
    "pass-answer:1": (PassAnswer, _same_fields(GuardChecked, "turn_id")),
    "report:1": (
        Report,
        {
            "turn_id": _TURN_ID,
            "call_id": (Reference(ToolResult, "id"),),
            **_same_fields(ToolResult, "result", "is_error"),
            "at": _AT,
            "results_id": _RESULTS_ID,
        },
    ),
    "compress:1": (Compress, _same_fields(ContextCompressed, "turn_id", "summary", "usage", "model", "at")),
    "approve:1": (
        Approve,
        {
            **_call_decision_places(ToolApproved, ToolEdited),
            "arguments": (Reference(ToolEdited, "edited"),),
            "digest": (Reference(ToolApproved, "digest"),),
        },
    ),
    "reject:1": (Reject, {**_call_decision_places(ToolRejected), **_same_fields(ToolRejected, "reason")}),
    "respond:1": (Respond, {**_call_decision_places(HumanResponded), **_same_fields(HumanResponded, "value")}),
    "resume:1": (Resume, {"turn_id": _TURN_ID, "at": _AT, "results_id": _RESULTS_ID}),
    "interrupt:1": (
        Interrupt,
        {
            **_ENDING_PLACES,
            "at": (*_AT, Reference(ChildrenInterrupted, "at")),
            "reason": (Reference(TurnInterrupted, "reason"), Reference(ChildrenInterrupted, "reason")),
        },
    ),
    "stop:1": (
        Stop,
        {
            **_ENDING_PLACES,
            "agent_id": (Reference(AgentStopped, "agent_id"),),
            "reason": (Reference(AgentStopped, "reason"),),
        },
    ),
    "delete:1": (Delete, {**_ENDING_PLACES, **_same_fields(SessionDeleted, "session_id")}),
    "begin-child:1": (
        BeginChild,
        {
            **_same_fields(SessionCreated, *_NEW_SESSION_FIELDS, "parent", "budget"),
            **_same_fields(AgentStarted, "agent_id"),
            **_same_fields(MessageAccepted, "turn_id", "message_id", "content", "at"),
        },
    ),
    "report-child:1": (
        ReportChild,
        {
            **_same_fields(ChildEnded, "child_id", "outcome", "stop_reason", "steps", "usage", "cost"),
            **_same_fields(ChildEnded, "version", "cursor", "digest", "at"),
            **_same_fields(ToolResult, "result"),
            **_same_fields(MessageAccepted, "content", "message_id"),
            **_same_fields(AgentStarted, "agent_id"),
            "turn_id": (Reference(TurnContinued, "turn_id"), Reference(MessageAccepted, "turn_id")),
            "results_id": _RESULTS_ID,
        },
    ),
    "give-up-children:1": (GiveUpChildren, {**_same_fields(ChildEnded, "at"), "results_id": _RESULTS_ID}),
}
"""The stored names of commands, with the events and fields in which each command's fields may be found."""


class StoredCommand(Frozen):
    """A command as it was stored: the name of its form, and those of its fields that no event of the step has."""

    name: str
    fields: msgspec.Struct

    @property
    def kind(self) -> type[AnyCommand]:
        """The type of the command."""
        return FORMS[self.name][0]

    def stored(self) -> bytes:
        """Return its encoding for the log."""
        return _encode((self.name, self.fields))

    def command(self, events: Sequence[object], rules: Rules) -> AnyCommand:
        """Return the command that led to the events of the step, decided under these rules.

        Of an idempotency key, only the id is known.

        Raises:
            LogUnusableError: a field is neither stored nor found in the events.
        """
        form, first = _form(self.name), _first_by_type(events)
        parts: dict[bool, dict[str, object]] = {False: {}, True: {}}
        for field in form.fields:
            value: object = getattr(self.fields, field.name)
            if value is UNSET:
                value = next((said(first[event]) for event, said in field.places if event in first), field.default)
            if value is msgspec.NODEFAULT:
                raise LogUnusableError(f"the record lacks the {field.name} of the command {self.name!r}")
            parts[field.is_of_answer][field.name] = value
        values, answer = parts[False], parts[True]
        once = values.pop(_ONCE, None)
        if isinstance(once, str):
            values[_ONCE] = IdempotencyKey(once, b"")
        if form.has_rules:
            values[_RULES] = rules if values.pop(_TOOLS) else msgspec.structs.replace(rules, runs_tools=False)
        if answer:
            values[_ANSWER] = msgspec.structs.replace(ReceivedAnswer(), **answer)
        if form.has_checked:
            values[_CHECKED] = tuple(event for event in events if isinstance(event, GuardChecked))
        if form.kind is BranchSession:
            accepted = [event for event in events if isinstance(event, MessageAccepted)]
            values["ids"] = tuple((event.turn_id, event.message_id) for event in accepted)
            if values["edit"] is not None and accepted:
                values["edit"] = accepted[-1].content
            started = [event.origin for event in events if isinstance(event, ChildStarted)]
            values["children"] = tuple(origin for origin in started if origin is not None)
        make: Callable[..., AnyCommand] = form.kind
        return make(**values)  # pyright: ignore[reportArgumentType] - the fields of its kind


def cause_of(command: AnyCommand, events: Sequence[object]) -> bytes:
    """Return the command's encoding for the log, given the events that it led to.

    Raises:
        TypeError: the command holds a value that cannot be encoded.
    """
    form, first = _form(_NAMES[type(command)]), _first_by_type(events)
    if isinstance(command, BranchSession):  # not stored: the events of messages and children have them
        edit = None if command.edit is None else ()
        command = msgspec.structs.replace(command, ids=(), edit=edit, until=0, children=())
    values = form.values(command)
    told = form.defaults.copy()
    for place, event, said in _fields_from(form.name, frozenset(first)):
        told[place] = said(first[event])
    stored = dict(compress(zip(form.names, values, strict=True), map(ne, values, told)))
    once = stored.get(_ONCE)
    if isinstance(once, IdempotencyKey):
        stored[_ONCE] = once.id
        if once.id == told[form.names.index(_ONCE)]:
            del stored[_ONCE]
    return _encode((form.name, stored))


def read_cause(cause: bytes) -> StoredCommand:
    """Return the stored command.

    Raises:
        LogTooNewError: this version does not know the command's form.
        LogUnusableError: the command cannot be decoded.
    """
    try:
        name, fields = _decode(cause)
        if name in FORMS:
            return StoredCommand(name, _form(name).decode(fields))
    except (ValueError, RecursionError) as error:  # ValueError includes invalid UTF-8
        raise LogUnusableError(f"a command cannot be decoded ({error}); verify the log") from error
    raise LogTooNewError(f"the log holds a command of the unknown form {name!r}; upgrade to read it")


class _Field(NamedTuple):
    """A field of a stored form, either of the command itself or of its answer so far."""

    name: str
    default: object
    places: tuple[tuple[type, Callable[[object], object]], ...]
    """Types of events, each with a function that reads the field from it."""
    is_of_answer: bool


class _Form:
    """The stored form of a type of command."""

    def __init__(self, name: str, kind: type[AnyCommand], places: _Places) -> None:
        own = {field.name: field for field in msgspec.structs.fields(kind)}
        self.name = name
        self.kind = kind
        self.has_rules = _RULES in own and kind is not BranchSession
        self.has_checked = _CHECKED in own
        self.fields: list[_Field] = []
        self._types: list[tuple[str, object, object]] = []
        paths: list[str] = []

        def add(name: str, kind: object, default: object, path: str = "") -> None:
            said = tuple((reference.event, reference.reader) for reference in places.get(name, ()))
            self.fields.append(_Field(name, default, said, path.startswith(_ANSWER)))
            self._types.append((name, Union[kind, UnsetType], UNSET))  # noqa: UP007 - the type is a value
            paths.append(path or name)

        for field in own.values():
            if field.name not in (_ANSWER, _RULES, _ONCE, _CHECKED):
                add(field.name, field.type, _default_of(field))
        if _ONCE in own:
            add(_ONCE, str | None, None)
        if self.has_rules:
            add(_TOOLS, bool, _TOOLS_RUN, f"{_RULES}.{_TOOLS}")
        if _ANSWER in own and kind is not BranchSession:
            for field in msgspec.structs.fields(ReceivedAnswer):
                add(field.name, field.type, _default_of(field), f"{_ANSWER}.{field.name}")
        self.names = [field.name for field in self.fields]
        self.defaults = [field.default for field in self.fields]
        self.values: Callable[[AnyCommand], tuple[object, ...]] = attrgetter(*paths)

    @cached_property
    def decode(self) -> Callable[[msgspec.Raw], msgspec.Struct]:
        """A function that decodes the fields; built lazily, since only readers of history need it."""
        name = f"Stored{self.kind.__name__}"
        fields = msgspec.defstruct(name, self._types, frozen=True, forbid_unknown_fields=True)
        return msgspec.msgpack.Decoder(fields).decode


@cache
def _form(name: str) -> _Form:
    return _Form(name, *FORMS[name])


@cache
def _fields_from(name: str, kinds: frozenset[type]) -> list[tuple[int, type, Callable[[object], object]]]:
    """Return the fields that events of these types have: the field's index, the event's type, and its reader."""
    found: list[tuple[int, type, Callable[[object], object]]] = []
    for place, field in enumerate(_form(name).fields):
        found += [(place, event, said) for event, said in field.places if event in kinds][:1]
    return found


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _first_by_type(events: Sequence[object]) -> dict[type, object]:
    return {type(event): event for event in reversed(events)}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw]).decode
_NAMES = {kind: name for name, (kind, _) in FORMS.items()}
