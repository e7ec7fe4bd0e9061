"""A program that forgets to close ends by itself: what it has left open is closed when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reenact import ActorSystem, Runtime
from tests.started.programs import Programs

LIMIT = 60.0
"""Seconds for a program on a busy machine; one that hangs would take for ever."""

GIVEN = '''
import asyncio, multiprocessing, os, sys, threading
import pykka
from reenact import ActorSystem, AsyncRuntime, Event, EventSourcedActor, Image, PooledActor, Runtime, tool
from reenact.actors.kernel import at_exit
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, MockEvent

at_exit.PATIENCE = 60.0
never = threading.Event()


class Added(Event, frozen=True):
    by: int


def decide(total, command):
    if callable(command):
        command()
        return []
    return [Added(command)]


class Sum(EventSourcedActor):
    category, initial, events = "sum", 0, {"added": Added}
    decide = staticmethod(decide)
    evolve = staticmethod(lambda total, event: total + event.by)
    def reply(self, command, events):
        return self.state


class Plain(PooledActor):
    def on_receive(self, message):
        return message


class Threaded(pykka.ThreadingActor):
    def on_receive(self, message):
        return message()
    def on_stop(self):
        print("stopped", flush=True)


def story(conversation):
    if conversation[-1].text == "use the tool":
        yield MockEvent("tool_call", data={"id": "c1", "name": "block", "input": {}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
        return
    yield MockEvent("text_delta", data={"text": "Once"})
    yield MockEvent("text_delta", data={"text": " more"}, delay=3_600_000)


@tool
def block() -> str:
    """Block."""
    print("blocking", flush=True)
    blocking.set()
    never.wait()


blocking = threading.Event()
mock = MockEnvironmentFactory()
mock.define_scenario("story", story)
mock.set_scenario("story")


def furnish(runtime):
    runtime.containers.create(container_id="home")
    runtime.images.register(Image(id="chat", tools=[block]) if isinstance(runtime, Runtime) else Image(id="chat"))
    runtime.sessions.create("home", "chat", session_id="s")


def begin(runtime, text="Hello"):
    furnish(runtime)
    said = threading.Event()
    with runtime.events.on("text_delta", lambda event: said.set()):
        agent = runtime.sessions.run("s")
        runtime.agents.receive(agent, text)
        runtime.agents.receive(agent, "And then?")
        said.wait()
'''

BEGUN = 'runtime = Runtime.open("log.db", environment=mock)\nbegin(runtime)\n'
SUM = 'system = ActorSystem.open("log.db")\nassert system.actor(Sum, "a").ask(3) == 3\n'

RUNTIMES = {
    "it raises": (BEGUN + "1 / 0", 1),
    "it exits": (BEGUN + "sys.exit(3)", 3),
    "it comes to its end": (BEGUN, 0),
    "a thread exits": (BEGUN + "threading.Thread(target=sys.exit).start()", 0),
    "it awaits": (
        """
async def main():
    runtime = await AsyncRuntime.open("log.db", environment=mock)
    runtime.events.on("text_delta", lambda event: None)
    await asyncio.to_thread(begin, runtime._runtime)
    1 / 0
asyncio.run(main())
""",
        1,
    ),
    "it serves, and is its own client": (
        """
server = Server(Runtime.open("log.db", environment=mock)).start()
remote = Runtime.connect(server.url)
begin(remote)
1 / 0
""",
        1,
    ),
    "it has a thread that follows": (
        BEGUN
        + """
following = runtime.events.stream("s")
while following.next(0) is not None:  # what is only in the log cannot be read when that is closed
    pass
threading.Thread(target=lambda: list(following), daemon=True).start()
1 / 0
""",
        1,
    ),
    "it has forked": (
        BEGUN
        + """
child = os.fork()
if child == 0:
    runtime.close()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
begun = multiprocessing.get_context("fork").Process(target=lambda: None)
begun.start()
begun.join()
assert runtime.sessions.get("s") is not None and runtime.failure is None
1 / 0
""",
        1,
    ),
    "no thread can be started any more": (
        """
import atexit, _thread
def start(*given, **named):
    raise RuntimeError("can't create new thread at interpreter shutdown")
def forbid():
    threading._start_new_thread = _thread.start_new_thread = start
