"""The three forms of an answer: text as it comes, one JSON object, or every event as a line of JSON."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
from msgspec import structs

from reenact.cli.answer import BETWEEN_MESSAGES, Answer
from reenact.cli.calls import CallMade
from reenact.cli.console import Console
from reenact.cli.failures import Problem
from reenact.cli.lines import as_line
from reenact.cli.options import OutputFormat
from reenact.domain.events import AssistantMessage, Envelope, TextDelta
from reenact.domain.messages import StopDetails, Usage
from reenact.domain.session_state import REFUSAL
from reenact.domain.turns import COST_LIMIT, MAX_STEPS, REPEATED

_LIMITS: Final = {
    COST_LIMIT: "The session has spent what it may spend (--max-cost), so its agent has stopped.",
    MAX_STEPS: "The model was asked as often as it may be for one prompt (--max-turns), so the agent has stopped.",
    REPEATED: "The model asked for the same calls with the same results again and again, so the agent has stopped.",
}


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """What a program reads at the end. `cost` is null if no prices are known."""

    success: bool
    result: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: Usage | None = None
    cost: float | None = None
    duration: float | None = None
    tool_calls: tuple[CallMade, ...] = ()
    error: Problem | None = None


class Output(Protocol):
    """Where an answer goes."""

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print what the form has for an event; `is_own` for one of the turn that is printed."""
        ...

    def end(self, answer: Answer) -> None:
        """Print what comes after the last event."""
        ...


class TextOutput:
    """The text of the answer, as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = "\n"
        self._between = False

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print the text of a delta."""
        if is_own and isinstance(event.data, AssistantMessage):
            self._between = self._between or bool(event.data.message.text)
        if is_own and isinstance(event.data, TextDelta) and event.data.text:
            between, self._between = BETWEEN_MESSAGES if self._between else "", False
            self._console.write(f"{between}{event.data.text}")
            self._last = event.data.text[-1]

    def end(self, answer: Answer) -> None:
        """End the line, and say why the answer is not whole."""
        if self._last != "\n":
            self._console.write("\n")
        self._last, self._between = "\n", False
        _tell(answer, self._console)


class JsonOutput:
    """One object, at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print nothing."""

    def end(self, answer: Answer) -> None:
        """Print the object; a failure is told to people as well."""
        write_result(self._console, result_of(answer))
        _tell(answer, self._console)


class StreamJsonOutput(JsonOutput):
    """Every event of the session when it happens, each an object on a line of its own, and then the same object."""

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Print the envelope."""
        self._console.write(as_line(event))


def output(form: OutputFormat, console: Console) -> Output:
    """Return where an answer goes that is wanted in this form."""
    match form:
        case OutputFormat.TEXT:
            return TextOutput(console)
        case OutputFormat.JSON:
            return JsonOutput(console)
        case OutputFormat.STREAM_JSON:
            return StreamJsonOutput(console)


def result_of(answer: Answer) -> Result:
    """Return the answer as the object that a program reads."""
    same = {name: value for name, value in structs.asdict(answer).items() if name in Result.__struct_fields__}
    same |= {"session_id": answer.session_id or None, "agent_id": answer.agent_id or None}
    text = None if answer.problem is not None and not answer.text else answer.text
    return Result(**same, success=answer.problem is None, result=text, error=answer.problem)


def why_ended(answer: Answer) -> str | None:
    """Return the limit, or the refusal, that ended an answer, in words, or None."""
    if answer.stop_reason != REFUSAL:
        return _LIMITS.get(answer.stop_reason or "")
    details = answer.stop_details or StopDetails()
    category = f" ({details.category})" if details.category else ""
    explanation = f": {details.explanation}" if details.explanation else "."
    return f"The model refused to answer{category}{explanation}"


def write_result(console: Console, result: Result) -> None:
    """Print the object on a line of its own."""
    if result.error is not None:
        error = structs.replace(result.error, message=console.without_key(result.error.message))
        result = structs.replace(result, error=error)
    console.write(as_line(result))


def _tell(answer: Answer, console: Console) -> None:
    """Tell people why the answer is not whole."""
    reason = why_ended(answer)
    if answer.problem is not None:
        console.report(answer.problem, session_id=answer.session_id or None, turn_id=answer.turn_id)
    elif reason is not None:
        console.warn(reason)
