"""The turns of one session as spans: a fold over its events, which yields each span with the event that ends it.

Names and attributes are those of OpenTelemetry's conventions for generative AI that released instrumentations write and
backends read (github.com/open-telemetry/semantic-conventions-genai, November 2026; in development), those of
OpenInference, and `reenact.*` where these have no name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from reenact.domain.children import ChildEnded
from reenact.domain.image import Definition
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    ContextCompressed,
    ImageChanged,
    MessageAccepted,
    ResultsRecorded,
    StepStarted,
    TurnCompleted,
    TurnContinued,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.state import SessionBranched, SessionCreated
from reenact.domain.session.turns import COST_LIMIT
from reenact.projections.log import Row
from reenact.tracing.content import (
    Messages,
    arguments_of,
    definitions_of,
    instructions_of,
    message,
    one_message,
    result_of,
)
from reenact.tracing.spans import Context, Kind, Link, Span, Value, brief, span_id_of, trace_id_of

Define: TypeAlias = Callable[[str, int], Definition | None]
"""Returns a revision of an image, or None if the log does not have it."""

_Attributes: TypeAlias = dict[str, Value | None]
"""Attributes; those that are None are left out."""
_Decision: TypeAlias = ToolApproved | ToolEdited | ToolRejected | HumanResponded
_UNKNOWN: Final = Definition(name="")
_CRASH = "crash"
_MOST_TOKENS = 1 << 40
"""A token count that no answer reaches; a greater number is not a count."""
_DECISIONS: Mapping[type, str] = {
    ToolApproved: "approved",
    ToolRejected: "rejected",
    HumanResponded: "answered",
}


class _Chat(msgspec.Struct):
    """A request to the model that began with this event."""

    row: Row
    start: int
    compacted: bool = False
    answer: AnswerRecorded | None = None


class _Turn(msgspec.Struct):
    """A turn in progress. `asked`, `messages`, `answer` are content: the question, the model's input, its answer.

    `model` and `stop_reason` are those of the last answer.
    """

    row: Row
    id: str
    context: Context
    parent: Context | None
    links: tuple[Link, ...]
    queued: float | None
    asked: str | None = None
    messages: Messages | None = None
    answer: str | None = None
    chat: _Chat | None = None
    model: str | None = None
    stop_reason: str | None = None
    interrupted: str | None = None


class _Call(msgspec.Struct):
    """A call of the model; `started` is the event with which it first ran in this turn.

    `waits` is True while it is a child session that waits for a person.
    """

    name: str
    arguments: str | None = None
    started: Row | None = None
    attempts: int = 0
    rejected: bool = False
    waits: bool = False


class _OwningTurn(msgspec.Struct, frozen=True):
    """The turn to which an event outside any turn belongs; `is_shared` if it is another session's, too.

    The spans of a branch are not added to a turn that it shares with its origin, but linked to it.
    """

    context: Context | None = None
    is_shared: bool = False


class _Wait(msgspec.Struct):
    """A question to a person about a call, which began with this event in this turn."""

    row: Row
    what: str
    name: str
    asked_during: _OwningTurn
    edited: bool = False


class SessionTurns:
    """The turns of one session, which gets all its events; a branch gets those of its origin before."""

    def __init__(self, define: Define, *, content: bool) -> None:
        self._define = define
        self._content = content
        self._session_id = ""
        self._image = ("", 0)
        self._agent_id = ""
        self._queue: dict[str, Row] = {}
        self._turn: _Turn | None = None
        self._calls: dict[str, _Call] = {}
        self._waits: dict[str, _Wait] = {}
        self._last: Context | None = None  # the last turn that has ended
        self._asked_during = _OwningTurn()  # the turn in which a person was last asked
        self._origin: tuple[Link, ...] = ()
        self._called_by: Context | None = None

    def is_called_by(self, call: Context, *, detached: bool) -> None:
        """Set the span of the call that started this session: the first turn's parent, or a link if it is detached."""
        if detached:
            self._origin = _links("called", call)
        else:
            self._called_by = call

    def call(self, call_id: str) -> Context | None:
        """Return the span of a running call."""
        call, turn = self._calls.get(call_id), self._turn
        if turn is None or call is None or call.started is None:
            return None
        return Context(turn.context.trace_id, span_id_of(call.started, "execute_tool", call_id))

    def apply(self, row: Row) -> Iterator[Span]:
        """Take in the next event, and yield the spans that it ends."""
        event = row.event
        match event:
            case TurnStarted():
                self._begin(row, event.turn_id)
                self._ask_model(row)
            case TurnContinued():
                self._begin(row, event.turn_id, *_links("waited", self._asked_during.context))
            case StepStarted():
                self._ask_model(row)
            case ContextCompressed():
                yield from self._compress(row, event)
            case AnswerRecorded():
                yield from self._answer(row, event)
            case HumanApproveRequired():
                for asked in event.calls:
                    yield from self._ask_person(row, asked.id, "approval", asked.name)
            case HumanPromptRequired() | HumanSelectRequired():
                call_id = event.id or ""
                asking = self._calls.get(call_id)
                yield from self._ask_person(row, call_id, "question", "" if asking is None else asking.name)
            case ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
                yield from self._end_decision(row, event)
            case ToolStarted():
                call = self._calls.setdefault(event.id, _Call(event.name))
                call.started, call.attempts = call.started or row, event.attempt
            case ToolResult():
                yield from self._end_call(row, event)
            case TurnCompleted():
                yield from self._end_turn(row, event)
            case _:
                self._note_event(row)

    def _note_event(self, row: Row) -> None:
        """Note an event that ends no span."""
        event, turn = row.event, self._turn
        match event:
            case SessionCreated():
                self._session_id, self._image = event.session_id, (event.image_id, event.image_revision)
            case SessionBranched():
                self._branch(event)
            case ImageChanged():
                self._image = event.image_id, event.image_revision
            case AgentStarted():
                self._agent_id = event.agent_id
            case MessageAccepted():
                self._queue[event.turn_id] = row
            case ResultsRecorded():
                self._calls.clear()
                if turn is not None and turn.messages is not None:
                    turn.messages.add(message("tool", event.content))
            case TurnInterrupted() if turn is not None:
                turn.interrupted = event.reason
            case ChildEnded() if event.call_id in self._calls:
                self._calls[event.call_id].waits = event.outcome == "waiting"
            case _:
                pass

    def _branch(self, event: SessionBranched) -> None:
        """Continue as another session, whose own turns follow; open questions to people stay open in both."""
        attributes: dict[str, Value] = {
            "reenact.branch.origin": brief(event.origin),
            "reenact.branch.version": event.version,
        }
        self._origin = _links("branched", self._last if self._turn is None else self._turn.context, attributes)
        self._session_id, self._image = event.session_id, (event.image_id, event.image_revision)
        self._turn = None
        self._asked_during = msgspec.structs.replace(self._asked_during, is_shared=True)
        for wait in self._waits.values():
            wait.asked_during = msgspec.structs.replace(wait.asked_during, is_shared=True)
        self._queue.clear()
        for call in self._calls.values():
            call.started = None

    def _begin(self, row: Row, turn_id: str, *links: Link) -> None:
        accepted = self._queue.pop(turn_id, None)
        parent, self._called_by = self._called_by, None
        trace_id = trace_id_of(row) if parent is None else parent.trace_id
        context = Context(trace_id, span_id_of(row, "invoke_agent"))
        queued = None if accepted is None else (row.recorded_at - accepted.recorded_at) / 1_000_000
        self._turn = turn = _Turn(row, turn_id, context, parent, (*self._origin, *links), queued)
        if self._content:
            turn.messages = Messages()
            if accepted is not None and isinstance(accepted.event, MessageAccepted):
                turn.asked = one_message("user", accepted.event.content)
                turn.messages.add(message("user", accepted.event.content))

    def _ask_model(self, row: Row) -> None:
        if self._turn is not None:
            self._turn.chat = _Chat(row, row.recorded_at)

    def _compress(self, row: Row, event: ContextCompressed) -> Iterator[Span]:
        turn = self._turn
        if turn is None or turn.chat is None:
            return
        attributes: _Attributes = {
            **_usage_attributes(event.model, event.usage, event.cost),
            "reenact.compression": True,
        }
        if self._content:
            attributes["gen_ai.output.messages"] = one_message("assistant", [TextBlock(event.summary)])
        yield self._chat_span(
            turn, row, row, what="reenact.compression", start=turn.chat.start, attributes=attributes, model=event.model
        )
        turn.chat.start, turn.chat.compacted = row.recorded_at, True

    def _answer(self, row: Row, event: AnswerRecorded) -> Iterator[Span]:
        for block in event.content:
            if isinstance(block, ToolUseBlock):
                self._calls[block.id] = _Call(block.name, arguments_of(block.input) if self._content else None)
        turn = self._turn
        if turn is not None and turn.chat is not None:
            turn.chat.answer = event
            if not event.partial:  # otherwise the end of the turn says why it is partial
                yield from self._end_chat(turn, row)

    def _end_chat(self, turn: _Turn, row: Row, error: str | None = None, detail: str | None = None) -> Iterator[Span]:
        chat, turn.chat = turn.chat, None
        if chat is None:
            return
        answer, model = chat.answer, None
        attributes: _Attributes = {
            "gen_ai.conversation.compacted": chat.compacted or None,
            "gen_ai.input.messages": None if turn.messages is None else turn.messages.text(),
        }
        if answer is not None:
            model = answer.model
            turn.model, turn.stop_reason = model or turn.model, answer.stop_reason
            if turn.messages is not None:
                turn.messages.add(message("assistant", answer.content))
                turn.answer = one_message("assistant", answer.content, answer.stop_reason)
                attributes["gen_ai.output.messages"] = turn.answer
            attributes |= {
                **_usage_attributes(model, answer.usage, answer.cost),
                "gen_ai.response.id": brief(answer.message_id),
                "gen_ai.response.finish_reasons": (brief(answer.stop_reason),),
                "gen_ai.response.time_to_first_chunk": answer.first_delta,
                "reenact.partial": answer.partial or None,
            }
        elif isinstance(row.event, TurnCompleted) and row.event.unsaid is not None:
            model = row.event.unsaid.model
            attributes |= _usage_attributes(model, row.event.unsaid.usage, row.event.unsaid.cost)
        span = self._chat_span(turn, chat.row, row, what="chat", start=chat.start, attributes=attributes, model=model)
        yield msgspec.structs.replace(span, error=error, message=detail if self._content else None)

    def _chat_span(
        self, turn: _Turn, began: Row, ended: Row, *, what: str, start: int, attributes: _Attributes, model: str | None
    ) -> Span:
        definition = self._definition()
        wanted = definition.model or model
        attributes |= {
            **self._common_attributes(began, "LLM"),
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider_of(wanted),
            "gen_ai.request.stream": True,
            "gen_ai.request.model": _brief(wanted),
            "gen_ai.request.max_tokens": definition.max_tokens,
        }
        span = _span(("chat", wanted), "chat", start, ended, attributes)
        return _in_trace(span, began, span_id_of(began, what), _OwningTurn(turn.context))

    def _ask_person(self, row: Row, call_id: str, what: str, name: str) -> Iterator[Span]:
        call = self._calls.get(call_id)
        if call is not None and call.started is not None:  # its outcome is not known, so a person is asked
            yield self._call_span(row, call_id, call, "lost")
        if self._turn is not None:
            self._asked_during = _OwningTurn(self._turn.context)
        if call_id not in self._waits:
            self._waits[call_id] = _Wait(row, what, name, self._asked_during)

    def _end_decision(self, row: Row, event: _Decision) -> Iterator[Span]:
        call_id = event.id or ""
        call = self._calls.setdefault(call_id, _Call(""))
        if not isinstance(event, ToolEdited):
            call.rejected = isinstance(event, ToolRejected)
            yield from self._end_wait(row, call_id, _DECISIONS[type(event)], event.by)
            return
        if self._content:
            call.arguments = arguments_of(event.edited)
        if call_id in self._waits:
            self._waits[call_id].edited = True

    def _end_wait(self, row: Row, call_id: str, decision: str, by: str | None = None) -> Iterator[Span]:
        wait = self._waits.pop(call_id, None)
        if wait is None:
            return
        attributes: _Attributes = {
            **self._common_attributes(wait.row, "CHAIN"),
            "gen_ai.tool.name": brief(wait.name),
            "gen_ai.tool.call.id": brief(call_id),
            "reenact.approval.kind": wait.what,
            "reenact.approval.decision": decision,
            "reenact.approval.waited_s": max(0, row.recorded_at - wait.row.recorded_at) / 1_000_000,
            "reenact.approval.edited": wait.edited or None,
            "reenact.approval.by": brief(by) if by else None,
        }
        began = row if wait.asked_during.is_shared else wait.row
        span = _span((wait.what, wait.name), "wait", wait.row.recorded_at, row, attributes)
        yield _in_trace(span, began, span_id_of(began, wait.what, call_id), wait.asked_during)

    def _end_call(self, row: Row, event: ToolResult) -> Iterator[Span]:
        yield from self._end_wait(row, event.id, "withdrawn")
        call = self._calls.setdefault(event.id, _Call(event.name))
        call.name = event.name or call.name
        error = None
        if event.is_error:
            stopped = "denied" if event.denied else "rejected" if call.rejected else "not_run"
            error = "tool_error" if event.ran else stopped
        span = self._call_span(row, event.id, call, error)
        span.attributes["reenact.tool.ran"] = event.ran
        if event.cost is not None:
            span.attributes["reenact.cost"] = event.cost
        if self._content:
            span.attributes["gen_ai.tool.call.result"] = result_of(event.result)
        yield span

    def _call_span(self, row: Row, call_id: str, call: _Call, error: str | None) -> Span:
        began, call.started = call.started or row, None
        attributes: _Attributes = {
            **self._common_attributes(began, "TOOL"),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": brief(call.name),
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": brief(call_id),
            "gen_ai.tool.description": next(
                (_brief(tool.description or None) for tool in self._definition().tools if tool.name == call.name), None
            ),
            "gen_ai.tool.call.arguments": call.arguments,
            "reenact.tool.attempts": call.attempts if call.attempts > 1 else None,
        }
        span = _span(("execute_tool", call.name), "execute_tool", began.recorded_at, row, attributes, error=error)
        owner = self._asked_during if self._turn is None else _OwningTurn(self._turn.context)
        return _in_trace(span, began, span_id_of(began, "execute_tool", call_id), owner)

    def _end_turn(self, row: Row, event: TurnCompleted) -> Iterator[Span]:
        self._queue.pop(event.turn_id, None)
        turn = self._turn
        if turn is None or turn.id != event.turn_id:
            return  # it never began, or belongs to the origin
        error = event.failure.type if event.failure is not None else None
        if turn.interrupted == _CRASH:
            error = _CRASH
        detail = event.failure.message if event.failure is not None else None
        if event.stop_reason == COST_LIMIT:
            turn.chat = None  # the request to the model was not made
        yield from self._end_chat(turn, row, error, detail)
        for call_id, call in self._calls.items():
            if call.started is not None:
                yield self._call_span(row, call_id, call, None if call.waits else "lost")
        definition = self._definition()
        model = definition.model or turn.model
        attributes: _Attributes = {
            **self._common_attributes(turn.row, "AGENT"),
            **_usage_attributes(None, event.usage, event.cost),
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.output.type": "text",
            "gen_ai.provider.name": _provider_of(model),
            "gen_ai.request.model": _brief(model),
            "gen_ai.response.finish_reasons": None if turn.stop_reason is None else (brief(turn.stop_reason),),
            "reenact.turn.outcome": event.outcome,
            "reenact.turn.stop_reason": brief(event.stop_reason),
            "reenact.turn.queued_s": turn.queued,
        }
        if self._content:
            attributes |= {
                "gen_ai.input.messages": turn.asked,
                "gen_ai.output.messages": turn.answer,
                "gen_ai.system_instructions": instructions_of(definition),
                "gen_ai.tool.definitions": definitions_of(definition),
            }
        span = _span(
            ("invoke_agent", definition.name), "invoke_agent", turn.row.recorded_at, row, attributes, error=error
        )
        yield msgspec.structs.replace(
            span, context=turn.context, parent=turn.parent, links=turn.links, message=detail if self._content else None
        )
        self._last, self._turn = turn.context, None

    def _common_attributes(self, began: Row, kind: str) -> _Attributes:
        """Return the attributes of every span that begins with this event."""
        image_id, revision = self._image
        return {
            "gen_ai.conversation.id": brief(self._session_id),
            "session.id": brief(self._session_id),
            "openinference.span.kind": kind,
            "gen_ai.agent.id": brief(image_id),
            "gen_ai.agent.name": brief(self._definition().name) or None,
            "gen_ai.agent.version": str(revision),
            "reenact.agent.id": brief(self._agent_id),
            "reenact.position": began.position,
            "reenact.turn.id": None if self._turn is None else brief(self._turn.id),
        }

    def _definition(self) -> Definition:
        return self._define(*self._image) or _UNKNOWN


