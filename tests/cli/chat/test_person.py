"""What the person at the terminal is asked, and what is made of the answers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn

import msgspec
import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console as Screen

from reenact.cli.chat.asking import Person
from reenact.cli.chat.conversation import Answered, Approved, Decision, Rejected
from reenact.domain.loop.events import Option
from reenact.domain.session.people import PendingCall

ENTER = "\r"
CLEAR = "\x15"
CTRL_C = "\x03"
CTRL_D = "\x04"
WAY_BACK = "reenact --resume s --db my.db"
MAIL = PendingCall(
    id="c1",
    session_id="s",
    agent_id="a",
    turn_id="t",
    kind="approval",
    name="send_mail",
    arguments={"to": "ann"},
    digest="d",
    reason="",
    prompt=None,
    options=None,
    multi=False,
    since=datetime(2026, 11, 21, tzinfo=UTC),
)


def mail(**arguments: object) -> PendingCall:
    return msgspec.structs.replace(MAIL, arguments=arguments)


def question(*labels: str, multi: bool = False, prompt: str = "Which?") -> PendingCall:
    options = tuple(Option(label, label) for label in labels) or None
    kind = "prompt" if options is None else "select"
    return msgspec.structs.replace(MAIL, name="ask_user", kind=kind, prompt=prompt, options=options, multi=multi)


@dataclass
class Terminal:
    """Where the person sits: what they type is typed before it is asked for."""

    keyboard: PipeInput
    seen: io.StringIO = field(default_factory=io.StringIO)

    def ask(self, *calls: PendingCall, typed: str) -> list[Decision] | None:
        """Ask about the calls."""
        editor: PromptSession[str] = PromptSession(input=self.keyboard, output=DummyOutput())
        screen = Screen(file=self.seen, highlight=False, markup=False, soft_wrap=True, width=60)
        self.keyboard.send_text(typed)
        return Person(editor, screen, lambda: WAY_BACK)(calls)

    def answer(self, call: PendingCall, typed: str) -> object:
        """Ask a question and return the answer."""
        (decision,) = self.ask(call, typed=typed) or []
        assert isinstance(decision, Answered)
        return decision.value

    @property
    def shown(self) -> str:
        """All that was shown besides what is typed."""
        return self.seen.getvalue()

    @property
    def told(self) -> str:
        """The same, on one line."""
        return " ".join(self.shown.split())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    def remember(_editor: object) -> None: ...

    monkeypatch.setattr("reenact.cli.chat.asking.discard_typed_ahead", remember)
    with create_pipe_input() as keyboard:
        yield Terminal(keyboard)


@pytest.mark.parametrize("yes", ["y", "Y", "yes", " yes "])
def test_a_yes_approves_the_call_as_it_is(terminal: Terminal, yes: str) -> None:
    (decision,) = terminal.ask(MAIL, typed=yes + ENTER) or []

    assert isinstance(decision, Approved)
    assert (decision.call, decision.arguments) == (MAIL, None)


@pytest.mark.parametrize("keys", [ENTER, "maybe" + ENTER, "yy" + ENTER, "n y" + ENTER, "1" + ENTER])
def test_anything_else_decides_nothing(terminal: Terminal, keys: str) -> None:
    decisions = terminal.ask(MAIL, typed=keys + CTRL_C)

    assert decisions is None
    assert "Type y, n, a, e or q" in terminal.shown


@pytest.mark.parametrize("stop", [CTRL_C, CTRL_D])
@pytest.mark.parametrize(
    "before", ["", "y" + ENTER, "n" + ENTER, "e" + ENTER, "y" + ENTER + "n" + ENTER + "why" + ENTER]
)
def test_who_stops_anywhere_leaves_everything_waiting(terminal: Terminal, before: str, stop: str) -> None:
    cleared = CLEAR if before.startswith("e") and stop == CTRL_D else ""

    decisions = terminal.ask(MAIL, MAIL, MAIL, typed=before + cleared + stop)

    assert decisions is None
    assert "They all go on waiting" in terminal.shown
    assert WAY_BACK in terminal.shown


def test_who_quits_decides_nothing_else(terminal: Terminal) -> None:
    (decision,) = terminal.ask(MAIL, MAIL, typed=f"y{ENTER}q{ENTER}") or []

    assert isinstance(decision, Rejected)
    assert decision.ends_turn


def test_calls_are_decided_one_by_one(terminal: Terminal) -> None:
    first, second = mail(to="ann"), mail(to="bob")

    decisions = terminal.ask(first, second, typed=f"n{ENTER}she left{ENTER}y{ENTER}")

    assert decisions is not None
    rejected, approved = decisions
    assert isinstance(rejected, Rejected)
    assert isinstance(approved, Approved)
    assert (rejected.call, rejected.reason, rejected.ends_turn) == (first, "she left", False)
    assert approved.call == second
    assert "1 of 2:" in terminal.shown


def test_arguments_can_be_changed_as_often_as_is_needed(terminal: Terminal) -> None:
    typed = f"e{ENTER}{CLEAR}[1]{ENTER}{CLEAR}{{{ENTER}{CLEAR}{{}}{ENTER}e{ENTER}{CLEAR}" + '{"to": "bob"}' + ENTER

    (decision,) = terminal.ask(MAIL, typed=typed + "y" + ENTER) or []

    assert isinstance(decision, Approved)
    assert decision.arguments == {"to": "bob"}
    assert "That cannot be used: the arguments of a call must be a JSON object, not list" in terminal.told
    assert "no arguments" in terminal.shown


def test_what_is_offered_for_editing_is_the_call_itself(terminal: Terminal) -> None:
    call = mail(to='a"\\\n\u202e\U000e0041é', n=[1, {"x": None}])

    (decision,) = terminal.ask(call, typed=f"e{ENTER}{ENTER}y{ENTER}") or []

    assert isinstance(decision, Approved)
    assert decision.arguments == call.arguments


def test_an_empty_line_changes_nothing(terminal: Terminal) -> None:
    (decision,) = terminal.ask(MAIL, typed=f"e{ENTER}{CLEAR}{ENTER}y{ENTER}") or []

    assert isinstance(decision, Approved)
    assert decision.arguments is None


def test_arguments_with_lines_without_end_are_shown_whole_when_they_are_viewed(terminal: Terminal) -> None:
    call = mail(body="".join(f"line {number}\n" for number in range(100)))
    terminal.ask(call, typed=CTRL_C)
    before = terminal.shown

    terminal.ask(call, typed=f"v{ENTER}" + CTRL_C)

    assert "… 82 more lines, press v to view" in before
    assert "    | line 18\n" in before
    assert "line 19" not in before
    assert "    | line 99\n    |\n" in terminal.shown
    assert "[a]lways covers every further call of send_mail, whatever its arguments," in terminal.told


def test_text_from_right_to_left_is_shown_in_ascii_as_well(terminal: Terminal) -> None:
    terminal.ask(mail(to=["\u05d0\u05d1/../etc"]), typed=CTRL_C)

    assert "may be shown in another order" in terminal.told
    assert r'- "\u05d0\u05d1/../etc"' in terminal.shown


def test_the_reason_for_asking_and_the_name_hide_nothing(terminal: Terminal) -> None:
    call = msgspec.structs.replace(MAIL, name="a\x1b[2K\nb", reason="odd\u202e")

    terminal.ask(call, typed=CTRL_C)

    assert r'"a\u001b[2K\nb" may run only if you approve (odd\u202e):' in terminal.shown


def test_a_question_and_its_options_hide_nothing(terminal: Terminal) -> None:
    terminal.ask(question("red\x1b[2K", prompt="Which\u202e?\r\n\nRun it?"), typed=CTRL_C)

    assert "  Which\\u202e?\n  \n  Run it?\n" in terminal.shown
    assert r"1. red\u001b[2K" in terminal.shown


def test_a_question_is_answered_in_words(terminal: Terminal) -> None:
    value = terminal.answer(question(), f"{ENTER}  {ENTER}Ada {ENTER}")

    assert value == "Ada"
    assert terminal.shown.count("Type an answer") == 2


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        *((typed, "from 1 to 2") for typed in ("3", "0", "-1", "red", "", "²", "9" * 5000, "none")),
        ("1 2", "Only one"),
    ],
)
def test_what_is_no_option_is_asked_for_again(terminal: Terminal, typed: str, why: str) -> None:
    value = terminal.answer(question("red", "green"), f"{typed}{ENTER}2{ENTER}")

    assert value == "green"
    assert why in terminal.shown


@pytest.mark.parametrize(
    ("typed", "picked"),
    [("3, 1", ["blue", "red"]), ("2", ["green"]), ("1,2,3", ["red", "green", "blue"]), ("none", [])],
)
def test_any_number_of_options_is_selected_where_that_is_asked(
    terminal: Terminal, typed: str, picked: list[str]
) -> None:
    value = terminal.answer(question("red", "green", "blue", multi=True), f"1 01{ENTER}{typed}{ENTER}")

    assert value == picked
    assert "each once" in terminal.shown


@pytest.mark.parametrize("call", [question(), question("red"), question("red", multi=True)])
@pytest.mark.parametrize(("typed", "reason"), [("/no", ""), ("/no that is private ", "that is private")])
def test_a_question_may_be_declined(terminal: Terminal, call: PendingCall, typed: str, reason: str) -> None:
    (decision,) = terminal.ask(call, typed=typed + ENTER) or []

    assert isinstance(decision, Rejected)
    assert (decision.reason, decision.ends_turn) == (reason, False)


def test_who_has_no_name_may_decide_all_the_same(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_uid: int) -> NoReturn:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)

    (decision,) = terminal.ask(MAIL, typed="y" + ENTER) or []

    assert decision.by is None


def test_always_approves_every_further_call_of_this_tool_and_of_no_other_and_says_who_did(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.cli.chat.asking.user_name", lambda: "ann")
    other = msgspec.structs.replace(MAIL, name="send_fax")

    decisions = terminal.ask(MAIL, mail(to="bob"), other, question(), typed=f"a{ENTER}y{ENTER}blue{ENTER}")

    assert decisions == [
        Approved(call=MAIL, by="ann"),
        Approved(call=mail(to="bob"), by="ann, earlier, with [a]lways"),
        Approved(call=other, by="ann"),
        Answered(call=question(), value="blue", by="ann"),
    ]
    assert 'send_mail(to: "bob") (approved for this chat)' in terminal.told
