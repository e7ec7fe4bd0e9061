"""Answers: collected from the events of their turns, and printed as text, as a JSON object, or as a stream of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import asdict, replace
from rich.cells import cell_len, set_cell_size

from reenact.cli.output.console import Console
from reenact.cli.output.control_characters import escape_plainly
from reenact.cli.output.exact import on_one_line, plain_or_quoted
from reenact.cli.output.failures import AGENT_FAILED, Problem, problem_of_turn
from reenact.cli.settings.values import OutputFormat
from reenact.domain.legible import display_safe
from reenact.domain.loop.calls import content_of
from reenact.domain.loop.ledger import sum_of
from reenact.domain.messages import StopDetails, ToolUseBlock, Usage
from reenact.domain.plain import JsonObject
from reenact.domain.session.people import PendingCall
from reenact.domain.session.state import REFUSAL, plus_cost
from reenact.domain.session.told import ToolCallInfo
from reenact.domain.session.turns import COST_LIMIT, MAX_STEPS, REJECTED, REPEATED
from reenact.domain.stream.events import (
    AssistantMessage,
    ChildEnded,
    Envelope,
    ErrorMessage,
    EventData,
    TextDelta,
    ToolEdited,
    ToolResult,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.tools import is_object

BETWEEN_MESSAGES = "\n\n"
"""Separator between two messages of one answer, which are before and after tool calls."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a question; it `waits` if a person must decide about a call, and then has no problem."""

    session_id: str
    agent_id: str = ""
    turn_id: str | None = None
    text: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: Usage = {}
    cost: float | None = None
    duration: float = 0.0
    tool_calls: tuple[CallMade, ...] = ()
    waits: bool = False
    problem: Problem | None = None

    def then(self, later: Answer) -> Answer:
        """Combine this answer and its continuation after a person's decision."""
        return replace(
            later,
            turn_id=later.turn_id or self.turn_id,
            text=BETWEEN_MESSAGES.join(filter(None, (self.text, later.text))),
            usage=sum_of(self.usage, later.usage) if self.usage else later.usage,
            cost=plus_cost(self.cost, later.cost),
            duration=self.duration + later.duration,
            tool_calls=tuple({call.id: call for call in (*self.tool_calls, *later.tool_calls)}.values()),
        )


def unasked(session_id: str, problem: Problem) -> Answer:
    """Return the answer to a question that was not sent."""
    return Answer(session_id=session_id, problem=problem)


