"""Standard streams: the result is alone on one, log lines in builds on the other, and nobody waits in vain."""

from __future__ import annotations

import os
import select
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact.cli.output.streams import pieces, read_by_line
from reenact.testing import FakeMessagesAPI, wait_until
from tests.cli.conftest import PATIENCE, Json, Outcome
from tests.cli.requirements.strictly import lines_of_json
from tests.started.programs import Programs, Started

NOISE = '''\
import logging, os, subprocess, sys, threading, warnings
from reenact import tool

print("printed while it is loaded")

@tool
def noise() -> str:
    """Make noise."""
    print("printed")
    print("printed as an error", file=sys.stderr)
    sys.__stdout__.write("past everybody\\n")
    os.write(1, b"to the descriptor\\n")
    subprocess.run(["sh", "-c", "echo of a child; echo of a child, as an error >&2"], check=True)
    warnings.warn("warned\\n{}", stacklevel=1)
    logging.getLogger("library").warning("logged %s %s", 1)
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    return "done"
'''
SAID = ("printed while it is loaded", "printed", "past everybody", "to the descriptor", "of a child")
CALL: Json = {"type": "tool_use", "id": "call_1", "name": "noise", "input": {}}
Noisy: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def noisy(programs: Programs, claude: FakeMessagesAPI, environ: Mapping[str, str], tmp_path: Path) -> Noisy:
    """Return what lets a tool make noise."""
    (tmp_path / "noisy.py").write_text(NOISE)

    def noisy(*arguments: str, **variables: str) -> Outcome:
        claude.reply(text=None, content=[CALL], stop_reason="tool_use")
        claude.reply(text="Done")
        words = ("-p", "Go", "--tools", "noisy.py", *arguments)
        done = programs.command(words, {**environ, **variables}, tmp_path, PATIENCE)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return noisy


def test_standard_output_has_the_result_alone_whatever_tools_and_their_children_print(noisy: Noisy) -> None:
    done = noisy()

    assert (done.code, done.out) == (0, "Done\n")
    assert all(f"{said}\n" in done.err for said in SAID)


def test_in_a_build_all_that_is_printed_is_json_lines(noisy: Noisy) -> None:
    done = noisy("--output-format", "json", CI="true")

    entries: list[Json] = lines_of_json(done.err)
    overheard = [entry["message"] for entry in entries if entry["logger"] == "reenact.tools"]
    assert (done.code, done.result["result"]) == (0, "Done")
    assert {*SAID, "printed as an error", "of a child, as an error"} <= {*overheard}
    assert any("ZeroDivisionError" in message for message in overheard)
    assert any("logged %s %s" in entry["message"] for entry in entries if entry["logger"] == "library")
    assert any("warned\n{}" in entry["message"] for entry in entries if entry["logger"] == "py.warnings")


@pytest.fixture
def blocked(
    programs: Programs, claude: FakeMessagesAPI, environ: Mapping[str, str], tmp_path: Path
) -> Iterator[Callable[..., Started]]:
    """Return what asks for more than a pipe takes, which nobody reads, and returns when it is full."""
    with ExitStack() as streams:

        def blocked(*arguments: str) -> Started:
            claude.reply(text=None, deltas=["y" * 100_000] * 2)
            reading, writing = os.pipe()
            streams.callback(os.close, reading)
            streams.callback(os.close, writing)
            err = streams.enter_context(tempfile.TemporaryFile()).fileno()
            program = programs.start(("-p", "Go", *arguments), environ, tmp_path, (None, writing, err))
            streams.callback(program.terminate)
            wait_until(lambda: not select.select([], [writing], [], 0)[1], PATIENCE, "a pipe that is full")
            return program

        yield blocked


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_time_for_an_answer_is_over_also_while_nobody_reads_it(blocked: Callable[..., Started], form: str) -> None:
    program = blocked("--timeout", "1", "--output-format", form)

    assert program.wait(PATIENCE) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_obeyed_while_nobody_reads_the_answer(
    blocked: Callable[..., Started], number: signal.Signals
) -> None:
    program = blocked()

    os.kill(program.pid, number)

    assert program.wait(PATIENCE) == 143


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("log", "--help"), ("completion", "bash")], ids=" ".join
)
def test_whatever_is_printed_a_pipe_that_nobody_reads_is_told_of_by_the_exit_code(
    programs: Programs, environ: Mapping[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with tempfile.TemporaryFile() as err, closing(os.fdopen(writing, "wb")):
        program = programs.start(words, environ, tmp_path, (None, writing, err.fileno()))

        code = program.wait(PATIENCE)
        said = os.pread(err.fileno(), 1000, 0)

    assert (code, said) == (141, b"")


def test_what_is_overheard_is_told_line_by_line_and_who_lives_on_holds_nobody_up() -> None:
    told: list[str] = []

    with read_by_line(told.append) as descriptor:
        survivor = os.dup(descriptor)
        os.write(descriptor, b"one\r\ntw" + b"o\n\n" + b"x" * 20_000 + b"\n\xff last")

    with closing(os.fdopen(survivor, "wb", buffering=0)) as stream, pytest.raises(BrokenPipeError):
        stream.write(b"nobody hears this\n")
    assert told[:2] == ["one", "two"]
    assert [len(line) for line in told[2:5]] == [8192, 8192, 20_000 - 2 * 8192]
    assert told[5:] == ["� last"]


def test_pieces_are_the_text() -> None:
    text = "äöü" * 1000

    assert "".join(pieces(text)) == text
    assert max(map(len, pieces(text))) <= 1024
    assert [*pieces("")] == [""]
