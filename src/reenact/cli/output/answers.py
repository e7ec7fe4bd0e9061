"""Answers, gathered from the events of their turns, in three forms: text, one JSON object, or a stream of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs
from rich.cells import cell_len, set_cell_size

from reenact.cli.output.console import Console
from reenact.cli.output.control_characters import escape_plainly
from reenact.cli.output.exact import on_one_line, plain_or_quoted
from reenact.cli.output.failures import AGENT_FAILED, Problem, problem_of_turn
from reenact.cli.settings.values import OutputFormat
from reenact.domain.legible import harmless
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
"""What stands between two messages of one answer: before and after the calls of tools."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question; it `waits` while a person has to decide about a call, and then has no problem."""

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
        """Return this answer and what came of it after a person's decision, as one."""
        return msgspec.structs.replace(
            later,
            turn_id=later.turn_id or self.turn_id,
            text=BETWEEN_MESSAGES.join(filter(None, (self.text, later.text))),
            usage=sum_of(self.usage, later.usage) if self.usage else later.usage,
            cost=plus_cost(self.cost, later.cost),
            duration=self.duration + later.duration,
            tool_calls=tuple({call.id: call for call in (*self.tool_calls, *later.tool_calls)}.values()),
        )


def unasked(session_id: str, problem: Problem) -> Answer:
    """Return the answer to what was not asked."""
    return Answer(session_id=session_id, problem=problem)


class Hearing:
    """Gathers an answer from what is heard of it, until the last of its turns is over.

    What its child sessions have used counts for it.
    """

    _failure: Problem | None = None
    _below: Problem | None = None
    _cost: float | None = None

    def __init__(
        self, session_id: str, agent_id: str, turn_ids: Sequence[str], pending: Iterable[PendingCall | ToolCallInfo]
    ) -> None:
        """Begin with the turns that belong to the answer, and the calls that were asked for earlier."""
        self.agent_id = agent_id
        self._session_id = session_id
        self._turn_ids = list(turn_ids)
        self._calls = {call.id: CallMade(id=call.id, name=call.name, input=call.arguments) for call in pending}
        self._text: list[str] = []
        self._usage: dict[str, int] = {}

    def is_own(self, event: Envelope) -> bool:
        """Return whether the event is of a turn that belongs to the answer."""
        return event.context.turn_id in self._turn_ids

    def follow(self, event: EventData) -> None:
        """Take a turn that begins for one of the answer, if it has none."""
        if not self._turn_ids and isinstance(event, TurnStarted):
            self._turn_ids.append(event.turn_id)

    def left_waiting(self) -> Answer | None:
        """Return the answer whose turn has not gone on: a child session waits for a person again. None if it has."""
        if self._turn_ids:
            return None
        return self._answer(
            TurnCompleted(turn_id="", outcome="waiting", stop_reason="tool_use"), waits=True, problem=None
        )

    def hear_below(self, event: EventData) -> None:
        """Take in an event of a child session."""
        if isinstance(event, ErrorMessage):
            self._below = problem_of_turn(event.type, event.message)

    def hear(self, event: Envelope, why_ended: Problem) -> Answer | None:
        """Take in an event of the session; return the answer once it is over.

        `why_ended` is what ended the turn if the turn says no more than that it was interrupted.
        """
        self._hear_of_call(event.data)  # which may be answered while no turn is under way
        if isinstance(event.data, ChildEnded):
            self._usage, self._cost = sum_of(self._usage, event.data.usage), plus_cost(self._cost, event.data.cost)
        if not self.is_own(event):
            return None
        match event.data:
            case AssistantMessage(message=message) if message.text:
                self._text.append(message.text)
            case ErrorMessage(type=kind, message=message):
                self._failure = (kind == AGENT_FAILED and self._below) or problem_of_turn(kind, message)
            case TurnCompleted(turn_id=turn_id, outcome=outcome) if turn_id == self._turn_ids[-1]:
                is_whole = outcome in ("completed", "waiting")
                problem = None if is_whole else self._failure or why_ended
                return self._answer(event.data, waits=outcome == "waiting", problem=problem)
            case _:
                pass
        return None

    def stopped(self) -> Answer:
        """Return the answer that is over without a turn: a person wanted no more of it."""
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

    def _hear_of_call(self, event: EventData) -> None:
        match event:
            case AssistantMessage(message=message):
                for block in message.content:
                    if isinstance(block, ToolUseBlock):
                        self._calls[block.id] = CallMade(id=block.id, name=block.name, input=block.input)
            case ToolEdited():
                self._change(event.id, input=event.edited)
            case ToolStarted() if event.id not in self._calls:
                self._calls[event.id] = CallMade(id=event.id, name=event.name, input=event.input)
            case ToolResult():
                self._change(event.id, result=event.result, is_error=event.is_error)
            case _:
                pass

    def _change(self, call_id: str | None, **changes: object) -> None:
        if call_id is not None and call_id in self._calls:
            self._calls[call_id] = msgspec.structs.replace(self._calls[call_id], **changes)


