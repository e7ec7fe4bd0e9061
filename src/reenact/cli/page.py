"""Where a person reads an answer: the text as it streams, and beside it what the model thinks and does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from rich.console import Console as Screen
from rich.text import Text

from reenact.cli.answer import Answer
from reenact.cli.calls import call_line, cut, result_lines
from reenact.cli.console import Console
from reenact.cli.decisions import Decide, Decision
from reenact.cli.exact import plain_or_quoted
from reenact.cli.failures import ExitCode
from reenact.cli.floor import FLOOR
from reenact.cli.interrupts import around_stops
from reenact.cli.listing import visible
from reenact.cli.output import limit_of
from reenact.cli.prose.masks import plainly
from reenact.cli.prose.plain import Plain
from reenact.cli.prose.prose import Prose
from reenact.cli.prose.screens import can_be_styled, can_show, width_of
from reenact.cli.rows import in_rows
from reenact.cli.spinner import Spinner
from reenact.domain.events import (
    ContextCompressed,
    Envelope,
    EventData,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCall,
    ToolEdited,
    ToolResult,
    ToolStarted,
    Warned,
)
from reenact.domain.people import PendingCall

_THOUGHT: Final = "dim italic"
_WAITING, _RUNNING = "waiting", "running"
_CALLS: Final = "calls"
_INDENT: Final = "  "


class _Sink(Protocol):
    """Where text goes that comes in pieces."""

    def write(self, text: str) -> None: ...

    def end(self) -> None: ...


class _Raw:
    """Text as it comes, without what a terminal would obey."""

    def __init__(self, write: Callable[[str], object], *, is_seen: bool = True) -> None:
        self._write = write
        self._is_seen = is_seen

    def write(self, text: str) -> None:
        self._write(plainly(visible(text)) if self._is_seen else visible(text))

    def end(self) -> None:
        self._write("\n")


class Page:
    """Shows what is heard of an answer, as it is heard. As a context manager: it is under way from here on."""

    def __init__(self, console: Console, screen: Screen) -> None:
        self._console = console
        self._screen = screen
        is_styled = can_be_styled(screen) and not console.in_ci
        answers = console.screen(console.out)
        raw = _Raw(console.write, is_seen=console.out.isatty())
        self._text: _Sink = Prose(answers) if can_be_styled(answers) and not console.in_ci else raw
        self._thoughts: _Sink = Plain(screen, _THOUGHT) if is_styled else _Raw(self._whisper)
        self._spinner = Spinner(screen, [console.out, console.err]) if is_styled else None
        self._stops = ExitStack()
        self._is_under_way = self._has_floor = False
        self._open: _Sink | None = None
        self._last: object = None
        self._calls: dict[str, _Call] = {}
        self._asked: dict[str, tuple[str, object]] = {}
        """What was asked for by these names, and has not begun."""
        self._running: set[str] = set()
        self._under: tuple[str | None, int] | None = None
        """The call of which the line is the last that is shown, and how much was logged before."""
        marks = ("→ ", "  │ ")
        self._mark, self._margin = marks if can_show(screen, "".join(marks)) else ("-> ", "  | ")

    def __enter__(self) -> Self:
        """Show from here on that something is under way, when nothing else appears."""
        self._is_under_way = True
        self._stops.enter_context(FLOOR.showing_calls())
        if self._spinner is not None:
            self._stops.enter_context(around_stops(self._spinner.pause, self._spinner.go_on))
            self._spinner.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what is open, whatever happened."""
        with self._stops:
            try:
                self._end_block()
            finally:
                if self._spinner is not None:
                    self._spinner.stop()

    def asking(self, decide: Decide) -> Decide:
        """Return what decides in the same way, while nothing else is going on here."""

        def ask(pending: Sequence[PendingCall]) -> Sequence[Decision] | None:
            self._end_block()
            if self._last is not None:
                self._screen.print()
            self._last = None
            if self._spinner is None:
                return decide(pending)
            self._spinner.stop()
            try:
                return decide(pending)
            finally:
                self._spinner.start()

        return ask

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Show what there is to see; what is logged meanwhile stands before it, or behind the text that is open."""
        with FLOOR.lock:
            match event.data:
                case TextDelta(text=text) if text:
                    self._write(self._text, text)
                case ThinkingDelta(text=text) if text:
                    self._write(self._thoughts, text)
                case ThinkingEnd():
                    self._end_block()
                case _:
                    self._hear_of_calls(event.data)

    def end(self, answer: Answer) -> None:
        """End the answer, and say why it is not whole."""
        self._end_block()
        limit = limit_of(answer.stop_reason)
        if answer.problem is None:
            self._screen.print(*([] if limit is None else [f"{limit}\n"]), style="yellow")
        elif answer.problem.code == ExitCode.INTERRUPTED:
            self._screen.print("Interrupted.\n", style="yellow")
        else:
            for line in plainly(visible(self._console.told(answer.problem))).split("\n"):
                self._screen.print(in_rows(line, width_of(self._screen)), style="red")
            self._screen.print()

    def _hear_of_calls(self, event: EventData) -> None:
        match event:
            case ToolCall():
                self._show_call(event.id, event.name, event.input)
                if event.id is not None:
                    self._asked[event.id] = event.name, event.input
            case ToolStarted():
                if event.id not in self._calls and not self._is_begun_as_another(event):
                    self._show_call(event.id, event.name, event.input)
                self._asked.pop(event.id, None)
                self._running.add(event.id)
                self._tell_what_is_done()
            case ToolEdited():
                known = self._calls.get(event.id)
                self._show_call(event.id, "edited" if known is None else known.name, event.edited)
            case ToolResult():
                self._running.discard(event.id or "")
                self._tell_what_is_done()
                self._show_result(event)
            case ContextCompressed():
                self._note("(What was said earlier was summarised.)", "dim")
            case Warned():
                self._note(event.message, "yellow")
            case _:
                pass

    def _is_begun_as_another(self, event: ToolStarted) -> bool:
        """Return whether it is shown by another name: calls that are named as earlier ones get names of their own."""
        shown = (id_ for id_, asked in self._asked.items() if asked == (event.name, event.input))
        named = next(shown, None)
        if named is None:
            return False
        del self._asked[named]
        self._calls[event.id] = self._calls[named]
        if self._under is not None and self._under[0] == named:
            self._under = event.id, self._under[1]
        return True

    def _show_call(self, call_id: str | None, name: str, arguments: object) -> None:
        self._begin_block(_CALLS)
        line = self._console.without_key(call_line(name, arguments, width_of(self._screen) - len(self._mark)))
        shown = plain_or_quoted(name)
        is_whole = line.startswith(shown)
        head, rest = (shown, line.removeprefix(shown)) if is_whole else ("", line)
        self._screen.print(Text.assemble((self._mark, "cyan"), (head, "bold"), (rest, "dim")))
        self._under = call_id, FLOOR.told
        if call_id is not None:
            self._calls[call_id] = _Call(name, line)

    def _show_result(self, event: ToolResult) -> None:
        self._begin_block(_CALLS)
        width = width_of(self._screen)
        style = "red" if event.is_error else "dim"
        call = self._calls.get(event.id or "")
        if self._under != (event.id, FLOOR.told) or event.id is None:
            line = plain_or_quoted(event.name or "") if call is None else call.line
            self._line(cut(line, width - len(_INDENT)), _INDENT, "bold dim")
        self._under = None
        error = "error: " if event.is_error else ""
        first, *others = result_lines(event.result, width - len(self._margin))
        for line in (cut(f"{error}{first}", width - len(self._margin)), *others):
            self._line(line, self._margin, style)

    def _note(self, text: str, style: str) -> None:
        self._end_block()
        self._under = None
        self._line(plainly(visible(text)), "", style)

    def _line(self, text: str, head: str, style: str) -> None:
        self._screen.print(f"{head}{self._console.without_key(text)}", style=style)

    def _whisper(self, text: str) -> None:
        self._screen.print(text, style=_THOUGHT, end="")

    def _tell_what_is_done(self) -> None:
        if self._spinner is not None:
            self._spinner.doing = _RUNNING if self._running else _WAITING

    def _write(self, sink: _Sink, text: str) -> None:
        """Go on with a text, or begin it if something else came last."""
        if self._open is not sink:
            self._begin_block(sink)
            if self._is_under_way:
                FLOOR.take()
                self._has_floor = True
            self._open = sink
        sink.write(text)

    def _begin_block(self, block: object) -> None:
        """Set what comes apart from what is of another kind."""
        self._end_block()
        if self._last is not None and self._last is not block:
            self._screen.print()
        self._last = block

    def _end_block(self) -> None:
        """End the line that is open."""
        sink, self._open = self._open, None
        if sink is not None:
            try:
                sink.end()
            finally:
                if self._has_floor:
                    self._has_floor = False
                    FLOOR.give()


class _Call(NamedTuple):
    """A call of which the result may be shown somewhere else."""

    name: str
    line: str
