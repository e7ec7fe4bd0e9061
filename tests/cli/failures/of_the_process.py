"""What becomes of the process: signals, streams that are closed or full, mistakes of the program, tools that kill."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from reenact.testing import wait_until
from tests.cli.failures.command_line import HELLO
from tests.cli.failures.of_agents import with_tools
from tests.cli.failures.of_the_api import SOME
from tests.cli.failures.rows import TRACEBACK, Call, Row, Said, Section, Stream, error
from tests.cli.failures.stage import PATIENCE, Running, Stage

FULL: Final = "standard output cannot be written: No space left on device"
LOST: Final = f"{FULL}; what was said so far is in the log"


def during_answer(number: signal.Signals) -> Callable[[Stage], Call]:
    """Return what asks, and sends the signal when the answer has begun."""

    def happens(stage: Stage) -> Call:
        stage.api.reply(deltas=["This much", " and no more"], stall_after=3)
        return Call(meanwhile=send)

    def send(running: Running) -> None:
        running.wait_for_answer(b"This much")
        running.signal(number)

    return happens


def during_tool(number: signal.Signals) -> Callable[[Stage], Call]:
    """Return what asks, and sends the signal while a tool runs."""

    def happens(stage: Stage) -> Call:
        call = with_tools("wait")(stage)
        return Call(arguments=call.arguments, meanwhile=send)

    def send(running: Running) -> None:
        wait_until((running.stage.directory / "waiting").exists, PATIENCE, "a tool that waits")
        running.signal(number)

    return happens


def before_anything(number: signal.Signals) -> Callable[[Stage], Call]:
    """Return what is to ask, and sends the signal while the tools are loaded."""

    def happens(stage: Stage) -> Call:
        slow = "import pathlib, time\npathlib.Path('loading').touch()\nwhile True:\n    time.sleep(0.05)\n"
        return Call(arguments=("-p", "Hello", "--tools", stage.file("slow.py", slow)), meanwhile=send)

    def send(running: Running) -> None:
        wait_until((running.stage.directory / "loading").exists, PATIENCE, "tools that are loaded")
        running.signal(number)

    return happens


def through(
    *, out: Stream = "kept", err: Stream = "kept", arguments: tuple[str, ...] = ("-p", "Hello")
) -> Callable[[Stage], Call]:
    """Return what asks with such streams."""
    return lambda stage: Call(arguments=arguments, out=out, err=err)


SIGNALS = Section(
    "Signals",
    (
        Row(
            what="Ctrl+C during the answer",
            happens=during_answer(signal.SIGINT),
            code=130,
            type="interrupted",
            says=error("interrupted"),
            out=SOME,
            asked=True,
        ),
        Row(
            what="Ctrl+C while a tool runs",
            happens=during_tool(signal.SIGINT),
            code=130,
            type="interrupted",
            says=error("interrupted"),
            asked=True,
        ),
        Row(
            what="Ctrl+C before anything is asked",
            happens=before_anything(signal.SIGINT),
            code=130,
            type="interrupted",
            says=error("interrupted"),
        ),
        Row(
            what="SIGTERM during the answer",
            happens=during_answer(signal.SIGTERM),
            code=143,
            type="terminated",
            says=error("terminated"),
            out="This much",
            begun=True,
        ),
        Row(
            what="SIGTERM before anything is asked",
            happens=before_anything(signal.SIGTERM),
            code=143,
            type="terminated",
            says=error("terminated"),
        ),
        Row(
            what="SIGHUP during the answer",
            happens=during_answer(signal.SIGHUP),
            code=143,
            type="terminated",
            says=error("terminated"),
            out="This much",
            begun=True,
        ),
        Row(
            what="SIGTERM while a tool runs",
            happens=during_tool(signal.SIGTERM),
            code=143,
            type="terminated",
            says=error("terminated"),
            begun=True,
        ),
    ),
)

STREAMS = Section(
    "Standard streams",
    (
        Row(
            what="nobody reads standard output any more",
            happens=through(out="unread"),
            code=141,
            told=False,
        ),
        Row(
            what="standard output is full",
            happens=through(out="full"),
            code=1,
            told=False,
            says=error(LOST),
        ),
        Row(
            what="standard output is full, for `--help`",
            happens=through(out="full", arguments=("--help",)),
            code=1,
            told=False,
            says=error(FULL),
        ),
        Row(what="standard output is closed from the beginning", happens=through(out="closed"), code=0, told=False),
        Row(
            what="standard error is closed",
            happens=through(err="closed"),
            code=0,
            out=HELLO,
            asked=True,
        ),
        Row(
            what="standard error is full",
            happens=lambda stage: Call(err="full", variables={"ANTHROPIC_API_KEY": ""}),
            code=0,
            out="Hello from mock!\n",
            asked=True,
        ),
        Row(
            what="standard input is closed, with `-p`",
            happens=lambda stage: Call(stdin=None),
            code=0,
            out=HELLO,
            asked=True,
        ),
    ),
)

PROGRAM = Section(
    "The program itself",
    (
        Row(
            what="a mistake in the program",
            happens=lambda stage: Call(before=("broken",)),
            code=1,
            type="internal_error",
            says=error("ZeroDivisionError: with …", TRACEBACK),
        ),
        Row(
            what="a mistake in the code that talks to the API",
            happens=lambda stage: Call(before=("astray",)),
            code=1,
            type="driver_error",
            says=(Said("warning", "the driver has failed", TRACEBACK), *error("ZeroDivisionError: no such luck")),
            asked=True,
        ),
        Row(
            what="a tool that kills the process: nothing is printed",
            happens=with_tools("die", apart=True),
            code=-signal.SIGKILL,
            told=False,
        ),
    ),
)
SECTIONS = (SIGNALS, STREAMS, PROGRAM)
