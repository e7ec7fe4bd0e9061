"""Where a person reads an answer: the text, and dimmed beside it what the model thinks and does."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console as Screen

from reenact.cli.answer import Answer
from reenact.cli.calls import call_line, result_lines
from reenact.cli.console import Console
from reenact.cli.exact import plain_or_quoted
from reenact.cli.failures import ExitCode
from reenact.cli.listing import visible
from reenact.cli.output import limit_of
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

_MARK = "→ "
_MARGIN = "  │ "


class Page:
    """Shows what is heard of an answer, as it is heard."""

    def __init__(self, console: Console, screen: Screen) -> None:
        self._console = console
        self._screen = screen
        self._open: Callable[[], None] | None = None
        self._names: dict[str, str] = {}

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Show what there is to see."""
        match event.data:
            case TextDelta(text=text):
                self._go_on(self._end_text)
                self._console.write(visible(text))
            case ThinkingDelta(text=text):
                self._go_on(self._screen.print)
                self._screen.print(visible(text), style="dim italic", end="")
            case ThinkingEnd():
                self._go_on(None)
            case _:
                self._hear_of_calls(event.data)

    def end(self, answer: Answer) -> None:
        """End the answer, and say why it is not whole."""
        self._go_on(None)
        limit = limit_of(answer.stop_reason)
        if answer.problem is None:
            self._screen.print(*([] if limit is None else [f"{limit}\n"]), style="yellow")
        elif answer.problem.code == ExitCode.INTERRUPTED:
            self._screen.print("Interrupted.\n", style="yellow")
        else:
            self._screen.print(f"{visible(self._console.told(answer.problem))}\n", style="red")

    def _hear_of_calls(self, event: EventData) -> None:
        match event:
            case ToolCall():
                self._show_call(event.id, event.name, event.input)
            case ToolStarted() if event.id not in self._names:
                self._show_call(event.id, event.name, event.input)
            case ToolEdited():
                self._show_call(event.id, self._names.get(event.id, "edited"), event.edited)
            case ToolResult():
                self._show_result(event)
            case ContextCompressed():
                self._go_on(None)
                self._screen.print("(What was said earlier was summarised.)", style="dim")
            case Warned():
                self._go_on(None)
                self._screen.print(visible(event.message), style="yellow")
            case _:
                pass

    def _show_call(self, call_id: str | None, name: str, arguments: object) -> None:
        self._go_on(None)
        if call_id is not None:
            self._names[call_id] = name
        self._line(call_line(name, arguments, self._screen.width - len(_MARK)), _MARK, "dim")

    def _show_result(self, event: ToolResult) -> None:
        self._go_on(None)
        style = "red" if event.is_error else "dim"
        if len(self._names) > 1 and event.name:
            self._line(plain_or_quoted(event.name), "  ", style)
        lines = result_lines(event.result, self._screen.width - len(_MARGIN))
        lines[0] = f"error: {lines[0]}" if event.is_error else lines[0]
        for line in lines:
            self._line(line, _MARGIN, style)

    def _line(self, text: str, head: str, style: str) -> None:
        self._screen.print(f"{head}{self._console.without_key(text)}", style=style)

    def _go_on(self, end: Callable[[], None] | None) -> None:
        """Go on with what is ended by `end`; what was open until now, if it is another thing, is ended."""
        if self._open is not None and self._open != end:
            self._open()
        self._open = end

    def _end_text(self) -> None:
        self._console.write("\n")
