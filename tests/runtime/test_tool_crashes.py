"""What goes wrong around a running tool: the disk, the log, handlers, the model; and results that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reenact import Runtime, StorageError, ToolResultBlock
from reenact.actors.journal.api import Append, Done
from reenact.domain.loop.events import ToolResult
from reenact.testing import wait_until
from tests.runtime.conftest import Open
from tests.runtime.test_storage import limit, limit_off
from tests.runtime.witness import PATIENCE, Ears, check
from tests.runtime.world import World, check_runs, settle

STOP = ("message_stop", {"stop_reason": "tool_use"})
END = ("message_stop", {"stop_reason": "end_turn"})
HELLO = ("text_delta", {"text": "Done."})


def call(name: str, n: int = 1) -> tuple[str, dict[str, Any]]:
    return ("tool_call", {"id": f"{name}_{n}", "name": name, "input": {"n": n}})


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.release()


@pytest.fixture
def runtime(opened: Open, world: World) -> Runtime:
    runtime = opened(environment=world)
    world.serve(runtime)
    runtime.containers.create(container_id="c")
    runtime.images.register(world.image())
    return runtime


def started(runtime: Runtime, world: World, *calls: tuple[str, dict[str, Any]], session_id: str = "s") -> str:
    """Have a session's agent run the calls; return the agent."""
    runtime.sessions.create("c", "i", session_id=session_id)
    agent = runtime.sessions.run(session_id)
    runtime.agents.receive(agent, "Please")
    settle(runtime, world)
    world.questions[session_id].say(*calls, STOP)
    settle(runtime, world)
    return agent


def results(runtime: Runtime, session_id: str = "s") -> list[ToolResultBlock]:
    blocks = [block for one in runtime.sessions.messages(session_id) for block in one.content]
    return [block for block in blocks if isinstance(block, ToolResultBlock)]


@pytest.mark.sqlite_only("pages of the file")
def test_a_result_that_finds_no_space_is_answered_as_unknown_once_there_is_some(runtime: Runtime, world: World) -> None:
    ears = Ears(runtime)
    agent = started(runtime, world, call("grind"))

    limit(runtime, 0)
    world.finish(world.running[0], "x" * 50_000)
    wait_until(lambda: runtime.failure, PATIENCE, "the log to be full")
    limit_off(runtime)

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "failed"
    (result,) = results(runtime)
    assert result.is_error
    assert "not known whether it took effect" in str(result.content)
    assert runtime.agents.get(agent) is not None
    settle(runtime, world)
    check(runtime)
    check_runs(runtime, world)


def test_a_result_that_the_log_refuses_once_ends_its_turn_and_the_agent_goes_on(
    runtime: Runtime, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ears = Ears(runtime)
    agent = started(runtime, world, call("grind", 1), call("grind", 2))
    append, refused = runtime._system.append, threading.Event()

    def refuse_once(step: Append, done: Done) -> None:
        if any(isinstance(event, ToolResult) for event in step.events) and not refused.is_set():
            refused.set()
            done(StorageError("refused, once"))
        else:
            append(step, done)

    monkeypatch.setattr(runtime._system, "append", refuse_once)
    world.finish(world.running[0], "fine")

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "failed"
    assert [result.is_error for result in results(runtime)] == [True, True]
    turn = runtime.agents.receive(agent, "And now?")
    wait_until(lambda: world.questions.get("s"), PATIENCE, "the next question")
    world.questions["s"].say(HELLO, END)
    (next_,) = ears.wait("turn_completed", turn_id=turn)
    assert next_.data["outcome"] == "completed"
    world.release()
    check(runtime)
    check_runs(runtime, world)


def test_a_handler_that_raises_at_every_event_of_tools_harms_nothing(runtime: Runtime, world: World) -> None:
    ears = Ears(runtime)

    def raises(_: object) -> None:
        raise OSError("no")

    for type_ in ("tool_started", "tool_result", "tool_result_message", "step_started"):
        runtime.events.on(type_, raises)
    started(runtime, world, call("fetch"))
    world.finish(world.running[0], "fine")
    settle(runtime, world)
    world.questions["s"].say(HELLO, END)

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "completed"
    check(runtime)


def test_a_model_that_fails_on_the_results_fails_the_turn_and_keeps_them(runtime: Runtime, world: World) -> None:
    ears = Ears(runtime)
    started(runtime, world, call("fetch"))
    world.finish(world.running[0], "fine")
    settle(runtime, world)

    world.questions["s"].say(error=RuntimeError("the line broke"))

    (completed,) = ears.wait("turn_completed")
    assert completed.data["outcome"] == "failed"
    assert [(result.content, result.is_error) for result in results(runtime)] == [("fine", False)]
    settle(runtime, world)
    check(runtime)


@pytest.mark.parametrize("how", ["destroyed", "deleted", "closed"])
def test_a_result_that_comes_after_its_agent_has_ended_is_not_heard(
    how: str, opened: Open, runtime: Runtime, world: World
) -> None:
    agent = started(runtime, world, call("grind"))
    late = world.running[0]

    match how:
        case "destroyed":
            runtime.agents.destroy(agent)
        case "deleted":
            runtime.sessions.delete("s")
        case _:
            runtime.close()
            runtime = opened(environment=world)
    world.finish(late, "too late")

    if how != "deleted":
        (result,) = results(runtime)
        assert "not known whether it took effect" in str(result.content)
    check(runtime)
    check_runs(runtime, world)


def test_fifty_calls_of_one_answer_all_run_and_are_answered_in_their_order(runtime: Runtime, world: World) -> None:
    started(runtime, world, *(call("fetch", n) for n in range(50)))

    assert len(world.running) == 50
    for running in reversed(list(world.running)):
        world.finish(running, running.ran.n)
    settle(runtime, world)

    assert [result.content for result in results(runtime)] == [str(n) for n in range(50)]
    check(runtime)


def test_a_large_result_is_kept_and_told(runtime: Runtime, world: World) -> None:
    started(runtime, world, call("fetch"))

    world.finish(world.running[0], "x" * 1_000_000)
    settle(runtime, world)

    (result,) = results(runtime)
    assert not result.is_error
    assert str(result.content).startswith("xxxx")
    check(runtime)


def test_a_hundred_sessions_run_tools_at_once_and_their_threads_end(runtime: Runtime, world: World) -> None:
    before = set(threading.enumerate())
    for number in range(100):
        started(runtime, world, call("grind"), session_id=f"s{number}")
    assert len(world.running) == 100

    for running in list(world.running):
        world.finish(running, "fine")

    settle(runtime, world)
    assert len(world.questions) == 100
    tools = "reenact-tool"
    wait_until(
        lambda: not [one for one in threading.enumerate() if one.name.startswith(tools)], PATIENCE, "threads to end"
    )
    assert len(set(threading.enumerate()) - before) <= 10
    check(runtime)
