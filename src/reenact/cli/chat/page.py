"""Shows an answer to a person: the text as it streams, thoughts, calls and results, and those of child sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

from rich.console import Console as Screen
from rich.text import Text

from reenact.cli.chat.conversation import Decide, Decision
from reenact.cli.editor.keyboard import typed_ahead
from reenact.cli.output.answers import Answer, call_line, cut, result_lines, why_ended
from reenact.cli.output.console import Console
from reenact.cli.output.control_characters import escape_plainly, strip_controls
from reenact.cli.output.exact import in_rows, plain_or_quoted
from reenact.cli.output.failures import ExitCode
from reenact.cli.output.logs import TERMINAL_LOCK
from reenact.cli.render.flow import Plain, can_be_styled, can_show, width_of
from reenact.cli.render.live_line import LiveLine
from reenact.cli.render.markdown import StreamedMarkdown
from reenact.domain.legible import display_safe
from reenact.domain.loop.ledger import sum_of
from reenact.domain.plain import Json
from reenact.domain.session.people import PendingCall
from reenact.domain.stream.events import (
    ChildEnded,
    ChildStarted,
    ContextCompressed,
    Envelope,
    EventData,
    GuardChecked,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    OutputRejected,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCall,
    ToolEdited,
    ToolResult,
    ToolStarted,
    Warned,
)

_THOUGHT = "dim italic"
_WAITING, _RUNNING, _WRITING, _THINKING = "waiting", "running", "writing", "thinking"
_CALLS = "calls"
_INDENT = "  "
_CHARACTERS = 4
"""Number of characters that count as one token while a message is being written."""


@dataclass
class _Raw:
    """Writes text as it arrives, without control characters."""

    _write: Callable[[str], object]
    is_seen: bool = True

    def write(self, text: str) -> None:
        self._write(escape_plainly(text) if self.is_seen else strip_controls(text))

    def end(self) -> None:
        self._write("\n")


_Sink: TypeAlias = StreamedMarkdown | Plain | _Raw
"""A writer of streamed text."""


class Page:
    """Shows the events of an answer as they arrive. As a context manager, it shows that the answer is in progress."""

    _open: _Sink | None = None
    _last: object = None
    _last_shown: tuple[str | None, int] | None = None
    """The call whose line was shown last, and the number of log messages written at that time."""

    def __init__(self, console: Console, screen: Screen, session_id: str) -> None:
        self._console = console
        self._session_id = session_id
        self._children = _Children(self._call_line, self._show_child_line)
        self._screen = screen
        answers = console.screen(console.out)
        raw = _Raw(console.write, is_seen=console.out.isatty())
        self._text: _Sink = StreamedMarkdown(answers) if can_be_styled(answers) else raw
        self._thoughts: _Sink = Plain(screen, _THOUGHT) if can_be_styled(screen) else _Raw(self._write_thought)
        self._live = LiveLine(screen, [console.out, console.err], typed_ahead())
        self._tokens = _Tokens()
        self._cleanup = ExitStack()
        self._calls: dict[str, _Call] = {}
        """The calls that the model has requested: each is shown when it runs, or when a person is asked about it."""
        self._seen: set[str] = set()
        """The calls that were shown, here or by whoever asked the person about them."""
        self._running: set[str] = set()
        marks = ("→ ", "  │ ")
        self._mark, self._margin = marks if can_show(screen, "".join(marks)) else ("-> ", "  | ")

    def __enter__(self) -> Self:
        """Show from now on that the answer is in progress while nothing else appears."""
        self._cleanup.enter_context(TERMINAL_LOCK.showing_calls())
        self._cleanup.enter_context(self._live.showing())
        return self

    def __exit__(self, *_: object) -> None:
        """End the open text and the live line in any case."""
        with self._cleanup:
            self._end_block()

    @property
    def is_escaped(self) -> bool:
        """Whether Esc has interrupted the answer."""
        return self._live.is_escaped

    def pausing_for(self, decide: Decide) -> Decide:
        """Wrap `decide` so that the page pauses while it asks; `decide` shows each call itself."""

        def ask(pending: Sequence[PendingCall]) -> Sequence[Decision] | None:
            for call in pending:
                self._calls[call.id] = self._call(call.name, call.arguments)
                self._seen.add(call.id)
            self._end_block()
            if self._last is not None:
                self._screen.print()
            self._last = None
            self._live.stop()
            try:
                return decide(pending)
            finally:
                self._last_shown = (pending[0].id, TERMINAL_LOCK.written) if len(pending) == 1 else None
                self._live.start()

        return ask

    def on_event(self, event: Envelope, *, is_own: bool) -> None:
        """Show an event. Log messages of that time are written before it, or after the open text."""
        if is_own:
            self._tokens.on_event(event.data)
            self._live.model, self._live.tokens = self._tokens.model, self._tokens.count
        with TERMINAL_LOCK.lock:
            if event.context.session_id != self._session_id:
                self._children.on_event(event)
                return
            self._children.on_own_event(event.data)
            match event.data:
                case TextDelta(text=text) if text:
                    self._write(self._text, text)
                case ThinkingDelta(text=text) if text:
                    self._write(self._thoughts, text)
                case ThinkingEnd():
                    self._end_block()
                case _:
                    self._show_call_event(event.data)

    def end(self, answer: Answer) -> None:
        """End the answer, and say why it is incomplete."""
        self._end_block()
        reason = why_ended(answer)
        if answer.problem is None and reason is not None:
            self._say(f"{reason}\n", "yellow")
        elif answer.problem is None:
            self._screen.print()
        elif answer.problem.code == ExitCode.INTERRUPTED:
            self._screen.print("Interrupted.\n", style="yellow")
        else:
            self._say(f"{self._console.message_of(answer.problem)}\n", "red")

    def _say(self, words: str, style: str) -> None:
        for line in escape_plainly(words).split("\n"):
            self._screen.print(in_rows(line, width_of(self._screen)), style=style)

    def _show_call_event(self, event: EventData) -> None:
        match event:
            case ToolCall(id=None):
                self._show_call(None, self._call(event.name, event.input))
            case ToolCall(id=str(call_id)):
                self._calls[call_id] = self._call(event.name, event.input)
            case ToolStarted():
                if event.id not in self._seen:
                    self._show_call(event.id, self._call(event.name, event.input))
                self._running.add(event.id)
                self._update_status()
            case ToolEdited():
                self._show_edit(event)
            case ToolResult():
                self._running.discard(event.id or "")
                self._update_status()
                self._show_result(event)
            case OutputRejected(again=again):
                told = "the model is asked again" if again else "it is not asked for again"
                self._note(f"(That answer does not fit what was asked for; {told}.)", "yellow")
            case ContextCompressed():
                self._note("(What was said earlier was summarised.)", "dim")
            case Warned():
                self._note(event.message, "yellow")
            case GuardChecked(point="answer", verdict="refused"):
                self._note("(A guard refuses this answer; the conversation goes on without it.)", "yellow")
            case _:
                pass

    def _show_edit(self, event: ToolEdited) -> None:
        """Show the edited call, unless the person at this page edited it and has seen it."""
        known = self._calls.get(event.id)
        call = self._call("edited" if known is None else known.name, event.edited)
        if event.id in self._seen:
            self._calls[event.id] = call
        else:
            self._show_call(event.id, call)

    def _call(self, name: str, arguments: object) -> _Call:
        return _Call(name, self._call_line(name, arguments))

    def _call_line(self, name: str, arguments: object) -> str:
        return self._console.without_key(call_line(name, arguments, width_of(self._screen) - len(self._mark)))

    def _show_call(self, call_id: str | None, call: _Call) -> None:
        self._begin_block(_CALLS)
        shown = plain_or_quoted(call.name)
        is_whole = call.line.startswith(shown)
        head, rest = (shown, call.line.removeprefix(shown)) if is_whole else ("", call.line)
        self._screen.print(Text.assemble((self._mark, "cyan"), (head, "bold"), (rest, "dim")))
        self._last_shown = call_id, TERMINAL_LOCK.written
        if call_id is not None:
            self._calls[call_id] = call
            self._seen.add(call_id)

    def _show_result(self, event: ToolResult) -> None:
        """Show the beginning of a result; for a child session, one line that begins with its outcome."""
        width = width_of(self._screen) - len(self._margin)
        style = "red" if event.is_error else "dim"
        call = self._calls.get(event.id or "")
        if call is not None and event.id not in self._seen:  # it did not run here
            self._show_call(event.id, call)
        self._continue_below(event.id, event.name or "")
        self._last_shown = None
        lines = result_lines(event.result, width)
        ended = self._children.end_of(event.id)
        if ended is not None:  # if a person asked the agent, its answer follows
            is_shown = self._tokens.is_agent and not event.is_error
            lines = [ended if is_shown else f"{ended}: {' '.join(lines)}"]
        elif event.is_error:
            lines[0] = f"error: {lines[0]}"
        for line in lines:
            self._print_line(cut(line, width), self._margin, style)

    def _show_child_line(self, call_id: str, depth: int, line: str) -> None:
        """Show what a child session does below the call that started it, if a person watches the page."""
        if self._live.is_enabled:
            self._continue_below(call_id)
            head = f"{self._margin}{_INDENT * depth}"
            self._print_line(cut(line, width_of(self._screen) - len(head)), head, "dim")
            self._last_shown = call_id, TERMINAL_LOCK.written

    def _continue_below(self, call_id: str | None, name: str = "") -> None:
        """Make the following lines appear below the call; repeat the call's line if it is not the last one shown."""
        self._begin_block(_CALLS)
        if self._last_shown != (call_id, TERMINAL_LOCK.written) or call_id is None:
            call = self._calls.get(call_id or "")
            line = plain_or_quoted(name) if call is None else call.line
            self._print_line(cut(line, width_of(self._screen) - len(_INDENT)), _INDENT, "bold dim")

    def _note(self, text: str, style: str) -> None:
        self._end_block()
        self._last_shown = None
        self._print_line(escape_plainly(text), "", style)

    def _print_line(self, text: str, head: str, style: str) -> None:
        self._screen.print(f"{head}{self._console.without_key(text)}", style=style)

    def _write_thought(self, text: str) -> None:
        self._screen.print(text, style=_THOUGHT, end="")

    def _update_status(self) -> None:
        self._live.doing = _RUNNING if self._running else _WAITING

    def _write(self, sink: _Sink, text: str) -> None:
        """Continue a text, or begin it if something else came last."""
        if self._open is not sink:
            self._begin_block(sink)
            self._live.doing = _WRITING if sink is self._text else _THINKING
            self._live.begin_text()
            TERMINAL_LOCK.acquire()
            self._open = sink
        sink.write(text)

    def _begin_block(self, block: object) -> None:
        """Leave a blank line before a block of another kind."""
        self._end_block()
        if self._last is not None and self._last is not block:
            self._screen.print()
        self._last = block

    def _end_block(self) -> None:
        """End the open line."""
        sink, self._open = self._open, None
        if sink is not None:
            self._update_status()
            try:
                sink.end()
            finally:
                TERMINAL_LOCK.release()