_LIMITS = {
    COST_LIMIT: "The session has spent what it may spend (--max-cost), so its agent has stopped.",
    MAX_STEPS: "The model was asked as often as it may be for one prompt (--max-turns), so the agent has stopped.",
    REPEATED: "The model asked for the same calls with the same results again and again, so the agent has stopped.",
}


_OURS = frozenset({"text", "waits", "problem"})
"""Fields of an answer that programs read under other names, or not."""


@dataclass
class JsonOutput:
    """Prints an answer as one object, at the end; the base of the other forms."""

    console: Console

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print what the form has for an event; `is_own` for one of the turn that is printed."""

    def end(self, answer: Answer) -> None:
        """Print the object; a failure is told to people as well."""
        write_result(self.console, answer)
        _tell(answer, self.console)


@dataclass
class TextOutput(JsonOutput):
    """The text of the answer, as it comes."""

    _last = "\n"
    _between = False

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print the text of a delta."""
        if is_own and isinstance(event.data, AssistantMessage):
            self._between = self._between or bool(event.data.message.text)
        if is_own and isinstance(event.data, TextDelta) and event.data.text:
            between, self._between = BETWEEN_MESSAGES if self._between else "", False
            # A file and a program get the text as it is; a terminal would obey what is in it.
            text = escape_plainly(event.data.text) if self.console.out.isatty() else event.data.text
            self.console.write(f"{between}{text}")
            self._last = event.data.text[-1]

    def end(self, answer: Answer) -> None:
        """End the line, and say why the answer is not whole."""
        if self._last != "\n":
            self.console.write("\n")
        self._last, self._between = "\n", False
        _tell(answer, self.console)


class StreamJsonOutput(JsonOutput):
    """Every event of the session when it happens, each an object on a line of its own, and then the same object."""

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print the envelope."""
        self.console.write_json(event)


def output(form: OutputFormat, console: Console) -> JsonOutput:
    """Return where an answer goes that is wanted in this form."""
    forms = {OutputFormat.TEXT: TextOutput, OutputFormat.JSON: JsonOutput, OutputFormat.STREAM_JSON: StreamJsonOutput}
    return forms[form](console)


def why_ended(answer: Answer) -> str | None:
    """Return the limit, or the refusal, that ended an answer, in words, or None."""
    if answer.stop_reason != REFUSAL:
        return _LIMITS.get(answer.stop_reason or "")
    details = answer.stop_details or StopDetails()
    category = f" ({details.category})" if details.category else ""
    explanation = f": {details.explanation}" if details.explanation else "."
    return f"The model refused to answer{category}{explanation}"


def write_result(console: Console, answer: Answer, **instead: object) -> None:
    """Print the answer as the object that a program reads, on a line of its own; some fields may say something else."""
    problem = answer.problem
    if problem is not None:
        problem = structs.replace(problem, message=console.without_key(problem.message))
    fields = {
        "type": "result",
        "success": problem is None,
        "result": answer.text if answer.text or problem is None else None,
        **structs.asdict(answer),
        "session_id": answer.session_id or None,
        "agent_id": answer.agent_id or None,
        "error": problem,
        **instead,
    }
    console.write_json({name: value for name, value in fields.items() if name not in _OURS})


def _tell(answer: Answer, console: Console) -> None:
    """Tell people why the answer is not whole."""
    reason = why_ended(answer)
    if answer.problem is not None:
        console.report(answer.problem, session_id=answer.session_id or None, turn_id=answer.turn_id)
    elif reason is not None:
        console.warn(reason)


_WIDTH = 200
_LINES = 3
"""So many lines of a result are shown."""


class CallMade(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asked for, and its answer; `result` is null while there is none."""

    id: str
    name: str
    input: JsonObject
    result: object = None
    is_error: bool = False


def call_line(name: str, arguments: object, width: int) -> str:
    """Return the call on one line of at most so many columns."""
    inside = (
        ", ".join(f"{plain_or_quoted(str(key))}: {on_one_line(value)}" for key, value in arguments.items())
        if is_object(arguments)
        else on_one_line(arguments)
    )
    return cut(f"{plain_or_quoted(name)}({inside})", width)


def told(call: PendingCall) -> str:
    """Return a line that says what waits for a person."""
    what = call_line(call.name, call.arguments, _WIDTH) if call.prompt is None else harmless(call.prompt)
    return f"{harmless(call.id)}  {what}"


def result_lines(result: object, width: int) -> list[str]:
    """Return the first lines of a result, each of at most so many columns, and how many there are more."""
    content = content_of(result)
    text = content if isinstance(content, str) else "\n".join(map(_block, content))
    lines = [harmless(line) for line in text.rstrip().splitlines()] or ["(nothing)"]
    more = len(lines) - _LINES
    shown = [cut(line, width) for line in lines[:_LINES]]
    return shown if more <= 0 else [*shown, f"… {more} more line{'' if more == 1 else 's'}"]


def cut(line: str, width: int) -> str:
    """Return the line with at most so many columns; an ellipsis stands for what is left out."""
    return line if cell_len(line) <= width else f"{set_cell_size(line, max(width - 1, 1)).rstrip()}…"


def _block(block: Mapping[str, object]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type')}]"