"""
        + BEGUN
        + "atexit.register(forbid)\n1 / 0",
        1,
    ),
}
"""Programs that have begun a turn in `log.db`, by how they end, and with which exit code."""

SYSTEMS = {
    "an actor that is idle": (SUM, "was closed", 1),
    "messages that wait": (SUM + "for _ in range(500): system.actor(Sum, 'b').tell(1)", "was closed", 501),
    "actors without a log": (
        SUM + "system.start(Plain)\nsystem.start(Threaded).ask(lambda: None)",
        "was closed",
        1,
    ),
    "threads that wait for a reply": (
        SUM
        + """
opened = threading.Event()
for number in range(8):
    threading.Thread(target=lambda: system.actor(Sum, str(number)).ask(opened.wait)).start()
threading.Thread(target=lambda: system.actor(Sum, "z").ask(never.wait), daemon=True).start()
opened.set()
at_exit.PATIENCE = 0.1
""",
        "left running: Sum 'z', thread ",
        1,
    ),
    "an actor that never returns": (
        SUM + "at_exit.PATIENCE = 0.1\nsystem.actor(Sum, 'b').tell(never.wait)",
        "could not be closed within 0.1 seconds; left running: Sum 'b', thread ",
        1,
    ),
    "a thread that never returns": (
        SUM + "at_exit.PATIENCE = 0.1\nsystem.start(Threaded).tell(never.wait)",
        "left running: Threaded, thread ",
        1,
    ),
}
"""What a program leaves behind in a system on `log.db` when it raises, what it says of that, how much is recorded."""


def ended(programs: Programs, program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "program.py").write_text(GIVEN + program)
    environ = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    return programs.run(directory / "program.py", environ, directory, LIMIT)


@pytest.mark.parametrize(("program", "code"), RUNTIMES.values(), ids=RUNTIMES)
def test_a_runtime_that_was_left_open_is_closed_at_exit(
    programs: Programs, tmp_path: Path, program: str, code: int
) -> None:
    ran = ended(programs, program, tmp_path)

    assert ran.returncode == code
    assert ("ZeroDivisionError" in ran.stderr) == (code == 1)
    assert ran.stderr.count("the runtime on log.db was left open, and was closed at exit\n") == 1
    assert "Exception ignored" not in ran.stderr
    assert ran.stderr.count("Traceback") == (code == 1)
    with Runtime.open(tmp_path / "log.db", synchronous="OFF") as runtime:
        ends = [event.data for event in runtime.events.stream("s").take() if event.type == "interrupted"]
        assert [end.reason for end in ends] == ["shutdown"]
        assert [message.text for message in runtime.sessions.messages("s")] == ["Hello", "Once", "And then?"]


def test_a_tool_that_blocks_is_left_behind(programs: Programs, tmp_path: Path) -> None:
    program = """
runtime = Runtime.open("log.db", environment=mock)
furnish(runtime)
runtime.agents.receive(runtime.sessions.run("s"), "use the tool")
blocking.wait()
1 / 0
"""
    ran = ended(programs, program, tmp_path)

    assert (ran.returncode, ran.stdout) == (1, "blocking\n")
    assert ran.stderr.endswith("was closed at exit; left running: thread reenact-tool-block\n")
    with Runtime.open(tmp_path / "log.db", synchronous="OFF") as runtime:
        (call,) = runtime.sessions.tool_calls("s")
        assert call.is_error


def test_an_interpreter_ends_with_its_input(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text(GIVEN)

    ran = subprocess.run(
        [sys.executable, "-i"],
        input=f"from given import *\n{SUM}",
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert ran.returncode == 0
    assert "the actor system on log.db was left open, and was closed at exit\n" in ran.stderr


@pytest.mark.parametrize(("program", "outcome", "recorded"), SYSTEMS.values(), ids=SYSTEMS)
def test_a_system_that_was_left_open_is_closed_at_exit(
    programs: Programs, tmp_path: Path, program: str, outcome: str, recorded: int
) -> None:
    ran = ended(programs, program + "\n1 / 0", tmp_path)

    assert ran.returncode == 1
    assert "ZeroDivisionError" in ran.stderr
    (said,) = [line for line in ran.stderr.splitlines() if line.startswith("the actor system on log.db ")]
    assert outcome in said
    with ActorSystem.open(tmp_path / "log.db", synchronous="OFF") as system:
        assert system.journal.head() == recorded
