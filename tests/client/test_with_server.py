"""A client and a real server: what one client does the others hear, and servers may come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact import (
    AsyncRuntime,
    ConfigurationError,
    Image,
    MCPServer,
    Runtime,
    SessionNotFoundError,
    UnknownEventTypeError,
    tool,
)
from reenact._remote import AsyncRemoteRuntime
from reenact.client import subscription as module
from reenact.client.dialing import Reconnect
from reenact.client.runtime import RemoteRuntime
from reenact.domain.errors import AuthenticationError, ProtocolError, RequestReusedError, ServerUnreachableError
from reenact.domain.stream.events import Envelope
from reenact.server import Limits, Server
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.client.conftest import TOKEN, Connect

Ask: TypeAlias = Callable[[str], None]


def finish_turn(runtime: RemoteRuntime | Runtime, session_id: str, text: str) -> None:
    """Ask something, and return when it is answered."""
    done = threading.Event()

    def end(event: Envelope) -> None:
        if event.context.session_id == session_id:
            done.set()

    with runtime.events.on("turn_completed", end):
        runtime.agents.receive(runtime.sessions.run(session_id), text)
        assert done.wait(60)


def test_what_local_and_remote_subscribers_are_told_is_the_same(
    local: Runtime, remote: RemoteRuntime, mock: MockEnvironmentFactory
) -> None:
    mock.set_scenario("with-tool-use")
    finish_turn(remote, "s", "Hello 😀")
    ours = local.events.stream("s").take(10_000)

    theirs = remote.events.stream("s")

    told = [theirs.next(60) for _ in ours]
    assert told == ours
    assert [repr(event) for event in told] == [repr(event) for event in ours]
    assert [event.cursor for event in ours] == list(range(1, len(ours) + 1))


def test_local_and_remote_handlers_hear_the_same_but_for_requests(local: Runtime, remote: RemoteRuntime) -> None:
    ours: list[Envelope] = []
    theirs: list[Envelope] = []

    with local.events.on_all(ours.append), remote.events.on_all(theirs.append):
        remote.containers.create("another")
        finish_turn(remote, "s", "Hello")
        wait_until(lambda: all("turn_completed" in [event.type for event in heard] for heard in (ours, theirs)))

    passing = {"container_created"}
    heard = [event for event in ours if event.category != "command"]
    assert [event.data for event in theirs] == [event.data for event in heard]
    assert [event for event in theirs if event.type not in passing] == [
        event for event in heard if event.type not in passing
    ]


def test_a_long_answer_is_heard_whole_before_its_end(remote: RemoteRuntime, mock: MockEnvironmentFactory) -> None:
    mock.set_scenario("long-stream")
    deltas: list[str] = []
    done = threading.Event()
    at_the_end: list[int] = []

    def end(_: Envelope) -> None:
        at_the_end.append(len(deltas))
        done.set()

    with (
        remote.events.on("turn_completed", end),
        remote.events.on("text_delta", lambda event: deltas.append(event.data.text)),
    ):
        remote.agents.receive(remote.sessions.run("s"), "Hello")
        assert done.wait(60)

    assert at_the_end == [100]
    assert deltas == [f"chunk-{number} " for number in range(100)]


def test_acknowledgements_are_kept_for_the_next_client(server: Server, connect: Connect, local: Runtime) -> None:
    first = connect(server.url, token=TOKEN, client_id="ann")
    finish_turn(first, "s", "Hello")
    with first.events.subscribe("s") as subscription:
        for envelope in subscription:
            if envelope.cursor == 5:
                break
    first.close()

    second = connect(server.url, token=TOKEN, client_id="ann").events.subscribe("s")
    first_again = second.next(60)
    assert first_again is not None
    assert first_again.cursor == 5
    second.ack()
    other = connect(server.url, token=TOKEN, client_id="bob").events.subscribe("s")

    assert local.events.subscribe("s", "ann").cursor == 5
    assert other.cursor == 0


def leave(runtime: RemoteRuntime | Runtime, client_id: str) -> None:
    """Follow the session `s`, and leave with the fifth event in hand."""
    with runtime.events.subscribe("s", client_id, auto_ack=True) as subscription:
        for envelope in subscription:
            if envelope.cursor == 5:
                break


async def leave_block(runtime: AsyncRuntime | AsyncRemoteRuntime, client_id: str) -> None:
    async with runtime.events.subscribe("s", client_id, auto_ack=True) as subscription:
        async for envelope in subscription:
            if envelope.cursor == 5:
                break


async def leave_loop(runtime: AsyncRuntime | AsyncRemoteRuntime, client_id: str) -> None:
    async for envelope in runtime.events.subscribe("s", client_id, auto_ack=True):
        if envelope.cursor == 5:
            break


async def leave_unsubscribing(runtime: AsyncRuntime | AsyncRemoteRuntime, client_id: str) -> None:
    subscription = await runtime.events.subscribe("s", client_id, auto_ack=True)
    async for envelope in subscription:
        if envelope.cursor == 5:
            break
    subscription.unsubscribe()


def test_each_client_that_is_left_has_the_next_one_go_on_with_the_event_in_hand(
    server: Server, local: Runtime, connect: Connect
) -> None:
    finish_turn(local, "s", "Hello")
    remote = connect(server.url, token=TOKEN)

    for number in range(20):
        ended, other = f"ended {number}", f"other {number}"
        with Runtime.connect(server.url, token=TOKEN) as runtime:
            leave(runtime, ended)
            following = runtime.events.subscribe("s", other)
            assert [following.next(60) is None for _ in range(5)] == [False] * 5
        leave(remote, client_id := f"left {number}")

        assert [local.events.subscribe("s", name).cursor for name in (ended, other, client_id)] == [4, 4, 4]


@pytest.mark.parametrize("leave", [leave_block, leave_loop, leave_unsubscribing])
@pytest.mark.parametrize("ends", [True, False])
def test_on_an_event_loop_too(
    server: Server, local: Runtime, leave: Callable[[AsyncRemoteRuntime, str], Awaitable[None]], *, ends: bool
) -> None:
    finish_turn(local, "s", "Hello")

    async def begins(client_id: str) -> int:
        async with AsyncRuntime.connect(server.url, token=TOKEN) as runtime:
            await leave(runtime, client_id)
            if not ends:
                async with runtime.events.subscribe("s", client_id) as again:
                    return again.cursor
        return local.events.subscribe("s", client_id).cursor

    async def all_begin() -> list[int]:
        return [await begins(f"me {number}") for number in range(10)]

    assert asyncio.run(all_begin()) == [4] * 10


def test_a_turn_that_is_over_is_taken_at_once(server: Server, local: Runtime, remote: RemoteRuntime) -> None:
    finish_turn(local, "s", "Hello")
    ours = local.events.stream("s").take()

    async def take() -> Sequence[Envelope]:
        async with (
            AsyncRuntime.connect(server.url, token=TOKEN) as runtime,
            runtime.events.stream("s") as stream,
        ):
            return stream.take()

    for _ in range(5):
        assert remote.events.stream("s").take() == ours
        assert remote.events.subscribe("s", "me", 0).take(3) == ours[:3]
        assert remote.events.stream("s", after=len(ours)).take() == []
    assert asyncio.run(take()) == ours


def test_a_subscription_follows_a_session_to_its_end(remote: RemoteRuntime) -> None:
    finish_turn(remote, "s", "Hello")
    told: list[Envelope] = []
    subscription = remote.events.subscribe("s", "me")
    reading = threading.Thread(target=lambda: told.extend(subscription))
    reading.start()

    remote.sessions.delete("s")
    reading.join(60)

    assert told[-1].type == "session_deleted"
    assert subscription.closed
    subscription.ack()
    again = remote.events.stream("s", after=(told[-1].cursor or 0) - 1)
    assert [event.type for event in again] == ["session_deleted"]
    assert list(remote.events.subscribe("s", "me")) == []


def test_there_is_nothing_to_follow_where_there_is_no_session(remote: RemoteRuntime, local: Runtime) -> None:
    for runtime in (remote, local):
        with pytest.raises(SessionNotFoundError) as refusal:
            runtime.events.stream("nobody's")
        assert refusal.value.id == "nobody's"
        with pytest.raises(UnknownEventTypeError):
            runtime.events.on("aurora", print)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_client_outlives_its_server(tmp_path: Path, mock: MockEnvironmentFactory) -> None:
    log = tmp_path / "agents.db"
    mock.set_scenario("long-stream")
    told: list[Envelope] = []
    with Runtime.open(log, environment=mock, synchronous="OFF") as local, Server(local, tokens=[TOKEN]) as server:
        url, port = server.url, server.port
        local.containers.create(container_id="c")
        local.images.register(Image(id="i"))
        local.sessions.create("c", "i", session_id="s")
        remote = Runtime.connect(url, token=TOKEN, client_id="me", reconnect=Reconnect(longest=0.2))
        subscription = remote.events.subscribe("s")
        finish_turn(remote, "s", "Hello")
        told.extend(subscription.take(20))
    wait_until(lambda: isinstance(remote.failure, ServerUnreachableError))
    asked: list[str] = []
    asking = threading.Thread(target=lambda: asked.append(remote.sessions.run("s")))
    asking.start()

    with (
        remote,
        Runtime.open(log, environment=mock, synchronous="OFF") as local,
        Server(local, port=port, tokens=[TOKEN]),
    ):
        asking.join(60)
        assert [agent.id for agent in local.agents.list()] == asked
        finish_turn(remote, "s", "Still there?")
        expected = local.events.stream("s").take(10_000)
        told.extend(event for _ in expected[len(told) :] if (event := subscription.next(60)) is not None)

    assert told == expected
    assert sum(event.type == "text_delta" for event in told) == 200


def test_a_request_that_is_made_again_by_another_client_is_carried_out_once(
    server: Server, connect: Connect, local: Runtime
) -> None:
    asked = {"request_id": "r-1", "session_id": "s", "content": "Hello"}
    first, second = (connect(server.url, token=TOKEN) for _ in range(2))

    answers = [runtime.request("message_send_request", asked) for runtime in (first, second)]

    assert answers[0].data == answers[1].data
    assert [message.text for message in local.sessions.messages("s") if message.role == "user"] == ["Hello"]
    with pytest.raises(RequestReusedError, match="r-1"):
        second.request("message_send_request", {**asked, "content": "Something else"})


def test_texts_and_numbers_of_subclasses_are_sent_as_what_they_are(server: Server, connect: Connect) -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        pass

    runtime = connect(server.url, token=TOKEN, timeout=5.0)

    assert runtime.sessions.get(Text("s")) is not None
    assert [one.id for one in runtime.sessions.list(limit=Number(1))] == ["s"]
    assert runtime.request(Text("image_list_request"), {"request_id": Text("r")}, timeout=5).data.error is None
    assert [event.cursor for event in runtime.events.stream(Text("s"), Number(0)).take(1)] == [1]
    with runtime.events.subscribe(Text("s"), Text("me"), auto_ack=False) as events:
        events.take(1)
        events.ack(Number(1))
    runtime.events.on_all(lambda _: None, session_id=Text("s"))()


def test_a_path_where_no_server_is_has_nothing_to_do_with_the_token(server: Server) -> None:
    with pytest.raises(ProtocolError, match=r"is not a Reenact server: HTTP 404"):
        Runtime.connect(f"{server.url}/elsewhere", token=TOKEN)


def test_a_wrong_token_is_refused(server: Server) -> None:
    for token in (None, "another-token-of-nobody"):
        with pytest.raises(AuthenticationError):
            Runtime.connect(server.url, token=token)


@tool
def look(what: str) -> str:
    """Look at something."""
    return what


def test_a_tool_is_run_where_the_runtime_is_and_named_from_afar(connect: Connect) -> None:
    with (
        Runtime.in_memory(environment=MockEnvironmentFactory(delays=False), tools=[look]) as local,
        Server(local) as server,
    ):
        remote = connect(server.url)

        with pytest.raises(ConfigurationError, match=r"'look' is a function, and tools run where the runtime is"):
            remote.images.register(Image(id="i", tools=(look,)))
        info = remote.images.register(Image(id="i", tools=("look",)))

        assert info.tools == ("look",)
        assert local.images.register(Image(id="i", tools=(look,))).revision == 1
        remote.close()


PROGRAM = Image(id="i", mcp_servers=(MCPServer.stdio("m", "true"),))


def test_a_server_starts_no_program_for_its_clients(remote: RemoteRuntime, local: Runtime) -> None:
    with pytest.raises(ConfigurationError, match="starts none for its clients"):
        remote.images.register(PROGRAM)

    assert local.images.get("i") == remote.images.get("i")
    assert local.images.register(PROGRAM).revision == 2


def test_a_server_may_be_told_to_start_programs(local: Runtime, connect: Connect) -> None:
    with Server(local, allow_programs=True) as server:
        remote = connect(server.url)

        assert remote.images.register(PROGRAM).revision == 2
        remote.close()


def test_a_message_that_is_too_large_for_the_server_is_refused_and_the_connection_stays(
    local: Runtime, connect: Connect
) -> None:
    with Server(local, limits=Limits(message_size=5000)) as server:
        remote = connect(server.url)
        agent_id = remote.sessions.run("s")

        with pytest.raises(ValueError, match="the server takes at most 5000"):
            remote.agents.receive(agent_id, "x" * 6000)

        remote.agents.receive(agent_id, "y" * 4000)
        remote.close()


def test_many_clients_follow_one_session(server: Server, connect: Connect, mock: MockEnvironmentFactory) -> None:
    mock.set_scenario("long-stream")
    clients = [connect(server.url, token=TOKEN) for _ in range(8)]
    streams = [client.events.stream("s") for client in clients]

    finish_turn(clients[0], "s", "Hello")

    for stream in streams:
        told: list[Envelope] = []
        while not told or told[-1].type != "turn_completed":
            event = stream.next(60)
            assert event is not None
            told.append(event)
        assert [event.cursor for event in told] == list(range(1, len(told) + 1))


def test_a_consumer_with_little_room_gets_everything_nevertheless(
    remote: RemoteRuntime, mock: MockEnvironmentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    mock.set_scenario("long-stream")
    finish_turn(remote, "s", "Hello")
    told: list[Envelope] = []

    with remote.events.subscribe("s", "me") as following:
        while not told or told[-1].type != "turn_completed":
            event = following.next(60)
            assert event is not None
            told.append(event)

    assert [event.cursor for event in told] == list(range(1, len(told) + 1))


def test_asyncio_has_the_same(server: Server, local: Runtime, mock: MockEnvironmentFactory) -> None:
    mock.set_scenario("long-stream")

    async def converse() -> list[Envelope]:
        heard: list[str] = []
        ended = asyncio.Event()

        async def hear(envelope: Envelope) -> None:
            await asyncio.sleep(0)
            heard.append(str(envelope.data["text"]))

        async with AsyncRuntime.connect(server.url, token=TOKEN, client_id="me") as runtime:
            assert runtime.failure is None
            assert await runtime.containers.list() == local.containers.list()
            assert (await runtime.request("agent_list_request", {})).data.result == []
            subscription = await runtime.events.subscribe("s")
            with pytest.raises(SessionNotFoundError):
                await runtime.events.stream("nobody's")
            async with runtime.events.on("text_delta", hear), runtime.events.on_all(_when("turn_completed", ended)):
                await runtime.agents.receive(await runtime.sessions.run("s"), "Hello")
                await ended.wait()
            listener = await runtime.events.on("text_delta", hear)
            listener()
            with runtime.events.on("text_delta", hear):
                pass
            assert heard == [f"chunk-{number} " for number in range(100)]
            told: list[Envelope] = []
            async with subscription:
                async for envelope in subscription:
                    told.append(envelope)
                    if envelope.type == "turn_completed":
                        await subscription.aack()
                        break
            return told

    told = asyncio.run(converse())

    assert told == local.events.stream("s").take(10_000)
    assert local.events.subscribe("s", "me").cursor == len(told)


def _when(type_: str, happened: asyncio.Event) -> Callable[[Envelope], None]:
    def hear(envelope: Envelope) -> None:
        if envelope.type == type_:
            happened.set()

    return hear


def test_asyncio_is_not_held_up_by_a_server_that_is_gone(server: Server, local: Runtime) -> None:
    async def ask() -> None:
        async with AsyncRuntime.connect(server.url, token=TOKEN, timeout=0.5) as runtime:
            server.stop()
            listener = runtime.events.on("text_delta", print)
            for waiting in (listener, runtime.events.stream("s"), runtime.containers.list()):
                with pytest.raises(TimeoutError):
                    await waiting

    asyncio.run(ask())