class _Tokens:
    """The model that writes and the tokens it has written: as reported, or else estimated from the characters."""

    model = ""
    _previous = 0
    _reported = 0

    def __init__(self) -> None:
        self._characters = 0

    @property
    def is_agent(self) -> bool:
        """Whether an agent answers instead of a model, because a person asked it."""
        return self.model.startswith("@")

    @property
    def count(self) -> int:
        """The tokens of all messages of the answer so far."""
        return self._previous + self._reported + self._characters // _CHARACTERS

    def on_event(self, event: EventData) -> None:
        """Update the counts from an event of the answer."""
        match event:
            case MessageStart():
                self._previous, self._reported, self._characters = self.count, 0, 0
                self.model = event.model or self.model
            case TextDelta(text=text) | ThinkingDelta(text=text) | InputJsonDelta(partial_json=text):
                self._characters += len(text)
            case MessageDelta(usage={"output_tokens": int(told)}):
                self._reported, self._characters = max(self._reported, told), 0
            case _:
                pass


class _Call(NamedTuple):
    """A call as it was shown, to be repeated above its result."""

    name: str
    line: str


class _Child(NamedTuple):
    """A child session: the session's own call that started it, its depth below that call, and what it has used."""

    call_id: str
    depth: int
    steps: int = 0
    tokens: int = 0


