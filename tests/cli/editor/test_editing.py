"""The editor by which a person types: what is sent is what was typed and pasted, in whatever pieces it came."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import DummyHistory, InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.output import DummyOutput

from reenact.cli.editor.editor import lines_editor, read_question
from reenact.cli.editor.keyboard import with_our_keys
from reenact.cli.output.console import Console
from reenact.terminal import Screen, SpecialKey, TerminalEmulator
from reenact.testing import wait_until
from tests.cli.chat.test_chat import has_colours
from tests.cli.conftest import PATIENCE, PROMPT, Chat, Run, ask, leave
from tests.cli.tools import MAIL, Office
from tests.examples import examples

ENTER, ALT_ENTER, CTRL_J, UP, DOWN = "\r", "\x1b\r", "\n", "\x1b[A", "\x1b[B"
NEW_LINES = (ALT_ENTER, CTRL_J, "\\\r", "\x1b[13;2u", "\x1b[13;5u", "\x1b[27;2;13~", "\x1b[27;5;13~")
TYPEABLE = st.text(st.characters(exclude_categories=["Cc", "Cs"]))
PASTEABLE = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "\x1b[201~" not in text)


def pasted(text: str) -> str:
    """Return what a terminal sends when this is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


def as_lines(text: str) -> str:
    """Return the text with the line ends of an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


PIECES = st.one_of(
    TYPEABLE.map(lambda text: (text, text)),
    PASTEABLE.map(lambda text: (pasted(text), as_lines(text))),
    st.sampled_from(NEW_LINES).map(lambda keys: (keys, "\n")),
)
"""What is typed, and what it adds to the text."""


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    """Return a keyboard."""
    with create_pipe_input() as keyboard:
        yield keyboard


def said(keyboard: PipeInput, typed: str, history: InMemoryHistory | None = None, **environ: str) -> str:
    """Type at an editor and return what is sent."""
    editor = lines_editor(with_our_keys(keyboard), DummyOutput(), history or DummyHistory(), environ, None)
    keyboard.send_text(typed)
    return read_question(editor)


@settings(max_examples=examples(30))
@given(st.lists(PIECES, max_size=6), st.lists(st.integers(0, 400), max_size=6))
def test_what_is_sent_is_exactly_what_was_typed_and_pasted_in_whatever_pieces_it_came(
    pieces: list[tuple[str, str]], cuts: list[int]
) -> None:
    sent = b"".join(typed.encode() for typed, _ in pieces) + ENTER.encode()
    text = "".join(added for _, added in pieces)
    if text.endswith("\\"):
        sent, text = sent[:-1] + b"." + sent[-1:], text + "."
    bounds = sorted({0, *(cut for cut in cuts if cut < len(sent)), len(sent)})
    left = [sent[begin:end] for begin, end in pairwise(bounds)]

    with create_pipe_input() as keyboard:
        editor = lines_editor(with_our_keys(keyboard), DummyOutput(), DummyHistory(), {}, None)
        read_keys = keyboard.read_keys

        def read_and_go_on() -> list[KeyPress]:
            keys = read_keys()
            if left:
                keyboard.send_bytes(left.pop(0))
            return keys

        keyboard.read_keys = read_and_go_on  # type: ignore[method-assign] # when a piece is read, the next comes
        keyboard.send_bytes(left.pop(0))
        answer = read_question(editor)

    assert answer == (text if text.strip() else "")


NOT_TYPED = st.sampled_from(
    ["\x1b[31m", "\x1b[<0;1;1M", "\x1b[<;m", "\x1b[M\x1b\x1b\x1b", "\x1b[Mabc", "\x1b[99;1R", "\x1b[", "\x1b"]
)


@settings(max_examples=examples(15), deadline=None)
@given(
    st.lists(
        st.one_of(NOT_TYPED, st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\x03\x04\x1a"))),
        max_size=8,
    )
)
def test_whatever_a_terminal_sends_nothing_is_raised_in_the_chat(typed: list[str]) -> None:
    raised: list[logging.LogRecord] = []
    with create_pipe_input() as keyboard, pytest.MonkeyPatch.context() as patch:
        patch.setattr("reenact.cli.editor.editor._logger.handle", raised.append)
        keyboard.send_bytes("".join(typed).encode("latin-1"))
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            said(keyboard, "\x1b[201~\x03")

    assert [record.getMessage() for record in raised] == []


def test_a_key_that_raises_is_told_of_in_the_log_of_errors_and_the_text_goes_on(
    keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(_: Buffer) -> None:
        keyboard.send_text(f"b{ENTER}")
        raise ZeroDivisionError

    monkeypatch.setattr("reenact.cli.editor.keys.complete", fail)
    with Console({}, in_ci=False).logging(tmp_path):
        text = said(keyboard, "a\t")

    assert text == "ab"
    assert "ZeroDivisionError" in (tmp_path / "errors.log").read_text()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("keys", NEW_LINES)
def test_these_keys_begin_a_line_and_enter_sends(keyboard: PipeInput, keys: str) -> None:
    assert said(keyboard, f"one{keys}two{ENTER}") == "one\ntwo"


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("C:\\\\\r", "C:\\\\"),
        ("a\\b\r", "a\\b"),
        ("a\\\\\\\rb\r", "a\\\\\nb"),
        ("\\\r\\\rc\r", "\n\nc"),
        ("a\\b\x1b[D\r", "a\\b"),
    ],
)
def test_only_a_backslash_at_the_end_that_is_no_second_one_asks_for_a_line(
    keyboard: PipeInput, typed: str, text: str
) -> None:
    assert said(keyboard, typed) == text


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("one two\x17three\r", "one three"),
        ("two\x01one \x05 three\r", "one two three"),
        ("one two\x01\x0b\x19\x19\r", "one twoone two"),
        ("one\x15two\r", "two"),
        ("one two\x1bb\x1bbzero \x1bf and\r", "zero one and two"),
        ("two\x1b[Hone \x1b[F three\r", "one two three"),
        ("one\x15\x1f\r", "one"),
        ("one\ntwo\x1b[Aa\x1b[Bb\r", "onea\ntwob"),
    ],
)
def test_keys_are_those_of_readline(keyboard: PipeInput, keys: str, text: str) -> None:
    assert said(keyboard, keys) == text


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (UP + ENTER, "the\nlast"),
        (UP + UP + UP + ENTER, "the first"),
        (UP + UP + UP + DOWN + ENTER, "the\nlast"),
        ("new" + UP + UP + UP + DOWN + DOWN + DOWN + ENTER, "new"),
        ("\x12FIR" + ENTER + ENTER, "the first"),
        ("\x12zzz\x07kept" + ENTER, "kept"),
    ],
)
def test_the_history_is_at_the_edges_of_the_text_and_can_be_searched(keyboard: PipeInput, keys: str, text: str) -> None:
    history = InMemoryHistory(["the first", "the\nlast"])

    assert said(keyboard, keys, history) == text


def test_a_text_of_blanks_is_no_text(keyboard: PipeInput) -> None:
    assert said(keyboard, f" \t{CTRL_J} {ENTER}") == ""


def test_ctrl_c_and_ctrl_d_and_the_end_of_the_input_leave(keyboard: PipeInput) -> None:
    with pytest.raises(KeyboardInterrupt):
        said(keyboard, "not meant\x03")
    with pytest.raises(EOFError):
        said(keyboard, "\x04")

    editor = lines_editor(with_our_keys(keyboard), DummyOutput(), DummyHistory(), {}, None)
    keyboard.close()

    with pytest.raises(EOFError):
        read_question(editor)


@pytest.fixture
def editing(tmp_path: Path) -> str:
    """Return an editor that writes in capitals; quotes and blanks in its path are those of a person's shell."""
    script = tmp_path / "my editor"
    script.write_text('#!/bin/sh\n[ "$1" = --loud ] && tr a-z A-Z <"$2" >"$2.new" && mv "$2.new" "$2"\n')
    script.chmod(0o700)
    return f"'{script}' --loud"


