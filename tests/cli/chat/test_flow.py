"""What keeps a chat going, and what ends it: with a keyboard that is a list of what is typed."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact.cli.chat import chat as chatting
from reenact.cli.chat.answering import ChatExtensions
from reenact.cli.chat.conversation import TurnRunner
from reenact.cli.chat.current import Current
from reenact.cli.output.answers import Answer, unasked
from reenact.cli.output.console import Console
from reenact.cli.output.failures import INTERRUPTED
from reenact.domain.errors import StorageFullError
from tests.cli.talks import FIRST, beginning, said, say

CTRL_C = KeyboardInterrupt()
CTRL_D = EOFError()
Typed: TypeAlias = str | BaseException
Keys: TypeAlias = Callable[..., int]


class Acting(ChatExtensions):
    """Does what `act` says in the place of asking."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.asked_as_it_is: list[str] = []
        self.act: Callable[[str], None] = lambda _: None

    def ask(self, runner: TurnRunner, question: str, *, as_it_is: bool) -> Answer:
        """Take note of the question."""
        (self.asked_as_it_is if as_it_is else self.asked).append(question)
        self.act(question)
        return super().ask(runner, question, as_it_is=as_it_is)


class Interrupted(Acting):
    """Every answer is interrupted."""

    def ask(self, runner: TurnRunner, question: str, *, as_it_is: bool) -> Answer:
        """Answer that somebody wanted no answer."""
        self.asked.append(question)
        self.act(question)
        return unasked("", INTERRUPTED)


@pytest.fixture
def seen() -> io.StringIO:
    """What the person sees."""
    return io.StringIO()


@pytest.fixture
def current(tmp_path: Path) -> Iterator[Current]:
    with beginning(tmp_path) as current:
        yield current


def nothing(*_: object) -> None:
    """Stand for an editor that nobody types into."""


@pytest.fixture
def typing(current: Current, monkeypatch: pytest.MonkeyPatch, seen: io.StringIO) -> Keys:
    """Return what chats with somebody who types this, and returns the exit code; all of it must be read."""

    def typing(extensions: ChatExtensions, *keys: Typed) -> int:
        left = list(keys)

        def read_question(_editor: object) -> str:
            key = left.pop(0)
            if isinstance(key, BaseException):
                raise key
            return key

        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", seen)
            patch.setattr(chatting, "read_question", read_question)
            patch.setattr(chatting, "editor_of_questions", nothing)
            patch.setattr(chatting, "has_typed", nothing)
            patch.setattr("reenact.cli.chat.chat.editor_of_decisions", nothing)
            current.console, current.extensions = Console({}, in_ci=False), extensions
            code = chatting.chat(current, who="the mock answers")
        assert left == [], "it was left before"
        return code

    return typing


@pytest.mark.parametrize(
    "keys",
    [
        (CTRL_D,),
        ("/exit",),
        (CTRL_C, CTRL_C),
        (CTRL_C, CTRL_D),
        (CTRL_C, "", CTRL_C, CTRL_C),
        (CTRL_C, "Hello", CTRL_C, CTRL_C),
        (CTRL_C, "/pending", CTRL_C, "/exit"),
    ],
    ids=repr,
)
def test_ctrl_c_twice_in_a_row_leaves_and_so_do_ctrl_d_and_exit(typing: Keys, keys: tuple[Typed, ...]) -> None:
    acting = Acting()

    code = typing(acting, *keys)

    assert code == 0
    assert acting.asked == [key for key in keys if key == "Hello"]


def test_a_path_is_a_question_and_two_slashes_send_one(typing: Keys, current: Current) -> None:
    acting = Acting()

    typing(acting, "/etc/hosts is what?", "//help", CTRL_D)

    assert (acting.asked, acting.asked_as_it_is) == (["/etc/hosts is what?"], ["/help"])
    assert said(current) == ["/etc/hosts is what?", "/help"]


@pytest.mark.parametrize(
    "keys",
    [
        ("Hello", CTRL_C),
        ("Hello", "", CTRL_C, CTRL_C),
        ("Hello", "/pending", CTRL_C, CTRL_C),
        ("Hello", "And now?", CTRL_C),
    ],
    ids=repr,
)
def test_at_the_prompt_behind_an_interrupted_answer_once_is_enough(typing: Keys, keys: tuple[Typed, ...]) -> None:
    assert typing(Interrupted(), *keys) == 0


def test_ctrl_c_while_nothing_can_be_interrupted_counts_as_one_at_the_prompt(typing: Keys, seen: io.StringIO) -> None:
    acting = Acting()
    acting.act = lambda _: signal.raise_signal(signal.SIGINT)

    code = typing(acting, "Hello", CTRL_C)

    assert code == 0
    assert acting.asked == ["Hello"]
    assert "Ctrl+C again, or Ctrl+D, leaves." in seen.getvalue()


def test_ctrl_c_once_more_before_the_prompt_is_there_leaves(typing: Keys) -> None:
    acting = Interrupted()
    acting.act = lambda _: signal.raise_signal(signal.SIGINT)

    assert typing(acting, "Hello") == 0


def test_ctrl_c_twice_during_an_answer_leaves_at_once_and_says_how_to_come_back(
    typing: Keys, current: Current, seen: io.StringIO
) -> None:
    say(current, "Before")
    acting = Acting()

    def press_twice(_: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    acting.act = press_twice

    with pytest.raises(KeyboardInterrupt):
        typing(acting, "Hello")

    assert seen.getvalue().endswith(f"To come back: {current.resume_command}\n")


@pytest.mark.parametrize("error", [StorageFullError("the disk is full"), RuntimeError("unthinkable"), OSError("odd")])
def test_whatever_fails_is_told_and_the_next_question_is_answered(
    typing: Keys, seen: io.StringIO, current: Current, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    acting = Acting()

    def fail(question: str) -> None:
        if question == "Fail":
            raise error

    acting.act = fail

    code = typing(acting, "Fail", "Hello", CTRL_D)

    assert code == 0
    assert str(error) in f"{seen.getvalue()}{caplog.text}"
    assert said(current) == ["Hello"]


def test_nobody_who_reads_the_answers_is_the_end(typing: Keys) -> None:
    acting = Acting()

    def fail(_: str) -> None:
        raise BrokenPipeError

    acting.act = fail

    with pytest.raises(BrokenPipeError):
        typing(acting, "Hello", CTRL_D)


def test_what_waited_when_the_chat_began_is_answered_first(
    typing: Keys, current: Current, capsys: pytest.CaptureFixture[str]
) -> None:
    say(current, "Before")
    current.resume(current.runtime.sessions.branch(FIRST, edit="Instead").id)

    typing(Acting(), CTRL_D)

    assert "Hello from mock!" in capsys.readouterr().out
    assert current.conversation.open_turns() == []