class _Children:
    """The child sessions that have started while an answer was shown.

    `show` shows a line below the session's own call of this id, indented by its depth.
    """

    def __init__(self, call_line: Callable[[str, Json], str], show: Callable[[str, int, str], None]) -> None:
        self._call_line = call_line
        self._show = show
        self._known: dict[str, _Child] = {}
        self._ends: dict[str, str] = {}

    def on_event(self, event: Envelope) -> None:
        """Show an event of a descendant session."""
        child = self._known.get(event.context.session_id or "")
        if child is None:
            return
        match event.data:
            case ChildStarted(child_id=child_id):
                self._known[child_id] = _Child(child.call_id, child.depth + 1)
            case ToolStarted(name=name, input=arguments):
                self._show(child.call_id, child.depth, self._call_line(name, arguments))
            case _:
                pass

    def on_own_event(self, event: EventData) -> None:
        """Show an event of the session itself."""
        match event:
            case ChildStarted(call_id=call_id, child_id=child_id, detached=False):
                self._known[child_id] = _Child(call_id, 0)
                self._show(call_id, 0, f"session {display_safe(child_id)}")
            case ChildEnded(call_id=call_id, child_id=child_id) if child_id in self._known:
                known = self._known[child_id]
                steps, tokens = known.steps + event.steps, known.tokens + sum(sum_of(event.usage, {}).values())
                self._known[child_id] = known._replace(steps=steps, tokens=tokens)
                counted = f"{steps} step{'' if steps == 1 else 's'}, {tokens:,} token{'' if tokens == 1 else 's'}"
                self._ends[call_id] = f"{event.outcome}, {counted}"
            case _:
                pass

    def end_of(self, call_id: str | None) -> str | None:
        """Return how the child session ended that this call started; None if the call started none."""
        return self._ends.get(call_id or "")
