"""A wait ends when there is an answer, when the program has ended, or when its time is over; it says what was seen."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.terminal.errors import ExpectationError, TerminalTestError, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.matching.options import AssertionOptions, Expression
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.spawning import ExitStatus
from reenact.terminal.session.waiting import Changes, Pause, answer_to, run
from reenact.testing import wait_until
from tests.examples import examples
from tests.terminal.raising import raises
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import CAT, RAW_SLEEP, READY, exists, is_alive, shell

SLACK = 60.0
"""Seconds by which a wait may be late on a busy machine."""
CHATTY = shell("echo ready; while :; do echo tick; sleep 0.01; done")
WAITS: dict[str, Callable[[TerminalEmulator, float], object]] = {
    "text": lambda terminal, timeout: terminal.wait_for("never", timeout),
    "pattern": lambda terminal, timeout: terminal.wait_for(re.compile("ne+ver"), timeout, scope="all"),
    "screen": lambda terminal, timeout: terminal.wait_for("never", timeout, scope="screen"),
    "condition": lambda terminal, timeout: terminal.wait_until(lambda _: False, timeout, what="what never is"),
    "silence": lambda terminal, timeout: terminal.wait_idle(30, timeout),
    "exit": lambda terminal, timeout: terminal.wait_for_exit(timeout),
}


@settings(max_examples=examples(20))
@given(st.sampled_from(sorted(WAITS)), st.floats(0, 0.04), st.sampled_from([RAW_SLEEP, CHATTY]))
def test_property_04_timeout_enforcement(operation: str, timeout: float, command: tuple[str, ...]) -> None:
    """Property 04: Timeout Enforcement (requirements 1.5, 3.4)."""
    with TerminalEmulator(command) as terminal:
        terminal.wait_for(READY)
        begun = time.monotonic()

        with pytest.raises(WaitTimeoutError) as caught:
            WAITS[operation](terminal, timeout)

        took = time.monotonic() - begun
        assert timeout <= took < timeout + SLACK
        assert caught.value.type is TerminalTestErrorType.TIMEOUT
        assert f"timed out after {timeout:g} s" in caught.value.message
        # Only who waits for the end of the program has it ended.
        assert terminal.is_running is (operation != "exit")
        assert terminal.pid is not None
        assert exists(terminal.pid) is (operation != "exit")


def test_requirement_1_5_a_program_that_does_not_end_is_ended_with_what_it_started(start: Start) -> None:
    terminal = start(*shell("sleep 60 & echo child $!; wait"))
    terminal.wait_for(re.compile(r"child (\d+)\r"))
    assert terminal.match is not None
    child = int(terminal.match.group(1))

    with pytest.raises(WaitTimeoutError, match=r"timed out after 0\.05 s waiting for its end") as caught:
        terminal.wait_for_exit(0.05)

    assert f"child {child}" in str(caught.value)
    assert terminal.exit_status == ExitStatus(signal=1)
    assert not is_alive(child)
    assert terminal.wait_for_exit() == ExitStatus(signal=1)


def test_the_timeout_of_the_terminal_holds_where_none_is_given(start: Start) -> None:
    terminal = start(*CAT, timeout=0.05)

    with pytest.raises(WaitTimeoutError, match=r"timed out after 0\.05 s waiting for 'a'"):
        terminal.wait_for("a")


def test_a_wait_without_time_looks_once(start: Start) -> None:
    terminal = start(*CAT)
    terminal.send_line("a")
    terminal.wait_for("a\na\n")

    assert terminal.wait_for("a", 0, scope="all") == "a"
    with pytest.raises(WaitTimeoutError):
        terminal.wait_for("a", 0)


@pytest.mark.parametrize("wrong", [-1, 10**400, float("inf"), float("nan"), "1", True])
def test_a_time_that_is_none_is_refused(start: Start, wrong: float) -> None:
    terminal = start(*CAT)

    for use in (
        lambda: terminal.wait_for("a", wrong),
        lambda: terminal.wait_for_exit(wrong),
        lambda: terminal.wait_idle(wrong),
        lambda: terminal.wait_until(lambda _: True, wrong, what="anything"),
    ):
        with raises(TerminalTestErrorType.INVALID_CONFIG, "a number of seconds"):
            use()
    assert terminal.is_running


def test_a_wait_ends_at_once_when_the_program_has(start: Start) -> None:
    terminal = start(*shell("echo almost; exit 7"))

    with raises(TerminalTestErrorType.PROCESS_EXITED) as caught:
        terminal.wait_for("done", 60)

    assert "has ended (exit code 7) while waiting for 'done'" in str(caught.value)
    assert "this was shown:\nalmost" in str(caught.value)


def test_what_a_program_wrote_at_its_end_is_matched_all_the_same(start: Start) -> None:
    for _ in range(5):
        terminal = start(*shell("printf last; exit 1"))

        assert terminal.wait_for("last") == "last"


@pytest.mark.parametrize(
    "pattern",
    [
        "one\ntwo",
        r"one\ntwo",
        r"o\w+\n+t",
        "(?<=one\n)two",
        "(?x) one \\n  # and\n two",
        r"one[\r\n]+two",
        "one\r\ntwo",
    ],
)
def test_a_newline_in_an_expression_matches_as_the_terminal_writes_it(start: Start, pattern: str) -> None:
    terminal = start(*shell(r"printf 'one\ntwo'; exec sleep 60"))

    assert terminal.wait_for(Expression(pattern)).startswith("one\r\nt")


@pytest.mark.parametrize("pattern", ["one\ntwo", r"one\ntwo"])
def test_that_a_compiled_pattern_takes_newlines_as_they_are_is_said_where_it_matters(
    start: Start, pattern: str
) -> None:
    terminal = start(*shell(r"printf 'one\ntwo'; exec sleep 60"))
    terminal.wait_for("two", scope="all")

    with pytest.raises(WaitTimeoutError, match=r"lines end with \\r\\n here"):
        terminal.wait_for(re.compile(pattern), 0)
    assert terminal.wait_for(re.compile(r"one\r\ntwo"), scope="all") == "one\r\ntwo"


def test_a_wait_looks_behind_what_was_matched_at_everything_or_at_the_screen(start: Start) -> None:
    terminal = start(*shell(r"printf 'one\ntwo\none\033[2J\033[Hthree'; exec sleep 60"))

    assert terminal.wait_for("one\ntwo") == "one\r\ntwo"
    assert terminal.wait_for("one") == "\r\none"
    assert terminal.wait_for("three", scope="screen") == "three"
    assert terminal.wait_for(re.compile("t(wo)"), scope="all") == "one\r\ntwo"
    assert terminal.match is not None
    assert terminal.match.group(1) == "wo"
    assert terminal.wait_for("three") == "three"
    nowhere: Any = "here"
    with pytest.raises(WaitTimeoutError, match="on the screen"):
        terminal.wait_for("two", 0, scope="screen")
    with raises(TerminalTestErrorType.INVALID_CONFIG, "new, all or screen"):
        terminal.wait_for("a", scope=nowhere)


def test_a_text_that_comes_in_pieces_is_found(start: Start) -> None:
    script = r"for part in 'ready\r\n' 'a\303' '\251b' '\033[3' '1mc'; do printf $part; head -c 1 >/dev/null; done"
    terminal = start(*shell(f"stty raw -echo; {script}"))
    terminal.wait_for(READY)

    for _ in range(4):
        before = len(terminal.get_output_bytes())
        terminal.write(".")
        wait_until(lambda: len(terminal.get_output_bytes()) > before, what="a piece")  # noqa: B023 - asked at once

    assert terminal.wait_for("aébc") == "aébc"


def test_two_who_wait_for_the_same_text_get_one_each(start: Start) -> None:
    terminal = start(*RAW_SLEEP[:2], "stty raw -echo; printf 'ready\\r\\n'; exec cat")
    terminal.wait_for(READY)
    found: list[str] = []

    waiting = [threading.Thread(target=lambda: found.append(terminal.wait_for(";"))) for _ in range(2)]
    for thread in waiting:
        thread.start()
    terminal.write("a;b;")
    for thread in waiting:
        thread.join()

    assert sorted(found) == ["a;", "b;"]


def test_who_waits_is_told_when_the_terminal_is_disposed_of(start: Start) -> None:
    terminal = start(*CAT)
    errors: list[TerminalTestError] = []

    def wait_in_vain() -> None:
        try:
            terminal.wait_for("never")
        except TerminalTestError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait_in_vain)
    waiting.start()
    terminal.dispose()
    waiting.join()

    assert [error.type for error in errors] == [TerminalTestErrorType.PROCESS_EXITED]


def test_silence_is_waited_for_from_now_on(start: Start) -> None:
    terminal = start(*CAT)
    terminal.wait_idle(0.01)
    begun = time.monotonic()

    terminal.wait_idle(0.05)

    assert time.monotonic() - begun >= 0.05


def test_silence_after_the_end_needs_no_waiting(start: Start) -> None:
    terminal = start("/bin/true")
    terminal.wait_for_exit()

    terminal.wait_idle(30, timeout=0)


def test_a_condition_is_asked_of_each_new_screen(start: Start) -> None:
    terminal = start(*CAT)
    terminal.write("ab")

    screen = terminal.wait_until(lambda screen: screen.cursor.column == 2, what="the cursor behind both")

    assert screen.text == "ab"
    with pytest.raises(WaitTimeoutError, match="waiting for a third"):
        terminal.wait_until(lambda screen: screen.cursor.column == 3, 0.01, what="a third")


def test_each_new_screen_is_looked_at_until_something_is_seen(start: Start) -> None:
    terminal = start(*shell(r"printf '\033]2;a title\007'; exec sleep 60"))

    assert terminal.watch(lambda screen: screen.title or None, what="a title") == "a title"
    with pytest.raises(WaitTimeoutError, match="timed out after 0 s waiting for a second title"):
        terminal.watch(lambda _: None, timeout=0, what="a second title")


def test_the_cursor_is_expected_where_it_comes_to_be(start: Start) -> None:
    terminal = start(*CAT)
    terminal.write("abc")

    terminal.expect_cursor(0, 3)

    with pytest.raises(ExpectationError, match="was to be in row 1, column 0; it is in row 0, column 3"):
        terminal.expect_cursor(1, 0, 0.01)


def test_the_screen_is_expected_to_come_to_show_something(start: Start) -> None:
    terminal = start(*CAT)
    terminal.send_line("a  b")

    terminal.expect_screen("a  b\na  b")
    terminal.expect_screen(AssertionOptions(type="exact", expected="a b A B", ignore_whitespace=True, ignore_case=True))

    with pytest.raises(ExpectationError, match="is not as expected") as caught:
        terminal.expect_screen(AssertionOptions(type="exact", expected="a b"), 0.01)
    assert "a  b" in str(caught.value)


def test_what_was_expected_of_a_program_that_has_ended_is_judged_by_what_it_left(start: Start) -> None:
    terminal = start("/usr/bin/printf", "left")

    terminal.expect_screen("left")

    with pytest.raises(ExpectationError, match="to be in row 0, column 0"):
        terminal.expect_cursor(0, 0)


def test_text_on_the_screen_is_located(start: Start) -> None:
    terminal = start(*shell(r"printf 'plain \033[1mbold\033[m'; exec sleep 60"))

    assert terminal.get_by_text("bold").expect_visible().column == 6
    assert terminal.get_by_style(bold=True).text == "bold"


def test_a_question_that_takes_long_rests_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 0.0, 0
    monkeypatch.setattr("reenact.terminal.session.waiting.time", SimpleNamespace(monotonic=lambda: now))
    changes = Changes()

    def ask() -> bool | None:
        nonlocal now, asked
        now, asked = now + 1, asked + 1
        changes.announce()  # as a flood would
        return None

    async def rest(changes: Changes, pause: Pause) -> None:
        nonlocal now
        assert pause.happened < changes.moment.happened
        now = pause.earliest
        assert now == 2 * asked

    with pytest.raises(TimeoutError):
        run(answer_to(changes, rest, 20, ask, ended=RuntimeError, too_late=TimeoutError))
    assert asked == 11


def test_a_rest_is_not_cut_short_by_what_happens() -> None:
    changes = Changes()
    begun = time.monotonic()
    changes.announce()

    changes.wait_out(Pause(happened=0, earliest=begun + 0.02, latest=math.inf))

    assert time.monotonic() >= begun + 0.02


def test_what_a_program_has_shown_does_not_drive_the_terminal_of_who_reads_the_error() -> None:
    seen = "safe\a\x1b[31m\r\nspoof\red\t\x7f\x9b\u202e"

    error = WaitTimeoutError("waited for '\x1b'", seen=seen)

    shown = "safe\\x07\\x1b[31m\nspoof\\red\t\\x7f\\x9b\\u202e"
    assert str(error) == f"waited for '\\x1b'\nthis was shown:\n{shown}"
    assert (error.message, error.seen) == ("waited for '\x1b'", seen)


@pytest.mark.parametrize(
    ("shown", "searched", "is_found"),
    [
        ("you> ", "you> ", True),
        ("you>", "you>  ", True),
        ("you>  me", "you>  ", True),
        ("you> me", "you>  ", False),
        ("you>me", "you> ", False),
        ("(1) [+]\nyou> ", "[+] \nyou> ", True),
    ],
)
def test_blanks_at_the_end_of_a_text_match_the_end_of_a_row(
    start: Start, shown: str, searched: str, *, is_found: bool
) -> None:
    terminal = start(*shell(f"printf '{shown}'; read line"))
    terminal.wait_for(shown.replace("\\n", "\n"))

    with nullcontext() if is_found else pytest.raises(WaitTimeoutError):
        terminal.wait_for(searched, timeout=0, scope="screen")


def test_a_text_that_was_drawn_in_pieces_is_said_to_be_on_the_screen(start: Start) -> None:
    terminal = start(*shell(r"printf 'go\033[4Con\033[1;3H> '; read line"))
    terminal.wait_for("> ")

    with pytest.raises(WaitTimeoutError, match="'go> ' from '/bin/sh'; it is on the screen, drawn in pieces"):
        terminal.wait_for("go> ", timeout=0)


def test_when_all_was_matched_before_the_error_says_so_and_what_it_was(start: Start) -> None:
    terminal = start(*shell("printf 'one\\ntwo\\nthree'; read line"))
    terminal.wait_for("three")

    with pytest.raises(WaitTimeoutError, match="nothing new was shown") as caught:
        terminal.wait_for("three", 0)

    assert caught.value.seen == "one\r\ntwo\r\nthree"


def test_what_was_expected_of_the_screen_of_a_program_that_has_ended_is_an_expectation(start: Start) -> None:
    terminal = start("/usr/bin/printf", "Hello")

    with pytest.raises(ExpectationError, match=r"it is not there.*the program has ended"):
        terminal.get_by_text("Bye").expect_visible()

    with raises(TerminalTestErrorType.PROCESS_EXITED):
        terminal.get_by_text("Bye").text  # noqa: B018 - it waits


def test_a_coroutine_that_waits_for_an_event_loop_cannot_be_run_by_the_blocking_terminal() -> None:
    with pytest.raises(RuntimeError, match="cannot wait for an event loop"):
        run(asyncio.sleep(0))