def test_the_text_is_opened_in_the_editor_that_the_person_has_named(keyboard: PipeInput, editing: str) -> None:
    environ = {"VISUAL": editing, "EDITOR": "/nonexistent"}
    editor = lines_editor(with_our_keys(keyboard), DummyOutput(), DummyHistory(), environ, None)
    keyboard.send_text(f"one{CTRL_J}two\x18\x05")

    def go_on(buffer: Buffer) -> None:
        if buffer.text == "ONE\nTWO":
            keyboard.send_text("!" + ENTER)

    editor.default_buffer.on_text_changed += go_on

    assert read_question(editor) == "ONE\nTWO!"


@pytest.mark.parametrize("editor", ["", "/nonexistent", "false", "'not closed"])
def test_without_an_editor_that_can_be_used_the_text_stays_as_it_is(keyboard: PipeInput, editor: str) -> None:
    assert said(keyboard, f"one\x18\x05 two{ENTER}", EDITOR=editor) == "one two"


def test_a_person_who_has_named_no_editor_is_told_how(chat: Chat) -> None:
    terminal = chat()

    terminal.write("one\x18\x05")
    terminal.wait_for("Set VISUAL or EDITOR")
    ask(terminal, " two")

    terminal.get_by_text("> one two").expect_visible()
    terminal.get_by_text("Set VISUAL").expect_count(0)