class AnswerCollector:
    """Collects an answer from events until the last of its turns has ended.

    The usage of child sessions is included.
    """

    _failure: Problem | None = None
    _child_failure: Problem | None = None
    _cost: float | None = None

    def __init__(
        self, session_id: str, agent_id: str, turn_ids: Sequence[str], pending: Iterable[PendingCall | ToolCallInfo]
    ) -> None:
        """Begin with the turns of the answer, and the calls that were requested earlier."""
        self.agent_id = agent_id
        self._session_id = session_id
        self._turn_ids = list(turn_ids)
        self._calls = {call.id: CallMade(id=call.id, name=call.name, input=call.arguments) for call in pending}
        self._text: list[str] = []
        self._usage: dict[str, int] = {}

    def is_own(self, event: Envelope) -> bool:
        """Return whether the event is of a turn of the answer."""
        return event.context.turn_id in self._turn_ids

    def adopt_turn(self, event: EventData) -> None:
        """If the answer has no turn yet, adopt the turn that this event starts."""
        if not self._turn_ids and isinstance(event, TurnStarted):
            self._turn_ids.append(event.turn_id)

    def add_from_child(self, event: EventData) -> Answer | None:
        """Process an event of a child session; return the answer if the child waits for a person."""
        if isinstance(event, ErrorMessage):
            self._child_failure = problem_of_turn(event.type, event.message)
        is_waiting = isinstance(event, TurnCompleted) and event.outcome == "waiting"
        if self._turn_ids or not is_waiting:
            return None
        waiting = TurnCompleted(turn_id="", outcome="waiting", stop_reason="tool_use")
        return self._answer(waiting, waits=True, problem=None)

    def add(self, event: Envelope, why_ended: Problem) -> Answer | None:
        """Process an event of the session; return the answer once it is complete.

        `why_ended` is the problem of a turn that reports only that it was interrupted.
        """
        self._add_call_event(event.data)  # a call may be answered while no turn runs
        if isinstance(event.data, ChildEnded):
            self._usage, self._cost = sum_of(self._usage, event.data.usage), plus_cost(self._cost, event.data.cost)
        if not self.is_own(event):
            return None
        match event.data:
            case AssistantMessage(message=message) if message.text:
                self._text.append(message.text)
            case ErrorMessage(type=kind, message=message):
                self._failure = (kind == AGENT_FAILED and self._child_failure) or problem_of_turn(kind, message)
            case TurnCompleted(turn_id=turn_id, outcome=outcome) if turn_id == self._turn_ids[-1]:
                is_whole = outcome in ("completed", "waiting")
                problem = None if is_whole else self._failure or why_ended
                return self._answer(event.data, waits=outcome == "waiting", problem=problem)
            case _:
                pass
        return None

    def rejected_answer(self) -> Answer:
        """Return the answer for a rejection that ended the turn, so that no turn follows."""
        over = TurnCompleted(turn_id="", outcome="interrupted", stop_reason=REJECTED)
        return self._answer(over, waits=False, problem=None)

    def _answer(self, turn: TurnCompleted, *, waits: bool, problem: Problem | None) -> Answer:
        return Answer(
            session_id=self._session_id,
            agent_id=self.agent_id,
            turn_id=turn.turn_id or None,
            text=BETWEEN_MESSAGES.join(self._text),
            stop_reason=turn.stop_reason,
            stop_sequence=turn.stop_sequence,
            stop_details=turn.stop_details,
            usage=sum_of(turn.usage, self._usage) if self._usage else turn.usage,
            cost=plus_cost(turn.cost, self._cost),
            duration=turn.duration,
            tool_calls=tuple(self._calls.values()),
            waits=waits,
            problem=problem,
        )

    def _add_call_event(self, event: EventData) -> None:
        match event:
            case AssistantMessage(message=message):
                for block in message.content:
                    if isinstance(block, ToolUseBlock):
                        self._calls[block.id] = CallMade(id=block.id, name=block.name, input=block.input)
            case ToolEdited():
                self._update_call(event.id, input=event.edited)
            case ToolStarted() if event.id not in self._calls:
                self._calls[event.id] = CallMade(id=event.id, name=event.name, input=event.input)
            case ToolResult():
                self._update_call(event.id, result=event.result, is_error=event.is_error)
            case _:
                pass

    def _update_call(self, call_id: str | None, **changes: object) -> None:
        if call_id is not None and call_id in self._calls:
            self._calls[call_id] = replace(self._calls[call_id], **changes)


_LIMITS = {
    COST_LIMIT: "The session has spent what it may spend (--max-cost), so its agent has stopped.",
    MAX_STEPS: "The model was asked as often as it may be for one prompt (--max-turns), so the agent has stopped.",
    REPEATED: "The model asked for the same calls with the same results again and again, so the agent has stopped.",
}


_OURS = frozenset({"text", "waits", "problem"})
"""Fields of an answer that are renamed or left out in JSON."""


@dataclass
class JsonOutput:
    """Prints an answer as one JSON object at the end; the base of the other formats."""

    console: Console

    def on_event(self, event: Envelope, *, is_own: bool) -> None:
        """Print what the format has for an event; `is_own` means that the event is of the turn that is printed."""

    def end(self, answer: Answer) -> None:
        """Print the object, and report a failure on standard error as well."""
        write_result(self.console, answer)
        _report_incomplete(answer, self.console)


@dataclass
class TextOutput(JsonOutput):
    """Prints the text of the answer as it streams."""

    _last = "\n"
    _between = False

    def on_event(self, event: Envelope, *, is_own: bool) -> None:
        """Print the text of a delta."""
        if is_own and isinstance(event.data, AssistantMessage):
            self._between = self._between or bool(event.data.message.text)
        if is_own and isinstance(event.data, TextDelta) and event.data.text:
            between, self._between = BETWEEN_MESSAGES if self._between else "", False
            # A file and a program get the text unchanged; a terminal would interpret control characters in it.
            text = escape_plainly(event.data.text) if self.console.out.isatty() else event.data.text
            self.console.write(f"{between}{text}")
            self._last = event.data.text[-1]

    def end(self, answer: Answer) -> None:
        """End the line, and report why the answer is incomplete."""
        if self._last != "\n":
            self.console.write("\n")
        self._last, self._between = "\n", False
        _report_incomplete(answer, self.console)


