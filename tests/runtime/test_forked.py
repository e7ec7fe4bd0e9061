"""What one process has opened, in another that was forked from it, or that it is sent to: each use says so."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
from pathlib import Path

import pytest

from reenact import ActorSystem, AsyncRuntime, Runtime
from tests.started.programs import Programs

LIMIT = 60.0
GIVEN = """
import asyncio, os, sys
from reenact import ActorSystem, AsyncRuntime, Runtime, RuntimeClosedError
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory

mock = MockEnvironmentFactory(delays=False)

def in_child(*calls):
    if os.fork() == 0:
        for call in calls:
            try:
                call()
            except RuntimeClosedError as error:
                print(error, flush=True)
            except BaseException as error:
                print(repr(error), flush=True)
        os._exit(0)
    os.wait()
"""
PROGRAMS = {
    "a runtime": (
        """
with Runtime.open("log.db", environment=mock) as runtime:
    answer = runtime.ask("Hello")
    session = answer.session_id
    in_child(
        lambda: runtime.ask("Hello", session=session),
        lambda: runtime.sessions.messages(session),
        lambda: runtime.events.stream(session),
        lambda: runtime.turns.wait(answer.turn_id),
    )
    print(runtime.ask("Still there?", session=session).text)
""",
        "runtime",
        4,
    ),
    "an asyncio runtime": (
        """
async def main():
    async with AsyncRuntime.open("log.db", environment=mock) as runtime:
        session = (await runtime.ask("Hello")).session_id
        in_child(lambda: finish(runtime.sessions.list()), lambda: finish(runtime.ask("Hello", session=session)))
        print((await runtime.ask("Still there?", session=session)).text)

def finish(call):
    try:
        call.send(None)
    except StopIteration:
        pass

asyncio.run(main())
""",
        "runtime",
        2,
    ),
    "a connection": (
        """
with Runtime.open("log.db", environment=mock) as runtime, Server(runtime) as server:
    with Runtime.connect(server.url) as remote:
        remote.ask("Hello")
        in_child(lambda: remote.sessions.list())
        print(remote.ask("Still there?").text)
""",
        "connection",
        1,
    ),
}
"""Programs that call what they have open in a forked child, then in the parent; what is open, and how many calls."""


@pytest.mark.parametrize(("program", "what", "calls"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_was_opened_before_a_fork_refuses_calls_in_the_child_and_works_in_the_parent(
    programs: Programs, tmp_path: Path, program: str, what: str, calls: int
) -> None:
    (tmp_path / "program.py").write_text(GIVEN + program)

    ran = programs.run(tmp_path / "program.py", {"PATH": os.environ["PATH"]}, tmp_path, LIMIT)

    refusal = (
        f"the {what} works only in the process that opened it, and this one was forked from that: open one here, after "
        "the fork"
    )
    assert ran.stdout.splitlines() == [*[refusal] * calls, "Hello from mock!"]
    assert ran.returncode == 0


def refuse_to_leave_the_process(opened: object) -> None:
    refusal = f"{type(opened).__name__} cannot be copied or pickled, since it belongs to the process that opened it"
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=refusal):
            leave(opened)


def test_what_is_open_cannot_be_sent_to_another_process() -> None:
    async def send() -> None:
        async with AsyncRuntime.in_memory() as runtime:
            refuse_to_leave_the_process(runtime)

    with Runtime.in_memory() as runtime, ActorSystem.in_memory() as system:
        refuse_to_leave_the_process(runtime)
        refuse_to_leave_the_process(system)
    asyncio.run(send())