def test_a_history_outlives_the_chat_whole_and_once(chat: Chat, environ: dict[str, str]) -> None:
    first = chat()
    for _ in range(2):
        first.write("one\ntwo\r")
        first.wait_for("Hello from mock!")
        first.wait_for(PROMPT)
    leave(first)

    second = chat()
    second.send_key(SpecialKey.UP)
    second.get_by_text("> one").expect_visible()
    second.get_by_text("· two").expect_cursor()

    history = Path(environ["HOME"], ".local/state/reenact/history")
    assert history.read_text().count("+one\n+two\n") == 1


@pytest.mark.parametrize("made", ["binary", "directory"])
def test_a_history_that_is_something_else_is_a_warning(chat: Chat, environ: dict[str, str], made: str) -> None:
    history = Path(environ["HOME"], ".local/state/reenact/history")
    history.parent.mkdir(parents=True)
    if made == "binary":
        history.write_bytes(b"\x7fELF\x00")
    else:
        history.mkdir()

    terminal = chat()
    terminal.send_line("Hello")
    terminal.wait_for("Hello from mock!")

    assert "what is typed will not be remembered" in terminal.get_stripped_output()
    assert history.is_dir() or history.read_bytes() == b"\x7fELF\x00"


def wait_for_rows(terminal: TerminalEmulator, rows: list[str]) -> str:
    """Wait until these are the last rows of the screen; return all of it without blanks."""

    def are_there(screen: Screen) -> bool:
        return [line.rstrip() for line in screen.lines if line.strip()][-len(rows) :] == rows

    return "".join(terminal.wait_until(are_there, what=f"{rows} at the end").text.split())


def test_lines_stand_at_a_margin_and_are_drawn_whole_when_the_terminal_changes_its_size(chat: Chat) -> None:
    terminal = chat()
    text = "three " * 20
    terminal.write(f"one\ntwo\n{text}")

    for columns in (120, 60, 20, 120):
        terminal.resize(columns, 24)
        whole = [text[at : at + columns - 2].rstrip() for at in range(0, len(text), columns - 2)]
        drawn = ["> one", "· two", *(f"{'  ' if at else '· '}{row}" for at, row in enumerate(whole))]
        shown = wait_for_rows(terminal, drawn)

        assert shown.count("commands.>one·two·three") == 1, "what stands above is untouched"


def test_a_terminal_of_a_column_is_typed_at_all_the_same(chat: Chat) -> None:
    terminal = chat()
    terminal.resize(1, 24)
    terminal.wait_idle()

    terminal.send_line("abc")
    terminal.wait_idle()
    terminal.resize(80, 24)
    terminal.send_line("/sessions")
    terminal.wait_for("2 messages  abc")


def test_a_paste_is_sent_by_enter_alone_and_nothing_in_it_is_obeyed(chat: Chat, run: Run) -> None:
    terminal = chat()

    terminal.paste("/exit\r\n\tdone\r\x1b[2J\x07\x9b31m")
    terminal.wait_for("^[[2J^G")
    shown = terminal.screen.text.splitlines()[-3:]
    before = run("sessions", "--output-format", "json").objects
    terminal.send_key(SpecialKey.ENTER)
    terminal.wait_for("/exit is typed alone")

    assert [line.rstrip() for line in shown] == ["> /exit", "·     done", "· ^[[2J^G<9b>31m"]
    assert before == []


