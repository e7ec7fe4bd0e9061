"""Bytes go in as they are and come out as they are, however many there are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.terminal.errors import TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.spawning import ExitStatus
from tests.examples import examples
from tests.terminal.raising import raises
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import CAT, RAW_CAT, RAW_SLEEP, READY, shell


@settings(max_examples=examples(20))
@given(st.lists(st.binary(max_size=40) | st.text(max_size=40) | st.sampled_from(["\x03", "\x04", "\0", "\r\n", "é"])))
def test_property_02_input_output_round_trip(inputs: list[bytes | str]) -> None:
    """Property 02: Input/Output Round-Trip (requirements 1.2, 1.3)."""
    sent = b"".join(data.encode() if isinstance(data, str) else data for data in inputs)
    with TerminalEmulator(RAW_CAT) as terminal:
        terminal.wait_for(READY)
        begin = len(terminal.get_output_bytes())

        for data in inputs:
            terminal.write(data)

        end = begin + len(sent)
        terminal.wait_until(lambda _: len(terminal.get_output_bytes()) >= end, what=f"{len(sent)} bytes")
        assert terminal.get_output_bytes()[begin:] == sent


def test_requirement_1_2_much_input_arrives_complete_while_its_echo_comes_back(start: Start) -> None:
    terminal = start(*RAW_CAT)
    terminal.wait_for(READY)
    begin = len(terminal.get_output_bytes())
    data = bytes(range(256)) * 1200

    terminal.write(data)

    terminal.wait_until(lambda _: len(terminal.get_output_bytes()) >= begin + len(data), what="the echo")
    assert terminal.get_output_bytes()[begin:] == data


def test_writers_do_not_cut_into_each_others_texts(start: Start) -> None:
    terminal = start(*RAW_CAT)
    terminal.wait_for(READY)
    begin = len(terminal.get_output())
    texts = [letter * 30_000 for letter in "abcd"]

    writers = [threading.Thread(target=terminal.write, args=[text]) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    terminal.wait_until(lambda _: len(terminal.get_output()) >= begin + 120_000, what="all of them")
    whole = terminal.get_output()[begin:]
    assert sorted(whole[place : place + 30_000] for place in range(0, 120_000, 30_000)) == texts


def test_requirement_1_3_what_a_program_wrote_at_its_end_is_complete(start: Start) -> None:
    for _ in range(3):
        terminal = start(*shell("stty raw; head -c 1000000 /dev/zero"))

        assert terminal.wait_for_exit() == ExitStatus(code=0)

        assert terminal.get_output_bytes() == bytes(1_000_000)


def test_requirement_1_4_output_is_there_with_its_sequences_and_without_them(start: Start) -> None:
    terminal = start("/usr/bin/printf", r"\033]0;title\007\033[1;31mred\033[m and \033[4mplain\033[m")

    terminal.wait_for_exit()

    assert terminal.get_output() == "\x1b]0;title\a\x1b[1;31mred\x1b[m and \x1b[4mplain\x1b[m"
    assert terminal.get_stripped_output() == terminal.screen.text == "red and plain"
    assert terminal.screen.title == "title"
    assert terminal.screen.cells[0][0].style.bold


def test_a_program_that_does_not_read_is_written_to_as_long_as_there_is_room(start: Start) -> None:
    terminal = start(*RAW_SLEEP, timeout=0.2)
    terminal.wait_for(READY, 60)

    with pytest.raises(WaitTimeoutError, match=r"to read: [1-9]\d+ of 1000000 bytes went") as caught:
        terminal.write(b"x" * 1_000_000)
    assert caught.value.type is TerminalTestErrorType.TIMEOUT
    assert terminal.is_running

    with pytest.raises(WaitTimeoutError, match="to read: 0 of 5 bytes went"):
        terminal.write("later")


def test_a_program_that_ends_while_it_is_written_to_is_told(start: Start) -> None:
    terminal = start(*shell("stty raw; printf 'ready\\r\\n'; head -c 1 >/dev/null"))
    terminal.wait_for(READY)

    with raises(TerminalTestErrorType.PROCESS_EXITED, r"has ended \(exit code 0\) before all was written"):
        terminal.write(b"x" * 1_000_000)


def test_what_cannot_be_written_is_refused(start: Start) -> None:
    terminal = start(*CAT)

    wrongs: list[Any] = [3, None, "\ud800"]
    for wrong in wrongs:
        with raises(TerminalTestErrorType.INVALID_CONFIG):
            terminal.write(wrong)
    ways: list[Any] = [terminal.send_line, terminal.paste]
    for send in ways:
        with raises(TerminalTestErrorType.INVALID_CONFIG, "expected a string, got b'x'; `write` sends"):
            send(b"x")
    terminal.write("")
    assert terminal.recording.events == ()


def test_lines_are_cut_by_the_kernel_as_documented(start: Start, tmp_path: Path) -> None:
    terminal = start(*shell(f"stty -echo; echo ready; head -n 1 >{tmp_path}/line"))
    terminal.wait_for(READY)

    terminal.send_line("x" * 5000)

    assert terminal.wait_for_exit() == ExitStatus(code=0)
    assert (tmp_path / "line").read_text() == "x" * 4095 + "\n"


def test_a_flood_is_kept_within_bounds_and_does_not_hold_up_a_wait(start: Start) -> None:
    terminal = start("/usr/bin/yes", max_output=100_000)

    with pytest.raises(WaitTimeoutError) as caught:
        terminal.wait_for("no", 1)

    assert len(caught.value.args[0]) < 3_000
    assert terminal.dropped > 0
    assert len(terminal.get_output_bytes()) == 100_000
    assert len(terminal.get_stripped_output()) <= 100_000
    recorded = sum(len(event.data) for event in terminal.recording.events)
    assert recorded < 1_000_000


def test_backspace_erases_a_character_of_several_bytes(start: Start) -> None:
    terminal = start(*CAT)
    terminal.write("é漢")
    terminal.send_key("backspace")
    terminal.send_key("backspace")

    terminal.send_line("x")

    terminal.wait_for("\nx\n")
