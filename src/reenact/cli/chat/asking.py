"""Asks the person at the terminal whether calls may run, and asks the questions of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from rich.cells import cell_len
from rich.console import Console as Screen

from reenact.cli.chat.conversation import Answered, Approved, Decision, Rejected
from reenact.cli.editor.editor import Editor, discard_typed_ahead, read_line
from reenact.cli.output.answers import call_line
from reenact.cli.output.exact import MARGIN, SHOWN, escaped, on_one_line, plain_or_quoted, show
from reenact.cli.settings.configuration import user_name
from reenact.domain.errors import InvalidInputError
from reenact.domain.legible import display_safe
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.people import PendingCall, check_arguments

_ALWAYS = "earlier, with [a]lways"
"""Recorded with the approver's name if a call was approved without a question."""
_UNTIL = "whatever its arguments, as long as this chat is in this session"
_APPROVED = "(approved for this chat)"
_DECLINES = "/no"
_NONE = "none"
_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass
class Person:
    """Asks the person about each call. After Ctrl+C or Ctrl+D all of the calls remain waiting."""

    _editor: Editor
    _screen: Screen
    _way_back: Callable[[], str]
    _always: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._by = user_name()

    def forget(self) -> None:
        """Forget which tools are always approved."""
        self._always.clear()

    def __call__(self, pending: Sequence[PendingCall]) -> list[Decision] | None:
        """Return a decision for each call, or only the one that ends the turn; None leaves all of them waiting."""
        decisions: list[Decision] = []
        try:
            for number, call in enumerate(pending, start=1):
                if call.kind == "approval" and call.name in self._always:
                    decisions.append(self._approved_already(call))
                    continue
                discard_typed_ahead(self._editor)
                self._say(f"{number} of {len(pending)}:" if len(pending) > 1 else "")
                if call.path:
                    self._say(f"In child session {display_safe(call.session_id)}:", "dim")
                decision = self._approval(call) if call.kind == "approval" else self._question(call)
                if isinstance(decision, Rejected) and decision.ends_turn:
                    return [decision]
                decisions.append(decision)
        except (KeyboardInterrupt, EOFError):
            what = "It goes on waiting" if len(pending) == 1 else "They all go on waiting"
            self._say(f"\n{what}, and so does the agent. /pending asks again, and later so does:")
            self._screen.print(f"{display_safe(self._way_back())}\n")
            return None
        return decisions

    def _approved_already(self, call: PendingCall) -> Approved:
        line = call_line(call.name, call.arguments, max(1, self._screen.width - cell_len(_APPROVED) - 1))
        self._say(f"{line} {_APPROVED}", "dim")
        return Approved(call=call, by=f"{self._by or 'a person'}, {_ALWAYS}")

    def _approval(self, call: PendingCall) -> Approved | Rejected:
        arguments = call.arguments
        self._say(f"{plain_or_quoted(call.name)} may run only if you approve{_because(call.reason)}", "bold")
        self._show(arguments, SHOWN)
        self._say(f"[a]lways covers every further call of {plain_or_quoted(call.name)}, {_UNTIL}.", "dim")
        while True:
            match read_line(self._editor, "Run it? [y]es, [n]o, [a]lways, [e]dit, [q]uit the turn: ").casefold():
                case "y" | "yes" | "a" | "always" as said:
                    if said.startswith("a"):
                        self._always.add(call.name)
                    return Approved(
                        call=call, arguments=None if arguments is call.arguments else arguments, by=self._by
                    )
                case "n" | "no":
                    return Rejected(
                        call=call,
                        reason=read_line(self._editor, "Why not? The model is told; Enter gives no reason: "),
                        by=self._by,
                    )
                case "q" | "quit":
                    return Rejected(call=call, ends_turn=True, by=self._by)
                case "e" | "edit":
                    arguments = self._edited(arguments)
                    self._say("It would run with:")
                    self._show(arguments, SHOWN)
                case "v" | "view":
                    self._show(arguments, None)
                case _:
                    self._say("Type y, n, a, e or q, or v to see all of the arguments; Ctrl+C decides nothing.")

    def _edited(self, arguments: JsonObject) -> JsonObject:
        """Let the person edit the arguments and return them."""
        text = on_one_line(arguments)
        self._say("Change the JSON and press Enter; an empty line changes nothing.")
        while text := read_line(self._editor, "Arguments: ", text):
            try:
                return check_arguments(msgspec.json.decode(text))
            except (msgspec.DecodeError, InvalidInputError, RecursionError) as error:
                self._say(f"That cannot be used: {display_safe(str(error))}", "red")
        return arguments

    def _question(self, call: PendingCall) -> Answered | Rejected:
        self._say("The agent asks you:", "bold")
        for line in (call.prompt or "").splitlines():
            self._say(f"{MARGIN}{display_safe(line)}")
        for number, option in enumerate(call.options or (), start=1):
            self._say(f"{MARGIN}{number:>3}. {display_safe(option.label)}")
        ask = _how_to_answer(call)
        while True:
            said = read_line(self._editor, ask)
            word, _, rest = said.partition(" ")
            if word == _DECLINES:
                return Rejected(call=call, reason=rest.strip(), by=self._by)
            try:
                return Answered(call=call, value=_answer(call, said), by=self._by)
            except InvalidInputError as error:
                self._say(str(error))

    def _show(self, arguments: JsonObject, most: int | None) -> None:
        show(arguments, self._screen.width, most, write=self._screen.print, say=self._say)

    def _say(self, line: str, style: str | None = None) -> None:
        if line:
            self._screen.print(line, style=style, soft_wrap=False)


def _because(reason: str) -> str:
    return f" ({escaped(reason)}):" if reason else ":"


def _how_to_answer(call: PendingCall) -> str:
    if call.options is None:
        return f"Your answer, or {_DECLINES} [REASON]: "
    if call.multi:
        return f"Numbers, as in 1 3, or {_NONE}, or {_DECLINES} [REASON]: "
    return f"A number, or {_DECLINES} [REASON]: "


def _answer(call: PendingCall, said: str) -> Json:
    """Parse the typed answer; an `InvalidInputError` says what to type."""
    if call.options is None:
        if not said:
            raise InvalidInputError("Type an answer; Ctrl+C leaves the question for later.")
        return said
    typed = [] if said.casefold() == _NONE and call.multi else re.split(r"[,\s]+", said.strip(", "))
    numbers = [int(number) if _NUMBER.fullmatch(number) else 0 for number in typed]
    if not all(0 < number <= len(call.options) for number in numbers) or len(set(numbers)) < len(numbers):
        raise InvalidInputError(
            f"Type a number from 1 to {len(call.options)}{', or several, each once' if call.multi else ''}."
        )
    picked = [call.options[number - 1].value for number in numbers]
    if call.multi:
        return picked
    if len(picked) > 1:
        raise InvalidInputError("Only one of them can be selected.")
    return picked[0]