def _span(
    what: tuple[str, str | None],
    kind: Kind,
    start: int,
    ended: Row,
    attributes: _Attributes,
    *,
    error: str | None = None,
) -> Span:
    """Return a span without a trace; it never ends before it begins, even if the clock was set back."""
    return Span(
        name=brief(" ".join(filter(None, what))),
        kind=kind,
        context=Context(0, 0),
        parent=None,
        start=start,
        end=max(start, ended.recorded_at),
        attributes={name: value for name, value in attributes.items() if value is not None},
        error=error,
    )


def _in_trace(span: Span, began: Row, span_id: int, owner: _OwningTurn) -> Span:
    """Return the span as a part of its turn, or in a trace of its own if the turn is shared with another session."""
    if owner.context is None or owner.is_shared:
        context = Context(trace_id_of(began), span_id)
        return msgspec.structs.replace(span, context=context, links=_links("waited", owner.context))
    return msgspec.structs.replace(span, context=Context(owner.context.trace_id, span_id), parent=owner.context)


def _links(what: str, context: Context | None, attributes: Mapping[str, Value] | None = None) -> tuple[Link, ...]:
    return () if context is None else (Link(context, {"reenact.link": what, **(attributes or {})}),)


def _usage_attributes(model: str | None, usage: Mapping[str, object], cost: float | None) -> _Attributes:
    """Return an answer's usage; the conventions count all input tokens, cached or not."""
    given, said, written, read = (
        count if type(count := usage.get(name)) is int and 0 <= count < _MOST_TOKENS else None
        for name in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    return {
        "gen_ai.response.model": _brief(model),
        "gen_ai.usage.input_tokens": None if given is None else given + (written or 0) + (read or 0),
        "gen_ai.usage.output_tokens": said,
        "gen_ai.usage.cache_write.input_tokens": written or None,
        "gen_ai.usage.cache_creation.input_tokens": written or None,  # the older name, which backends read
        "gen_ai.usage.cache_read.input_tokens": read or None,
        "reenact.cost": cost,
    }


def _brief(text: str | None) -> str | None:
    return None if text is None else brief(text)


_PROVIDERS: Final = (
    ("anthropic", ("claude",)),
    ("openai", ("gpt-", "o1", "o3", "o4")),
    ("gcp.gemini", ("gemini",)),
    ("mistral_ai", ("mistral",)),
    ("deepseek", ("deepseek",)),
    ("x_ai", ("grok",)),
    ("cohere", ("command-",)),
    ("moonshot_ai", ("kimi",)),
)
"""How the names of a provider's models begin."""


def _provider_of(model: str | None) -> str:
    """Return the provider of the model, as its name suggests: the log does not say which API was used."""
    return next((provider for provider, begins in _PROVIDERS if (model or "").startswith(begins)), "_OTHER")
