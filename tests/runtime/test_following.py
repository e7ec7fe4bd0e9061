"""Sessions of real runtimes, followed from anywhere: while they stream, over crashes, to their ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec
import pytest

from reenact import (
    AsyncRuntime,
    Compacted,
    ConfigurationError,
    Image,
    InvalidInputError,
    Retention,
    Runtime,
    RuntimeClosedError,
    SessionNotFoundError,
    Subscription,
)
from reenact.actors.api.facades import Events
from reenact.actors.journal.verify import verify
from reenact.domain.stream.events import DeltasCompacted
from reenact.events import Envelope
from reenact.testing import ManualClock, MockEnvironmentFactory, wait_until
from tests.feed.test_async_subscription import run
from tests.logs import copy_log, is_begun
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import PATIENCE, Ears, journal_of

LONG = ("long-stream", 100)


def cursors(envelopes: list[Envelope]) -> list[int]:
    return [envelope.cursor or 0 for envelope in envelopes]


def until(subscription: Subscription, type_: str) -> list[Envelope]:
    """Return what comes up to the first event of the type."""
    got: list[Envelope] = []
    while not got or got[-1].type != type_:
        envelope = subscription.next(PATIENCE)
        assert envelope is not None, [one.type for one in got]
        got.append(envelope)
    return got


def whole(runtime: Runtime, session_id: str = "s") -> Sequence[Envelope]:
    with runtime.events.stream(session_id) as stream:
        return stream.take(100_000)


def test_whoever_comes_at_any_moment_of_a_stream_has_all_of_it_once(
    runtime: Runtime, agent: str, mock: GatedFactory
) -> None:
    name, deltas = LONG
    mock.set_scenario(name)
    others: list[Subscription] = []
    with runtime.events.subscribe("s", "first") as first:
        runtime.agents.receive(agent, "Hello")
        heard: list[Envelope] = []
        for envelope in first:
            heard.append(envelope)
            others += [runtime.events.stream("s", envelope.cursor or 0), runtime.events.stream("s", len(heard) // 2)]
            if envelope.type == "turn_completed":
                break

    assert [envelope.type for envelope in heard].count("text_delta") == deltas
    assert cursors(heard) == list(range(1, len(heard) + 1))
    for other in others:
        begin = other.cursor
        assert other.take() == heard[begin:]
        other.unsubscribe()
    assert runtime.feed.topics == ()


def test_many_follow_one_stream_on_threads_and_on_a_loop(runtime: Runtime, agent: str, mock: GatedFactory) -> None:
    mock.set_scenario(LONG[0])
    heard: list[list[Envelope]] = []

    def follow() -> None:
        with runtime.events.stream("s") as stream:
            heard.append(until(stream, "turn_completed"))

    async def follow_on_loop() -> list[Envelope]:
        got: list[Envelope] = []
        async with runtime.events.stream("s") as stream:
            async for envelope in stream:
                got.append(envelope)
                if envelope.type == "turn_completed":
                    break
        return got

    async def story() -> list[list[Envelope]]:
        following = [asyncio.create_task(follow_on_loop()) for _ in range(10)]
        await asyncio.to_thread(runtime.agents.receive, agent, "Hello")
        return list(await asyncio.gather(*following))

    threads = [threading.Thread(target=follow) for _ in range(5)]
    for thread in threads:
        thread.start()
    heard += run(story)
    for thread in threads:
        thread.join(PATIENCE)

    assert len(heard) == 15
    assert all(one == heard[0] for one in heard)


@pytest.mark.parametrize("scenario", ["default", "with-thinking", "with-tool-use", "error"])
def test_what_was_is_the_same_as_what_came(runtime: Runtime, agent: str, mock: GatedFactory, scenario: str) -> None:
    mock.set_scenario(scenario)
    with runtime.events.stream("s") as live:
        runtime.agents.receive(agent, "Hello")
        came = until(live, "turn_completed")

    was = whole(runtime)

    assert was == came
    assert [msgspec.json.encode(one) for one in was] == [msgspec.json.encode(one) for one in came]


def test_handlers_and_subscriptions_are_told_the_same(runtime: Runtime, agent: str) -> None:
    ears = Ears(runtime)
    runtime.agents.receive(agent, "Hello")
    ears.wait("turn_completed")

    heard = [envelope for envelope in ears.heard if envelope.cursor is not None]

    assert heard == whole(runtime)[-len(heard) :]


def test_the_next_process_goes_on_where_this_one_was_acknowledged(
    runtime: Runtime, agent: str, mock: GatedFactory, opened: Open, log: str
) -> None:
    mock.set_scenario("held")
    subscription = runtime.events.subscribe("s", "me")
    runtime.agents.receive(agent, "Hello")
    before = until(subscription, "text_delta")
    subscription.ack(before[-2].cursor)
    crashed = copy_log(log, "crashed")

    again = opened(crashed)
    with again.events.subscribe("s", "me") as after:
        assert after.cursor == before[-2].cursor
        rest = until(after, "turn_completed")

    assert rest[0] == before[-1]
    assert cursors(before[:-1] + rest) == list(range(1, len(before) + len(rest)))
    assert rest[-1].data["outcome"] == "interrupted"
    assert whole(again)[: len(before)] == before


def test_a_subscription_ends_with_its_runtime_and_has_all_that_was_told_before(
    runtime: Runtime, agent: str, mock: GatedFactory
) -> None:
    mock.set_scenario("held")
    heard: list[str] = []
    with runtime.events.stream("s") as stream, runtime.events.stream("s") as late:
        following = threading.Thread(target=lambda: heard.extend(envelope.type for envelope in stream))
        following.start()
        runtime.agents.receive(agent, "Hello")
        wait_until(lambda: "text_delta" in heard)

        runtime.close()
        following.join(PATIENCE)

        assert heard[-2:] == ["agent_state_changed", "agent_stopped"]
        assert [envelope.type for envelope in late] == heard
    with pytest.raises(RuntimeClosedError):
        runtime.events.subscribe("s", "me")
    with pytest.raises(RuntimeClosedError):
        runtime.events.stream("s")
    with pytest.raises(RuntimeClosedError):
        runtime.events.compact()


def test_a_handler_that_follows_a_session_does_not_hold_up_the_end(runtime: Runtime, agent: str) -> None:
    followed: list[str] = []

    def follow(_: Envelope) -> None:
        followed.extend(envelope.type for envelope in runtime.events.stream("s"))

    runtime.events.on("user_message", follow)
    runtime.agents.receive(agent, "Hello")
    wait_until(lambda: "turn_completed" in followed)

    runtime.close()

    assert followed[-1] == "agent_stopped"


def test_a_deleted_session_can_be_followed_to_its_end_also_in_the_next_process(
    runtime: Runtime, agent: str, opened: Open
) -> None:
    with runtime.events.subscribe("s", "me") as subscription:
        runtime.sessions.delete("s")
        types = [envelope.type for envelope in subscription]
        assert types[-1] == "session_deleted"
        subscription.ack()
    runtime.close()

    again = opened()
    assert [envelope.type for envelope in again.events.stream("s")] == types
    assert list(again.events.subscribe("s", "me")) == []


REFUSED: list[tuple[Callable[[Events], object], type[Exception]]] = [
    (lambda events: events.subscribe("nobody", "me"), SessionNotFoundError),
    (lambda events: events.stream("nobody"), SessionNotFoundError),
    (lambda events: events.subscribe("s", ""), InvalidInputError),
    (lambda events: events.subscribe("s", "\0"), InvalidInputError),
    (lambda events: events.stream("s", -1), InvalidInputError),
    (lambda events: events.stream("s", 1000), InvalidInputError),
    (lambda events: events.subscribe("s", "me", -1), InvalidInputError),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
@pytest.mark.usefixtures("agent")
def test_what_cannot_be_followed_is_refused(
    runtime: Runtime, call: Callable[[Events], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(runtime.events)


def test_what_is_compacted_is_told_and_the_turn_under_way_is_whole(mock: GatedFactory, log: str, opened: Open) -> None:
    runtime = opened(retention=Retention(deltas=timedelta(0)))
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    agent_id = runtime.sessions.run("s")
    with runtime.events.stream("s") as stream:
        mock.set_scenario(LONG[0])
        runtime.agents.receive(agent_id, "Hello")
        before = until(stream, "turn_completed")
        mock.set_scenario("held")
        runtime.agents.receive(agent_id, "Hello again")
        before += until(stream, "text_delta")
        read = runtime.sessions.messages("s")

        assert runtime.events.compact() == Compacted(deltas=LONG[1])

    after = whole(runtime)
    gaps = [envelope for envelope in after if envelope.type == "deltas_compacted"]
    told = [gap.data for gap in gaps if isinstance(gap.data, DeltasCompacted)]
    hidden = [cursor for gap in told for cursor in range(gap.first_cursor, gap.last_cursor + 1)]
    assert [envelope for envelope in after if envelope not in gaps] == [
        envelope for envelope in before if envelope.cursor not in hidden
    ]
    assert {before[cursor - 1].type for cursor in hidden} == {"text_delta"}
    assert len(hidden) == LONG[1]
    assert runtime.sessions.messages("s") == read
    crashed = copy_log(log, "crashed")
    again = opened(crashed)
    assert [message.text for message in again.sessions.messages("s")][-1] == "Once"
    assert again.events.compact().deltas == 0
    again.close()
    assert verify(crashed) == []


def test_time_alone_lets_go_of_what_is_old(mock: GatedFactory, opened: Open) -> None:
    clock = ManualClock()
    runtime = opened(clock=clock)
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="s")
    with runtime.events.subscribe("s", "me") as subscription:
        runtime.agents.receive(runtime.sessions.run("s"), "Hello")
        until(subscription, "turn_completed")
        subscription.ack()

    def types() -> list[str]:
        return [envelope.type for envelope in whole(runtime)]

    clock.advance(47 * 3600)
    wait_until(
        lambda: runtime._sweeper._next_sweep is not None and runtime._sweeper._next_sweep.is_to_come,
        what="the next sweep",
    )
    assert types().count("text_delta") == 3
    clock.advance(2 * 3600)
    wait_until(lambda: "text_delta" not in types())

    assert types().count("deltas_compacted") == 1
    assert journal_of(runtime).mark("session/s", "me") is None
    with runtime.events.subscribe("s", "me") as again:
        assert again.cursor == 0


def test_requests_are_forgotten_after_a_while(mock: GatedFactory, opened: Open) -> None:
    clock = ManualClock()
    runtime = opened(clock=clock, retention=Retention(every=timedelta(days=999)))
    furnish(runtime)
    runtime.request("message_send_request", {"image_id": "i", "content": "Hello", "request_id": "r1"})
    clock.advance(23 * 3600)
    kept = runtime.events.compact().requests
    clock.advance(2 * 3600)
    gone = runtime.events.compact().requests

    assert (kept, gone >= 1) == (0, True)


def test_a_retention_that_is_none_is_refused_before_anything_is_opened(log: str) -> None:
    with pytest.raises(ConfigurationError, match="retention"):
        Runtime.open(log, retention=48)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert not is_begun(log)


def test_the_twin_follows_sessions() -> None:
    async def story() -> tuple[list[str], int, Compacted]:
        retention = Retention(deltas=timedelta(0))
        async with AsyncRuntime.in_memory(environment=MockEnvironmentFactory(), retention=retention) as twin:
            await twin.images.register(Image(id="i"))
            await twin.containers.create(container_id="c")
            await twin.sessions.create("c", "i", session_id="s")
            agent_id = await twin.sessions.run("s")
            types: list[str] = []
            async with twin.events.subscribe("s", "me") as subscription:
                await twin.agents.receive(agent_id, "Hello")
                async for envelope in subscription:
                    types.append(envelope.type)
                    if envelope.type == "turn_completed":
                        break
                await subscription.aack()
            again = await twin.events.subscribe("s", "me")
            stream = await twin.events.stream("s", 1)
            assert (await anext(stream)).cursor == 2
            return types, again.cursor, await twin.events.compact()

    types, cursor, compacted = run(story)
    assert types[-1] == "turn_completed"
    assert cursor == len(types)
    assert compacted.deltas == 3


def leave(runtime: Runtime, client_id: str) -> None:
    """Follow the session, and leave with the fifth event in hand."""
    with runtime.events.subscribe("s", client_id, auto_ack=True) as subscription:
        for envelope in subscription:
            if envelope.cursor == 5:
                break


def let_go(runtime: Runtime, client_id: str) -> None:
    for envelope in runtime.events.subscribe("s", client_id, auto_ack=True):
        if envelope.cursor == 5:
            break


@pytest.mark.parametrize("leave", [leave, let_go])
def test_who_has_left_a_subscription_goes_on_with_the_event_that_was_in_hand(
    runtime: Runtime, agent: str, leave: Callable[[Runtime, str], None]
) -> None:
    ears = Ears(runtime)
    runtime.agents.receive(agent, "Hello")
    ears.wait("turn_completed")

    begins: list[int] = []
    for number in range(20):
        leave(runtime, f"me {number}")
        begins.append(runtime.events.subscribe("s", f"me {number}").cursor)

    assert begins == [4] * 20


def test_who_is_left_by_the_runtime_goes_on_with_the_event_that_was_in_hand(
    runtime: Runtime, agent: str, opened: Open, log: str
) -> None:
    ears = Ears(runtime)
    runtime.agents.receive(agent, "Hello")
    ears.wait("turn_completed")
    subscription = runtime.events.subscribe("s", "me", auto_ack=True)
    for _ in range(5):
        next(subscription)

    runtime.close()

    assert opened(log).events.subscribe("s", "me").cursor == 4


def test_who_has_left_on_an_event_loop_goes_on_with_the_event_that_was_in_hand(mock: GatedFactory) -> None:
    async def story() -> list[int]:
        begins: list[int] = []
        async with AsyncRuntime.in_memory(environment=mock) as runtime:
            await runtime.containers.create(container_id="c")
            await runtime.images.register(Image(id="i"))
            await runtime.sessions.create("c", "i", session_id="s")
            await runtime.ask("Hello", session="s")
            for number in range(20):
                async with runtime.events.subscribe("s", f"me {number}", auto_ack=True) as events:
                    async for envelope in events:
                        if envelope.cursor == 5:
                            break
                async with runtime.events.subscribe("s", f"me {number}") as again:
                    begins.append(again.cursor)

            async for envelope in runtime.events.subscribe("s", "who breaks", auto_ack=True):
                if envelope.cursor == 5:
                    break
            while (await begin_of(runtime, "who breaks")) == 0:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
            begins.append(await begin_of(runtime, "who breaks"))
        return begins

    assert run(story) == [4] * 21


async def begin_of(runtime: AsyncRuntime, client_id: str) -> int:
    async with runtime.events.subscribe("s", client_id) as subscription:
        return subscription.cursor