class StreamJsonOutput(JsonOutput):
    """Prints every event of the session as it happens, each as a line of JSON, and then the final object."""

    def on_event(self, event: Envelope, *, is_own: bool) -> None:
        """Print the envelope."""
        self.console.write_json(event)


def output(form: OutputFormat, console: Console) -> JsonOutput:
    """Return the printer for this format."""
    forms = {"text": TextOutput, "json": JsonOutput, "stream-json": StreamJsonOutput}
    return forms[form](console)


def why_ended(answer: Answer) -> str | None:
    """Return a sentence with the limit or the refusal that ended an answer; None if neither did."""
    if answer.stop_reason != REFUSAL:
        return _LIMITS.get(answer.stop_reason or "")
    details = answer.stop_details or StopDetails()
    category = f" ({details.category})" if details.category else ""
    explanation = f": {details.explanation}" if details.explanation else "."
    return f"The model refused to answer{category}{explanation}"


def write_result(console: Console, answer: Answer, **instead: object) -> None:
    """Print the answer as a line of JSON for programs; `instead` replaces fields."""
    problem = answer.problem
    if problem is not None:
        problem = replace(problem, message=console.without_key(problem.message))
    fields = {
        "type": "result",
        "success": problem is None,
        "result": answer.text if answer.text or problem is None else None,
        **asdict(answer),
        "session_id": answer.session_id or None,
        "agent_id": answer.agent_id or None,
        "error": problem,
        **instead,
    }
    console.write_json({name: value for name, value in fields.items() if name not in _OURS})


def _report_incomplete(answer: Answer, console: Console) -> None:
    """Report why the answer is incomplete."""
    reason = why_ended(answer)
    if answer.problem is not None:
        console.report(answer.problem, session_id=answer.session_id or None, turn_id=answer.turn_id)
    elif reason is not None:
        console.warn(reason)


_WIDTH = 200
_LINES = 3
"""Maximum number of lines of a result that are shown."""


class CallMade(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model requested, with its result, which is null until there is one."""

    id: str
    name: str
    input: JsonObject
    result: object = None
    is_error: bool = False


def call_line(name: str, arguments: object, width: int) -> str:
    """Return the call on one line of at most `width` columns."""
    inside = (
        ", ".join(f"{plain_or_quoted(str(key))}: {on_one_line(value)}" for key, value in arguments.items())
        if is_object(arguments)
        else on_one_line(arguments)
    )
    return cut(f"{plain_or_quoted(name)}({inside})", width)


def pending_line(call: PendingCall) -> str:
    """Return a line with the ID and the description of a call that waits for a person."""
    return f"{display_safe(call.id)}  {pending_description(call)}"


def pending_description(call: PendingCall) -> str:
    """Return the question that a call asks, or the call itself on one line."""
    return call_line(call.name, call.arguments, _WIDTH) if call.prompt is None else display_safe(call.prompt)


def result_lines(result: object, width: int) -> list[str]:
    """Return the first lines of a result, each of at most `width` columns, and the number of further lines."""
    content = content_of(result)
    text = content if isinstance(content, str) else "\n".join(map(_block, content))
    lines = [display_safe(line) for line in text.rstrip().splitlines()] or ["(nothing)"]
    more = len(lines) - _LINES
    shown = [cut(line, width) for line in lines[:_LINES]]
    return shown if more <= 0 else [*shown, f"… {more} more line{'' if more == 1 else 's'}"]


def cut(line: str, width: int) -> str:
    """Shorten the line to at most `width` columns, with an ellipsis for what is left out."""
    return line if cell_len(line) <= width else f"{set_cell_size(line, max(width - 1, 1)).rstrip()}…"


def _block(block: Mapping[str, object]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type')}]"
