"""The asyncio twin: the same names, the same results, awaited."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from reenact import (
    AgentNotFoundError,
    AsyncActorSystem,
    AsyncRuntime,
    Image,
    InvalidMessageError,
    LogLockedError,
    Runtime,
    RuntimeClosedError,
    SessionNotFoundError,
)
from reenact.events import Envelope
from reenact.server import Server
from reenact.testing import wait_until
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import PATIENCE

T = TypeVar("T")


def run(story: Callable[[], Awaitable[T]]) -> T:
    """Run the story to its end, within the patience of a test."""

    async def bounded() -> T:
        return await asyncio.wait_for(story(), PATIENCE)

    return asyncio.run(bounded())


FACADES = frozenset({"containers", "images", "sessions", "agents", "turns", "events", "projections"})
SETTINGS = "takes its settings as keywords, and returns what is awaited or entered"
MADE_LATER = "returns at once what is awaited, entered or iterated over"
AT_ONCE = "waits for nothing"
INTERNAL = "is not for users"
SUBSCRIBING = {
    "events.on": AT_ONCE,
    "events.on_all": AT_ONCE,
    "events.stream": MADE_LATER,
    "events.subscribe": MADE_LATER,
}
DIFFERENCES: dict[str, dict[str, str]] = {
    "AsyncRuntime": {
        **dict.fromkeys(("open", "in_memory", "connect"), SETTINGS),
        **SUBSCRIBING,
        **dict.fromkeys(("events.register", "feed", "default_image", "asker", "projections.on_close"), INTERNAL),
        **dict.fromkeys(
            ("projections.open", "projections.open_beside"), "opens tables on a log that no runtime writes"
        ),
        "projections.close": "the runtime closes them",
        "projections.read": "is given a function, which is called with the connection on a thread",
    },
    "AsyncRemoteRuntime": {
        **SUBSCRIBING,
        "connect": "`AsyncRuntime.connect` returns it",
        **dict.fromkeys(("default_image", "asker"), INTERNAL),
        **{
            f"events.{name}": INTERNAL
            for name in ("begin", "follow", "follow_family", "follow_unnamed", "register", "settled")
        },
    },
    "AsyncActorSystem": {
        **dict.fromkeys(("open", "in_memory"), SETTINGS),
        **dict.fromkeys(("actor", "live", "on_dead_letter", "register", "start"), AT_ONCE),
        **dict.fromkeys(
            (
                "alarms",
                "append",
                "append_in_round",
                "append_with_next",
                "clock",
                "event_loop",
                "letters",
                "pool",
                "residents",
                "timetable",
            ),
            INTERNAL,
        ),
        **dict.fromkeys(("drop", "hand_off", "resident", "take_up"), INTERNAL),
    },
}
"""In what the asyncio twins differ, and why; all else is there by the same name, with the same parameters, awaited."""


def differences(plain: object, twin: object) -> set[str]:
    """Return the names of what the twin lacks, or has with other parameters, or does not have awaited."""
    found: set[str] = set()
    for name in (name for name in dir(plain) if not name.startswith("_")):
        ours: Any = getattr(plain, name)
        theirs: Any = getattr(twin, name, twin)
        if name in FACADES and theirs is not twin:
            found |= {f"{name}.{one}" for one in differences(ours, theirs)}
        elif theirs is twin or (callable(ours) and not _is_awaited(ours, theirs)):
            found.add(name)
    return found


def _is_awaited(ours: Callable[..., Any], theirs: Callable[..., Any]) -> bool:
    parameters, same = (list(inspect.signature(one).parameters.values()) for one in (ours, theirs))
    return parameters == same and inspect.iscoroutinefunction(theirs)


def test_the_twins_differ_in_nothing_but_what_is_listed() -> None:
    async def compare() -> dict[str, set[str]]:
        async with AsyncRuntime.in_memory() as local, AsyncActorSystem.in_memory() as system:
            with Server(local._runtime) as server:
                async with AsyncRuntime.connect(server.url) as remote:
                    pairs = ((local._runtime, local), (remote._remote, remote), (system._of, system))
                    return {type(twin).__name__: differences(plain, twin) for plain, twin in pairs}

    assert run(compare) == {name: set(listed) for name, listed in DIFFERENCES.items()}


def test_a_twin_can_be_asked_how_it_is(log: str, mock: GatedFactory) -> None:
    async def story() -> tuple[int, int]:
        async with AsyncRuntime.open(log, environment=mock) as runtime:
            await runtime.containers.create(container_id="c")
            await runtime.recover()
            await runtime.check_ready(PATIENCE)
            return runtime.position, runtime.lag

    assert run(story) == (1, 0)


def test_a_conversation_can_be_awaited(log: str, mock: GatedFactory) -> None:
    async def story() -> list[str]:
        completed = asyncio.Event()
        heard: list[tuple[str, threading.Thread]] = []

        async def hear(event: Envelope) -> None:
            await asyncio.sleep(0)
            heard.append((event.type, threading.current_thread()))
            if event.type == "turn_completed":
                completed.set()

        async with AsyncRuntime.open(log, environment=mock, synchronous="OFF") as runtime:
            container = await runtime.containers.create("workspace")
            image = await runtime.images.register(Image(id="chat"))
            session = await runtime.sessions.create(container.id, image.id)
            agent_id = await runtime.sessions.run(session.id)
            runtime.events.on_all(hear)
            turn_id = await runtime.agents.receive(agent_id, "Hello")
            await completed.wait()
            assert [agent.id for agent in await runtime.agents.list()] == [agent_id]
            assert [message.turn_id for message in await runtime.sessions.messages(session.id)] == [turn_id] * 2
            assert {thread for _, thread in heard} == {threading.current_thread()}
            return [type_ for type_, _ in heard]

    heard = run(story)

    assert (heard[0], heard[-1], heard.count("text_delta")) == ("user_message", "turn_completed", 3)


def test_many_can_be_awaited_at_once(mock: GatedFactory) -> None:
    async def story() -> None:
        async with AsyncRuntime.in_memory(environment=mock) as runtime:
            await runtime.containers.create(container_id="c")
            await runtime.images.register(Image(id="i"))
            await runtime.sessions.create("c", "i", session_id="s")
            agents = await asyncio.gather(*[runtime.sessions.run("s") for _ in range(50)])
            assert len(set(agents)) == 1
            turns = await asyncio.gather(*[runtime.agents.receive(agents[0], f"{n}") for n in range(50)])
            assert len(set(turns)) == 50

    run(story)


def test_the_loop_goes_on_while_a_call_waits(mock: GatedFactory) -> None:
    async def story() -> None:
        async with AsyncRuntime.in_memory(environment=mock) as runtime:
            calls = asyncio.gather(*[runtime.containers.create() for _ in range(20)])
            ticks = 0
            while not calls.done():
                ticks += 1
                await asyncio.sleep(0)
            assert ticks > 1
            assert len(await calls) == 20

    run(story)


def test_errors_are_the_same(log: str, mock: GatedFactory) -> None:
    async def story() -> None:
        async with AsyncRuntime.open(log, environment=mock, synchronous="OFF") as runtime:
            with pytest.raises(SessionNotFoundError):
                await runtime.sessions.run("nobody")
            with pytest.raises(InvalidMessageError):
                await runtime.agents.receive("nobody", "")
            nobody: Any = None
            with pytest.raises(AgentNotFoundError):
                await runtime.agents.receive(nobody, "Hello")
            assert await runtime.sessions.get("nobody") is None
            assert await runtime.sessions.delete("nobody") is False
            response = await runtime.request("container_list_request", {})
            assert response.data.result == []

    run(story)


@pytest.mark.sqlite_only("in PostgreSQL a log has as many nodes as one likes")
def test_a_second_writer_is_refused(log: str, mock: GatedFactory) -> None:
    async def story() -> None:
        async with AsyncRuntime.open(log, environment=mock, synchronous="OFF"):
            with pytest.raises(LogLockedError):
                await AsyncRuntime.open(log, environment=mock)

    run(story)


def test_closing_is_idempotent_and_ends_what_runs(mock: GatedFactory, log: str) -> None:
    mock.set_scenario("held")

    async def story() -> str:
        spoken = asyncio.Event()

        def hear(event: Envelope) -> None:
            spoken.set()

        runtime = await AsyncRuntime.open(log, environment=mock, synchronous="OFF")
        await runtime.containers.create(container_id="c")
        await runtime.images.register(Image(id="i"))
        await runtime.sessions.create("c", "i", session_id="s")
        agent_id = await runtime.sessions.run("s")
        runtime.events.on("text_delta", hear)
        turn_id = await runtime.agents.receive(agent_id, "Hello")
        await spoken.wait()
        await runtime.close()
        await runtime.close()
        with pytest.raises(RuntimeClosedError):
            await runtime.containers.list()
        return turn_id

    turn_id = run(story)

    with Runtime.open(log, environment=mock, synchronous="OFF") as runtime:
        _, answer = runtime.sessions.messages("s")
        assert (answer.turn_id, answer.text, answer.partial) == (turn_id, "Once", True)


def test_a_handler_that_raises_harms_nobody(mock: GatedFactory, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        heard = asyncio.Event()

        async def broken(event: Envelope) -> None:
            message = "boom"
            raise ValueError(message)

        def hear(event: Envelope) -> None:
            heard.set()

        async with (
            AsyncRuntime.in_memory(environment=mock) as runtime,
            runtime.events.on("container_created", broken),
            runtime.events.on("container_created", hear),
        ):
            await runtime.containers.create()
            await heard.wait()

    run(story)

    assert [record.name for record in caplog.records if "boom" in str(record.exc_info)] == ["reenact.events"]


def test_a_cancelled_call_takes_effect_or_not_and_harms_nobody(mock: GatedFactory) -> None:
    async def story() -> Any:  # noqa: ANN401 - containers
        async with AsyncRuntime.in_memory(environment=mock) as runtime:
            call = asyncio.ensure_future(runtime.containers.create(container_id="c"))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await runtime.containers.create(container_id="d")
            return [container.id for container in await runtime.containers.list()]

    assert sorted(run(story)) in (["c", "d"], ["d"])


def test_a_runtime_whose_opening_was_cancelled_is_closed_again(log: str) -> None:
    entered, gate = threading.Event(), threading.Event()

    def clock() -> int:
        entered.set()
        gate.wait(PATIENCE)
        return 7

    async def cancel() -> None:
        opening = asyncio.ensure_future(_opened(log, clock))
        await asyncio.to_thread(entered.wait, PATIENCE)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.set()

    asyncio.run(cancel())
    for thread in threading.enumerate():
        if thread.name.startswith("reenact-async"):
            thread.join(PATIENCE)

    Runtime.open(log).close()


async def _opened(log: str, clock: Callable[[], int]) -> AsyncRuntime:
    return await AsyncRuntime.open(log, clock=clock, default_image=Image(id="i"))


def test_a_subscription_can_be_awaited_entered_or_iterated_over_at_once() -> None:
    async def follow() -> list[list[str]]:
        async with AsyncRuntime.in_memory() as runtime:
            await runtime.containers.create(container_id="c")
            await runtime.images.register(Image(id="i"))
            await runtime.sessions.create("c", "i", session_id="s")
            await runtime.sessions.delete("s")
            awaited = await runtime.events.subscribe("s", "me")
            async with awaited, runtime.events.stream("s") as entered:
                return [
                    [event.type async for event in awaited],
                    [event.type async for event in entered],
                    [event.type async for event in runtime.events.stream("s", after=1)],
                ]

    told = ["session_created", "session_deleted"]
    assert asyncio.run(follow()) == [told, told, told[1:]]


def test_a_handler_whose_loop_is_closed_before_it_runs_holds_nobody_up() -> None:
    async def handler(event: Envelope) -> None:
        raise AssertionError

    async def begin() -> AsyncRuntime:
        runtime = await AsyncRuntime.in_memory()
        runtime.events.on("container_created", handler)
        return runtime

    loop = asyncio.new_event_loop()
    runtime = loop.run_until_complete(begin())
    runtime._runtime.containers.create(container_id="c")
    wait_until(lambda: bool(vars(loop)["_ready"]))
    loop.close()

    asyncio.run(runtime.close())

    assert not [thread for thread in threading.enumerate() if thread.name == "reenact-subscribers"]


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_coroutine_that_handles_an_event_may_close_the_runtime(
    caplog: pytest.LogCaptureFixture, *, is_remote: bool
) -> None:
    async def story() -> bool:
        closed = asyncio.Event()
        with Runtime.in_memory() as local, Server(local) as server:
            runtime = await (AsyncRuntime.connect(server.url) if is_remote else AsyncRuntime.in_memory())

            async def close(_: Envelope) -> None:
                await runtime.close()
                closed.set()

            await runtime.events.on("container_created", close)
            with contextlib.suppress(RuntimeClosedError):  # the event may be heard before the answer
                await runtime.containers.create()
            await closed.wait()
        return "is abandoned" not in caplog.text

    assert run(story)


def test_a_coroutine_that_ends_another_handler_lets_it_hear_the_event_that_is_handled(mock: GatedFactory) -> None:
    async def story() -> bool:
        heard: list[str | None] = []
        ends: list[Callable[[], None]] = []
        twice = asyncio.Event()

        async def end(_: Envelope) -> None:
            await asyncio.sleep(0)
            ends[0]()

        async with AsyncRuntime.in_memory(environment=mock) as runtime:
            runtime.events.on("turn_completed", end)
            ends.append(runtime.events.on("turn_completed", lambda event: heard.append(event.context.turn_id)))
            first = await runtime.ask("One")
            second = await runtime.ask("Two", session=first.session_id)
            runtime.events.on("container_created", lambda _: twice.set())
            await runtime.containers.create()
            await twice.wait()
        assert second.turn_id != first.turn_id
        return heard == [first.turn_id]

    assert run(story)