def test_a_huge_paste_is_taken_at_once_and_the_editor_stays_usable(chat: Chat, office: Office) -> None:
    text = "\n".join(f"{number:5} {'x' * 190}" for number in range(5000))
    terminal = chat()
    begun = time.monotonic()

    terminal.paste(text)
    terminal.write(" and more")
    terminal.wait_for("and more")
    taken = time.monotonic() - begun
    terminal.send_key(SpecialKey.ENTER)
    terminal.wait_for("Hello from the fake API!")

    asked = office.api.requests[-1].body["messages"][-1]["content"][-1]["text"]
    assert asked == f"{text} and more"
    assert taken < 40, "it takes less than one second where nothing else runs"


@pytest.mark.parametrize("colours", [{"NO_COLOR": "1"}, {"NO_COLOR": "", "PROMPT_TOOLKIT_COLOR_DEPTH": "DEPTH_1_BIT"}])
def test_an_editor_without_colours_has_none_in_what_it_offers_or_says(chat: Chat, colours: dict[str, str]) -> None:
    terminal = chat(**colours)
    terminal.write("/\x18\x05")
    terminal.wait_for("Set VISUAL")

    assert not has_colours(terminal)


def test_a_dumb_terminal_gets_a_plain_prompt_and_no_sequences(chat: Chat) -> None:
    terminal = chat(TERM="dumb")
    terminal.send_line("one\\")
    terminal.wait_for("… ")
    ask(terminal, "two")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("Ctrl+C again")
    terminal.wait_for(PROMPT)
    terminal.send_line("/sessions")
    terminal.wait_for("2 messages  one two")

    assert leave(terminal) == 0
    assert "\x1b" not in terminal.get_output()


def test_a_dumb_terminal_asks_for_approval_too(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL)
    terminal = chat(*office.tools, TERM="dumb")
    terminal.send_line("Write to Ann")
    terminal.wait_for("Run it?")
    terminal.send_line("e")
    terminal.wait_for("Arguments:")
    terminal.send_line('{"to": "bob@example.org"}')
    terminal.wait_for("bob@example.org")
    terminal.wait_for("Run it?")
    terminal.send_line("y")
    terminal.wait_for("Hello from the fake API!")

    assert office.sent == "bob@example.org: \n"


def test_what_an_approval_asks_is_whole_on_thirty_columns(chat: Chat, office: Office) -> None:
    office.model_asks_for(MAIL)
    terminal = chat(*office.tools, NO_COLOR="1")
    terminal.resize(30, 24)
    terminal.send_line("Write to Ann")

    for columns, asked in (
        (30, ["Run it? [y]es, [n]o,", "[a]lways, [e]dit, [q]uit the", "turn:"]),
        (12, ["Run it?", "[y]es,", "[n]o,", "[a]lways,", "[e]dit,", "[q]uit the", "turn:"]),
    ):
        terminal.resize(columns, 24)
        assert wait_for_rows(terminal, asked).count("Runit?") == 1
    terminal.send_line("y")

    wait_until(lambda: office.sent == "ann@example.org: Hello\n", timeout=PATIENCE)


def test_a_terminal_that_hangs_up_is_left_though_nobody_says_so() -> None:
    person, program = os.openpty()
    with os.fdopen(program, encoding="utf-8") as stdin:
        editor = lines_editor(with_our_keys(Vt100Input(stdin)), DummyOutput(), DummyHistory(), {}, None)
        os.close(person)  # from here on, reading is an error

        with pytest.raises(EOFError):
            read_question(editor)


def test_a_terminal_at_which_nothing_can_be_drawn_any_more_is_left(keyboard: PipeInput) -> None:
    class Gone(DummyOutput):
        def flush(self) -> None:
            raise OSError(errno.EIO, "Input/output error")

    editor = lines_editor(with_our_keys(keyboard), DummyOutput(), DummyHistory(), {}, None)
    editor.app.renderer.output = Gone()

    with pytest.raises(EOFError):
        read_question(editor)
