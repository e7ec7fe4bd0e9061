"""Subscriptions to a server that fails in every way: each event once and in order, whatever happens to connections."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import AsyncRuntime, InvalidInputError, ReenactError, RequestTimeoutError, SessionNotFoundError
from reenact.client import link
from reenact.client import subscription as module
from reenact.client.runtime import RemoteRuntime
from reenact.client.subscription import RemoteSubscription
from reenact.domain.errors import ProtocolError, RemoteError, RuntimeClosedError, StorageError
from reenact.testing import wait_until
from tests.client.scripted import Beyond, Line, Scripted, event, events

Talk: TypeAlias = Callable[..., tuple[RemoteRuntime, Line]]
Follow: TypeAlias = Callable[..., tuple[RemoteSubscription, Line, str]]


@pytest.fixture
def follow(talk: Talk, beyond: Beyond) -> Follow:
    """Follows the session `s`; gives the subscription, the server's end, and the id that it stands under."""

    def follow(after: int = 0, **settings: Any) -> tuple[RemoteSubscription, Line, str]:  # noqa: ANN401
        runtime, line = talk()
        settings.setdefault("client_id", "me")
        subscribing = beyond.call(lambda: runtime.events.subscribe("s", **settings))
        asked = line.subscribed(after)
        return subscribing.result(), line, asked["id"]

    return follow


def cursors(subscription: RemoteSubscription, count: int) -> list[int | None]:
    """Return the cursors of the next events."""
    found = [subscription.next(60) for _ in range(count)]
    return [None if envelope is None else envelope.cursor for envelope in found]


def held(subscription: RemoteSubscription, count: int) -> None:
    """Return once so many events have come: who asks earlier has to wait for one, and acknowledges those before it."""
    wait_until(lambda: len(subscription._buffer._events) == count)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is acknowledged because of the time that a busy machine takes."""
    monkeypatch.setattr(link, "_TENDING", 3600.0)


@pytest.fixture(autouse=True)
def curt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted server that has been left is not waited for: it answers nothing any more."""
    monkeypatch.setattr(link, "LAST_WORDS", 1.0)


def test_a_subscription_says_what_it_wants_and_begins_where_the_server_says(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk(client_id="ann")

    calls = [
        beyond.call(lambda: runtime.events.subscribe("s")),
        beyond.call(lambda: runtime.events.subscribe("s", "bob", after=3)),
        beyond.call(lambda: runtime.events.stream("s")),
    ]
    asked: dict[str | None, tuple[str, int | None]] = {}
    for _ in calls:
        frame = line.hear("subscribe")
        asked[frame["client_id"]] = (frame["topic"], frame["after"])
        line.say("subscribed", id=frame["id"], after=5 if frame["after"] is None else frame["after"])

    assert asked == {
        "ann": ("s", None),
        "bob": ("s", 3),
        None: ("s", 0),
    }
    assert {(call.result().client_id, call.result().cursor) for call in calls} == {("ann", 5), ("bob", 3), (None, 0)}


def test_events_are_handed_out_in_order_and_the_cursor_goes_with_them(follow: Follow) -> None:
    subscription, line, id_ = follow(after=4)

    assert (subscription.topic, subscription.client_id, subscription.cursor) == ("s", "me", 4)
    line.events(id_, event(5), event(6))
    line.events(id_, event(7))

    assert cursors(subscription, 3) == [5, 6, 7]
    assert subscription.cursor == 7
    assert subscription.next(0.01) is None
    assert not subscription.closed


def test_after_a_break_it_goes_on_behind_the_last_event_that_came(follow: Follow, scripted: Scripted) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(2), event(3))
    assert cursors(subscription, 1) == [1]

    line.drop()
    line = scripted.line()
    asked = line.subscribed()
    line.events(asked["id"], event(4))

    assert (asked["topic"], asked["client_id"], asked["after"]) == ("s", "me", 3)
    assert cursors(subscription, 3) == [2, 3, 4]


def test_what_comes_twice_is_handed_out_once(follow: Follow, scripted: Scripted) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(1), event(2))
    line.events(id_, event(1), event(2), event(3))
    line.drop()

    line = scripted.line()
    asked = line.subscribed(after=0)
    line.events(asked["id"], event(1), event(2), event(3), event(4))

    assert cursors(subscription, 4) == [1, 2, 3, 4]
    assert subscription.take() == []


def test_a_hole_is_never_passed_over(follow: Follow) -> None:
    subscription, line, id_ = follow(auto_ack=False)

    line.events(id_, event(1), event(3), event(4))

    assert cursors(subscription, 1) == [1]
    for ask in (subscription.next, subscription.take, lambda: next(subscription)):
        with pytest.raises(ProtocolError, match="left out events: 3 came behind 1"):
            ask()
    assert line.hear("unsubscribe")["id"] == id_
    assert subscription.closed


def test_what_comes_with_a_hole_behind_it_is_handed_out_first_whenever_it_comes(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    buffer = subscription._buffer
    pop = buffer.pop

    def come_right_after() -> None:
        monkeypatch.setattr(buffer, "pop", pop)
        line.events(id_, event(1), event(3))
        wait_until(lambda: buffer.error is not None)

    monkeypatch.setattr(buffer, "pop", come_right_after)

    assert cursors(subscription, 1) == [1]
    with pytest.raises(ProtocolError, match="left out events"):
        subscription.next()


def test_a_server_that_goes_on_too_far_ahead_is_not_followed(follow: Follow, scripted: Scripted) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1))
    assert cursors(subscription, 1) == [1]

    line.drop()
    line = scripted.line()
    asked = line.subscribed(after=2)
    line.events(asked["id"], event(3))

    with pytest.raises(ProtocolError, match="left out events of 's'"):
        subscription.next(60)


def test_what_stands_for_compacted_deltas_fills_their_place(follow: Follow) -> None:
    subscription, line, id_ = follow()

    gap = event(9, type_="deltas_compacted", data={"first_cursor": 2, "last_cursor": 9})
    line.events(id_, event(1), gap, event(10))

    assert cursors(subscription, 3) == [1, 9, 10]


def test_it_ends_behind_the_event_that_deletes_the_session(follow: Follow) -> None:
    subscription, line, id_ = follow()

    line.events(id_, event(1), event(2, type_="session_deleted", data={"session_id": "s"}))
    line.say("ended", id=id_, reason="deleted")

    assert [envelope.type for envelope in subscription] == ["text_delta", "session_deleted"]
    assert subscription.next() is None
    assert subscription.closed


def test_a_server_that_closes_is_followed_again_when_it_is_back(follow: Follow, scripted: Scripted) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1))

    line.say("ended", id=id_, reason="closed")
    assert line.is_silent()
    line.close()
    line = scripted.line()
    asked = line.subscribed()
    line.events(asked["id"], event(2))

    assert asked["after"] == 1
    assert cursors(subscription, 2) == [1, 2]


@pytest.mark.parametrize(
    ("code", "error"),
    [("session_not_found", SessionNotFoundError), ("invalid_input", InvalidInputError), ("too_many", RemoteError)],
)
def test_what_the_server_refuses_is_raised(talk: Talk, beyond: Beyond, code: str, error: type[ReenactError]) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))

    line.say("error", id=line.hear("subscribe")["id"], code=code, message="no")

    with pytest.raises(error, match="no") as raised:
        call.result()
    assert raised.value.code == code
    if isinstance(raised.value, SessionNotFoundError):
        assert raised.value.id == "s"


def test_a_server_that_is_closing_when_it_is_asked_is_asked_again(
    talk: Talk, scripted: Scripted, beyond: Beyond
) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))
    line.say("error", id=line.hear("subscribe")["id"], code="runtime_closed", message="the server is ending")
    line.close()

    scripted.line().subscribed()

    assert call.result().cursor == 0


def test_what_is_refused_after_a_break_ends_it(follow: Follow, scripted: Scripted) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1))
    line.drop()
    line = scripted.line()

    line.say("error", id=line.hear("subscribe")["id"], code="invalid_input", message="beyond the last cursor")

    assert cursors(subscription, 1) == [1]
    with pytest.raises(InvalidInputError, match="beyond the last cursor"):
        subscription.next(60)


def test_after_a_break_a_server_that_cannot_read_its_log_is_asked_again(
    follow: Follow, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_PAUSE", 0.01)
    subscription, line, id_ = follow()
    line.events(id_, event(1))
    line.drop()
    line = scripted.line()

    line.say("error", id=line.hear("subscribe")["id"], code="log_unreachable", message="not now")
    asked = line.subscribed()
    line.events(asked["id"], event(2))

    assert asked["after"] == 1
    assert cursors(subscription, 2) == [1, 2]


def test_a_server_that_cannot_read_its_log_is_not_asked_again_for_what_has_not_begun(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_PAUSE", 0.01)
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))

    line.say("error", id=line.hear("subscribe")["id"], code="log_unreachable", message="not now")

    with pytest.raises(StorageError, match="not now"):
        call.result()
    assert line.is_silent()


def test_a_server_that_does_not_answer_in_time_is_no_longer_asked(
    talk: Talk, scripted: Scripted, beyond: Beyond
) -> None:
    runtime, line = talk(timeout=0.5)

    with pytest.raises(RequestTimeoutError, match="did not answer within"):
        runtime.events.subscribe("s", "me")
    asked = line.hear("subscribe")

    assert line.hear("unsubscribe")["id"] == asked["id"]
    line.drop()
    assert scripted.line().is_silent()


def test_events_before_it_is_said_where_they_begin_are_a_mistake(
    talk: Talk, scripted: Scripted, beyond: Beyond
) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))
    line.events(line.hear("subscribe")["id"], event(8))
    assert line.is_closed()

    line = scripted.line()
    line.events(line.subscribed()["id"], event(1))

    assert cursors(call.result(), 1) == [1]


def test_a_server_has_to_say_where_it_begins(talk: Talk, scripted: Scripted, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))

    line.say("subscribed", id=line.hear("subscribe")["id"])

    assert line.is_closed()
    scripted.line().subscribed()
    call.result()


def test_an_event_that_cannot_be_read_ends_it(follow: Follow) -> None:
    subscription, line, id_ = follow()

    line.events(id_, event(1, data={"text": 5}), event(2))

    for _ in range(2):
        with pytest.raises(ProtocolError, match="a malformed event"):
            subscription.next(60)


@pytest.mark.parametrize(
    ("session_id", "settings", "error"),
    [
        ("\ud800", {"client_id": "me"}, SessionNotFoundError),
        ("", {"client_id": "me"}, SessionNotFoundError),
        (5, {"client_id": "me"}, SessionNotFoundError),
        ("s", {}, InvalidInputError),
        ("s", {"client_id": " "}, InvalidInputError),
        ("s", {"client_id": 5}, InvalidInputError),
        ("s", {"client_id": "me", "after": -1}, InvalidInputError),
        ("s", {"client_id": "me", "after": True}, InvalidInputError),
        ("s", {"client_id": "me", "after": "1"}, InvalidInputError),
    ],
)
def test_what_cannot_be_followed_is_refused_and_not_sent(
    talk: Talk,
    session_id: Any,  # noqa: ANN401 - anything
    settings: dict[str, Any],
    error: type[Exception],
) -> None:
    runtime, line = talk()

    with pytest.raises(error):
        runtime.events.subscribe(session_id, **settings)

    assert line.is_silent()


def test_unsubscribing_tells_the_server_and_wakes_who_waits(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow()
    waiting = beyond.call(lambda: list(subscription))

    with subscription:
        pass
    subscription.unsubscribe()

    assert waiting.result() == []
    assert line.hear("unsubscribe")["id"] == id_
    assert subscription.closed
    line.events(id_, event(1))
    assert (subscription.next(), subscription.take()) == (None, [])


def test_who_has_unsubscribed_is_not_followed_again(follow: Follow, scripted: Scripted) -> None:
    subscription, line, _ = follow()
    line.drop()
    subscription.unsubscribe()

    assert scripted.line().is_silent()


def test_taking_from_a_server_that_does_not_say_where_the_session_ends_gives_what_has_come(follow: Follow) -> None:
    subscription, line, id_ = follow()
    assert subscription.take() == []

    line.events(id_, *events(1, 7))
    first = subscription.next(60)
    wait_until(lambda: len(subscription._buffer._events) == 6)

    assert first is not None
    assert [envelope.cursor for envelope in subscription.take(2)] == [2, 3]
    assert [envelope.cursor for envelope in subscription.take()] == [4, 5, 6, 7]


@pytest.fixture
def behind(talk: Talk, beyond: Beyond) -> tuple[RemoteSubscription, Line, str]:
    """Follows a session that had six events when it was subscribed to, of which none has come."""
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.stream("s"))
    id_ = line.hear("subscribe")["id"]
    line.say("subscribed", id=id_, after=0, end=6, later="what this version does not know")
    return call.result(), line, id_


def test_taking_waits_for_what_there_was_when_it_was_subscribed_to(
    behind: tuple[RemoteSubscription, Line, str], beyond: Beyond
) -> None:
    subscription, line, id_ = behind
    taking = beyond.call(subscription.take)
    line.events(id_, event(1), event(2))
    wait_until(lambda: subscription.cursor == 2)
    assert not taking.is_over

    line.events(id_, *events(3, 6))

    assert [envelope.cursor for envelope in taking.result()] == [1, 2, 3, 4, 5, 6]
    assert subscription.take() == []


def test_taking_waits_for_no_more_than_it_is_asked_for(
    behind: tuple[RemoteSubscription, Line, str], beyond: Beyond
) -> None:
    subscription, line, id_ = behind
    taking = beyond.call(lambda: subscription.take(2))

    line.events(id_, event(1), event(2))

    assert [envelope.cursor for envelope in taking.result()] == [1, 2]


def test_taking_goes_on_over_a_break(
    behind: tuple[RemoteSubscription, Line, str], beyond: Beyond, scripted: Scripted
) -> None:
    subscription, line, id_ = behind
    taking = beyond.call(subscription.take)
    line.events(id_, event(1))
    wait_until(lambda: subscription.cursor == 1)

    line.drop()
    line = scripted.line()
    line.events(line.subscribed()["id"], *events(2, 6))

    assert len(taking.result()) == 6


def test_what_has_not_come_in_time_is_not_taken_for_nothing(behind: tuple[RemoteSubscription, Line, str]) -> None:
    subscription, line, id_ = behind
    subscription._timeout = 0.05

    with pytest.raises(RequestTimeoutError, match=r"events of 's' have not come within 0\.05 s"):
        subscription.take()
    line.events(id_, event(1))
    held(subscription, 1)

    assert [envelope.cursor for envelope in subscription.take()] == [1]


@pytest.mark.parametrize("end", ["ended", "unsubscribed"])
def test_taking_ends_with_the_subscription(
    behind: tuple[RemoteSubscription, Line, str], beyond: Beyond, end: str
) -> None:
    subscription, line, id_ = behind
    taking = beyond.call(subscription.take)
    line.events(id_, event(1))
    wait_until(lambda: subscription.cursor == 1)

    if end == "ended":
        line.say("ended", id=id_, reason="deleted")
    else:
        subscription.unsubscribe()

    assert [envelope.cursor for envelope in taking.result()] == [1]


@pytest.mark.parametrize("wrong", [0, -1, True, "5", 2.0])
def test_so_many_are_taken_and_so_long_is_waited_as_can_be_counted(follow: Follow, wrong: Any) -> None:  # noqa: ANN401
    subscription, _, _ = follow()

    with pytest.raises(InvalidInputError, match="1 or more"):
        subscription.take(wrong)
    with pytest.raises(InvalidInputError, match="of seconds"):
        subscription.next(str(wrong))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_an_acknowledgement_is_durable_when_it_returns(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1), event(2))
    cursors(subscription, 2)

    call = beyond.call(subscription.ack)
    asked = line.hear("ack")
    assert not call.is_over
    line.say("acked", id=id_, cursor=2)

    assert (asked["id"], asked["cursor"], call.result()) == (id_, 2, None)
    subscription.ack(1)  # older ones are known to be durable
    assert line.is_silent()


def test_acknowledgements_are_said_again_after_a_break(follow: Follow, beyond: Beyond, scripted: Scripted) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1), event(2))
    cursors(subscription, 2)
    call = beyond.call(lambda: subscription.ack(1))
    line.hear("ack")

    line.drop()
    line = scripted.line()
    id_ = line.subscribed()["id"]
    asked = line.hear("ack")
    line.say("acked", id=id_, cursor=1)

    assert (asked["cursor"], call.result()) == (1, None)


def test_what_is_wrong_with_an_acknowledgement_is_raised(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1))
    cursors(subscription, 1)
    call = beyond.call(subscription.ack)

    line.say("error", id=line.hear("ack")["id"], code="storage_error", message="the disk is gone")

    with pytest.raises(StorageError, match="the disk is gone"):
        call.result()
    line.events(id_, event(2))
    assert cursors(subscription, 1) == [2]


@pytest.mark.parametrize("cursor", [2, -1, True, "1"])
def test_only_what_was_handed_out_can_be_acknowledged(follow: Follow, cursor: Any) -> None:  # noqa: ANN401 - anything
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1), event(2))
    cursors(subscription, 1)

    with pytest.raises(InvalidInputError):
        subscription.ack(cursor)
    assert line.is_silent()


def test_without_a_name_nothing_can_be_acknowledged(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.stream("s"))
    line.events(line.subscribed()["id"], event(1), event(2))
    stream = call.result()

    assert cursors(stream, 2) == [1, 2]
    with pytest.raises(InvalidInputError, match="without a client id"):
        stream.ack()
    assert stream.next(0.01) is None
    assert line.is_silent()


def test_an_acknowledgement_that_is_not_answered_in_time_says_so(follow: Follow) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1))
    cursors(subscription, 1)
    subscription._timeout = 0.05

    with pytest.raises(RequestTimeoutError, match="it may be acknowledged all the same"):
        subscription.ack()
    with pytest.raises(RequestTimeoutError):
        asyncio.run(subscription.aack())


def test_after_a_time_it_acknowledges_what_was_handed_out_before_the_event_in_hand(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_TENDING", 0.01)
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(2), event(3))

    assert cursors(subscription, 3) == [1, 2, 3]

    said = [line.hear("ack")["cursor"]]
    while said[-1] != 2:
        said.append(line.hear("ack")["cursor"])
    assert line.is_silent()
    assert subscription.next(0) is None
    assert line.hear("ack")["cursor"] == 3


def leave_at(cursor: int, subscription: RemoteSubscription) -> None:
    """Leave the loop, and the block, with the event of this cursor in hand."""
    with subscription:
        for envelope in subscription:
            if envelope.cursor == cursor:
                break


async def leave_at_async(cursor: int, subscription: RemoteSubscription) -> None:
    async with subscription:
        async for envelope in subscription:
            if envelope.cursor == cursor:
                break


def leave_at_on_a_loop(cursor: int, subscription: RemoteSubscription) -> None:
    asyncio.run(leave_at_async(cursor, subscription))


Leave: TypeAlias = Callable[[int, RemoteSubscription], None]
either = pytest.mark.parametrize("leave", [leave_at, leave_at_on_a_loop], ids=["threads", "asyncio"])


@either
def test_what_was_dealt_with_is_acknowledged_at_the_end_and_the_last_one_is_not(
    follow: Follow, beyond: Beyond, leave: Leave
) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(2), event(3))
    held(subscription, 3)

    leaving = beyond.call(lambda: leave(3, subscription))
    assert line.hear("ack")["cursor"] == 2
    assert line.is_silent()
    assert not leaving.is_over
    line.say("acked", id=id_, cursor=2)
    leaving.result()

    assert line.hear("unsubscribe")["id"] == id_
    assert line.is_silent()


@either
def test_who_leaves_while_the_connection_is_lost_waits_for_none_and_acknowledges_on_the_next(
    follow: Follow, beyond: Beyond, scripted: Scripted, leave: Leave
) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(2), event(3))
    held(subscription, 3)
    leaving = beyond.call(lambda: leave(3, subscription))
    line.hear("ack")

    line.drop()
    leaving.result()

    line = scripted.line()
    id_ = line.subscribed()["id"]
    assert line.hear("ack")["cursor"] == 2
    line.say("acked", id=id_, cursor=2)
    assert line.hear("unsubscribe")["id"] == id_


@either
@pytest.mark.parametrize("refusal", ["storage_error", "runtime_closed"])
def test_who_leaves_does_not_wait_for_what_the_server_does_not_record(
    follow: Follow, beyond: Beyond, leave: Leave, refusal: str
) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(2))
    held(subscription, 2)
    leaving = beyond.call(lambda: leave(2, subscription))

    line.say("error", id=line.hear("ack")["id"], code=refusal, message="not now")

    leaving.result()
    if refusal == "storage_error":
        assert line.hear("unsubscribe")["id"] == id_


@either
def test_a_server_that_does_not_answer_in_time_holds_up_nobody_who_leaves(follow: Follow, leave: Leave) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1), event(2))
    held(subscription, 2)
    subscription._timeout = 0.05

    leave(2, subscription)

    assert line.hear("ack")["cursor"] == 1


def test_on_an_event_loop_unsubscribing_waits_for_nothing_and_is_said_before_the_next_subscription(
    talk: Talk, beyond: Beyond
) -> None:
    runtime, line = talk(client_id="me")
    call = beyond.call(lambda: runtime.events.subscribe("s"))
    line.events(line.subscribed()["id"], event(1), event(2))
    held(call.result(), 2)
    cursors(call.result(), 2)

    async def leave_and_come() -> RemoteSubscription:
        call.result().unsubscribe()
        return runtime.events.follow("s", None, None, auto_ack=True)

    coming = asyncio.run(leave_and_come())

    assert line.hear("ack")["cursor"] == 1
    line.subscribed()
    assert coming.standing.result(60) == 0


def test_what_was_dealt_with_is_acknowledged_when_the_runtime_closes(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk(client_id="me")
    call = beyond.call(lambda: runtime.events.subscribe("s"))
    id_ = line.subscribed()["id"]
    line.events(id_, event(1), event(2), event(3))
    held(call.result(), 3)
    cursors(call.result(), 3)

    closing = beyond.call(runtime.close)

    assert line.hear("ack")["cursor"] == 2
    assert line.is_silent()
    line.say("acked", id=id_, cursor=2)
    assert line.hear("unsubscribe")["id"] == id_
    assert line.is_closed()
    closing.result()


@pytest.mark.parametrize("refusal", ["storage_error", "runtime_closed"])
def test_who_closes_does_not_wait_for_what_the_server_does_not_record(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    monkeypatch.setattr(link, "LAST_WORDS", 3600.0)
    runtime, line = talk(client_id="me")
    call = beyond.call(lambda: runtime.events.subscribe("s"))
    id_ = line.subscribed()["id"]
    line.events(id_, event(1), event(2))
    held(call.result(), 2)
    cursors(call.result(), 2)
    closing = beyond.call(runtime.close)

    line.say("error", id=line.hear("ack")["id"], code=refusal, message="not now")

    assert line.is_closed()
    closing.result()


def test_a_server_that_does_not_answer_in_time_holds_up_nobody_who_closes(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LAST_WORDS", 0.05)
    runtime, line = talk(client_id="me")
    call = beyond.call(lambda: runtime.events.subscribe("s"))
    line.events(line.subscribed()["id"], event(1), event(2))
    held(call.result(), 2)
    cursors(call.result(), 2)

    closing = beyond.call(runtime.close)

    assert line.hear("ack")["cursor"] == 1
    assert line.is_closed()
    closing.result()


def test_it_can_still_acknowledge_when_it_has_unsubscribed(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1))
    cursors(subscription, 1)
    subscription.unsubscribe()
    line.hear("unsubscribe")

    call = beyond.call(subscription.ack)
    id_ = line.subscribed()["id"]
    assert line.hear("ack")["cursor"] == 1
    line.say("acked", id=id_, cursor=1)

    call.result()
    assert line.hear("unsubscribe")["id"] == id_


def test_the_events_of_a_session_that_is_deleted_are_acknowledged_too(
    follow: Follow, scripted: Scripted, beyond: Beyond
) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1), event(2, type_="session_deleted", data={"session_id": "s"}))
    line.say("ended", id=id_, reason="deleted")
    assert len(list(subscription)) == 2

    first = beyond.call(lambda: subscription.ack(1))
    assert line.hear("ack") == {"type": "ack", "id": id_, "cursor": 1}
    line.say("acked", id=id_, cursor=1)
    first.result()
    line.drop()
    second = beyond.call(subscription.ack)
    line = scripted.line()
    asked = line.subscribed()
    line.say("ended", id=asked["id"], reason="deleted")
    assert line.hear("ack") == {"type": "ack", "id": asked["id"], "cursor": 2}
    line.say("acked", id=asked["id"], cursor=2)

    second.result()
    assert asked["after"] == 2


def test_each_acknowledgement_waits_for_its_own_cursor(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1), event(2))
    cursors(subscription, 2)
    first = beyond.call(lambda: subscription.ack(1))
    line.hear("ack")
    second = beyond.call(subscription.ack)
    line.hear("ack")

    line.say("acked", id=id_, cursor=1)
    first.result()
    assert not second.is_over
    line.say("acked", id=id_, cursor=2)

    second.result()


def test_a_server_that_has_let_go_of_a_deleted_session_does_not_remember(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1, type_="session_deleted", data={"session_id": "s"}))
    cursors(subscription, 1)
    call = beyond.call(subscription.ack)

    line.say("error", id=line.hear("ack")["id"], code="subscription_not_found", message="there is none")

    with pytest.raises(ReenactError, match="there is none"):
        call.result()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_time_out_of_the_servers_own_is_raised_as_one(follow: Follow, beyond: Beyond, *, is_async: bool) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, event(1))
    cursors(subscription, 1)
    call = beyond.call(lambda: asyncio.run(subscription.aack()) if is_async else subscription.ack())

    line.say("error", id=line.hear("ack")["id"], code="timeout", message="the disk is slow")

    with pytest.raises(RequestTimeoutError, match="the disk is slow"):
        call.result()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_time_out_of_the_servers_own_ends_subscribing(
    talk: Talk, scripted: Scripted, beyond: Beyond, *, is_async: bool
) -> None:
    async def stream() -> None:
        async with AsyncRuntime.connect(scripted.url) as runtime:
            await runtime.events.stream("s")

    if is_async:
        call = beyond.call(lambda: asyncio.run(stream()))
        line = scripted.line()
    else:
        runtime, line = talk()
        call = beyond.call(lambda: runtime.events.stream("s"))

    line.say("error", id=line.hear("subscribe")["id"], code="timeout", message="the disk is slow")

    with pytest.raises(RequestTimeoutError, match="the disk is slow"):
        call.result()


def test_what_comes_in_the_very_moment_of_unsubscribing_is_dropped(follow: Follow) -> None:
    subscription, _, _ = follow()
    subscription.unsubscribe()

    assert subscription._buffer.offer((1, "", b""), 0) is True

    assert subscription.take() == []


def test_what_comes_in_the_very_moment_of_waiting_is_not_waited_for(follow: Follow) -> None:
    subscription, line, id_ = follow()
    line.events(id_, event(1))
    wait_until(lambda: subscription._buffer._events)

    asyncio.run(asyncio.wait_for(subscription._buffer.wait_async(), 60))

    assert cursors(subscription, 1) == [1]


def test_what_nobody_holds_any_more_is_unsubscribed_and_forgotten(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.client.link._TENDING", 0.01)
    runtime, line = talk()

    def look() -> int | None:
        for envelope in runtime.events.stream("s"):
            return envelope.cursor
        return None

    for _ in range(3):
        looking = beyond.call(look)
        id_ = line.subscribed()["id"]
        line.events(id_, event(1), event(2))
        assert looking.result() == 1
        assert line.hear("unsubscribe")["id"] == id_

    wait_until(lambda: not runtime._link._followers)


def test_what_was_abandoned_makes_way_for_the_next_subscription(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.client.link._TENDING", 3600.0)
    runtime, line = talk()
    abandoned = [beyond.call(lambda: runtime.events.stream("s").cursor) for _ in range(2)]
    ids = {line.hear("subscribe")["id"] for _ in abandoned}  # both ask before one of them is answered and abandoned
    for id_ in ids:
        line.say("subscribed", id=id_, after=0)
    assert [call.result() for call in abandoned] == [0, 0]
    wait_until(lambda: len(runtime._link.abandoned) == 2)

    beyond.call(lambda: runtime.events.stream("t"))

    assert {line.hear("unsubscribe")["id"] for _ in ids} == ids
    assert line.subscribed()["topic"] == "t"


def test_what_was_dealt_with_is_acknowledged_when_it_is_abandoned(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.client.link._TENDING", 0.01)
    runtime, line = talk()

    def look() -> list[int | None]:
        subscription = runtime.events.subscribe("s", "me")
        held(subscription, 3)
        return cursors(subscription, 3)

    looking = beyond.call(look)
    id_ = line.subscribed()["id"]

    line.events(id_, event(1), event(2), event(3))

    assert looking.result() == [1, 2, 3]
    acked = line.hear("ack")
    assert (acked["id"], acked["cursor"]) == (id_, 2)
    line.say("acked", id=id_, cursor=2)
    assert line.hear("unsubscribe")["id"] == id_


def test_a_subscription_may_be_let_go_of_in_the_middle_of_anything(
    talk: Talk, beyond: Beyond, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.client.link._TENDING", 0.01)
    runtime, line = talk()
    held: list[RemoteSubscription] = []
    subscribing = beyond.call(lambda: held.append(runtime.events.stream("s")))
    id_ = line.subscribed()["id"]
    subscribing.result()

    with runtime._link._thread._lock, held[0]._buffer._changed:
        held.clear()
        gc.collect()

    assert line.hear("unsubscribe")["id"] == id_


def test_what_is_let_go_of_after_the_end_is_no_harm(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    held: list[RemoteSubscription] = []
    subscribing = beyond.call(lambda: held.append(runtime.events.stream("s")))
    line.subscribed()
    subscribing.result()
    runtime.close()

    held.clear()
    gc.collect()

    assert len(runtime._link.abandoned) == 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscriptions hold ten events."""
    monkeypatch.setattr(module, "MOST", 10)


@pytest.mark.usefixtures("small")
def test_a_consumer_that_is_slow_leaves_with_the_server_what_has_no_room(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)

    line.events(id_, *events(1, 30))
    assert line.hear("unsubscribe")["id"] == id_
    line.events(id_, event(31))
    assert cursors(subscription, 4) == [1, 2, 3, 4]
    assert line.is_silent()
    assert cursors(subscription, 1) == [5]
    asked = line.subscribed()
    line.events(asked["id"], event(11), event(12))

    assert asked["after"] == 10
    assert asked["id"] != id_
    assert cursors(subscription, 7) == [6, 7, 8, 9, 10, 11, 12]


@pytest.mark.usefixtures("small")
def test_one_slow_consumer_holds_up_no_other_and_no_request(follow: Follow, talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    slow_, quick_ = (beyond.call(lambda name=name: runtime.events.stream(name)) for name in ("slow", "quick"))  # type: ignore[misc]
    ids = {asked["topic"]: asked["id"] for asked in (line.subscribed() for _ in range(2))}
    slow, quick = slow_.result(), quick_.result()

    for cursor in range(1, 50):
        line.events(ids["slow"], event(cursor, session_id="slow"))
        line.events(ids["quick"], event(cursor, session_id="quick"))
        assert cursors(quick, 1) == [cursor]

    assert line.hear("unsubscribe")["id"] == ids["slow"]
    assert len(slow._buffer._events) == 10


@pytest.mark.usefixtures("small")
def test_a_consumer_that_is_full_can_acknowledge(follow: Follow, beyond: Beyond) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, *events(1, 30))
    line.hear("unsubscribe")
    assert cursors(subscription, 1) == [1]

    call = beyond.call(subscription.ack)
    asked = line.subscribed()
    assert (asked["after"], line.hear("ack")["cursor"]) == (10, 1)
    line.events(asked["id"], *events(11, 30))
    line.say("acked", id=asked["id"], cursor=1)

    call.result()
    assert line.hear("unsubscribe")["id"] == asked["id"]
    assert cursors(subscription, 10) == list(range(2, 12))
    assert line.subscribed()["after"] == 11


@pytest.mark.usefixtures("small")
def test_who_was_full_when_the_connection_broke_goes_on_when_there_is_room(follow: Follow, scripted: Scripted) -> None:
    subscription, line, id_ = follow(auto_ack=False)
    line.events(id_, *events(1, 30))
    line.hear("unsubscribe")
    line.drop()
    line = scripted.line()
    assert line.is_silent()

    assert cursors(subscription, 5) == [1, 2, 3, 4, 5]

    assert line.subscribed()["after"] == 10


def test_what_is_held_is_bounded_in_bytes(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 5000)
    subscription, line, id_ = follow(auto_ack=False)

    line.events(id_, *(event(cursor, data={"text": "x" * 1000}) for cursor in range(1, 31)))
    line.hear("unsubscribe")

    assert 5000 <= subscription._buffer._bytes <= 6500
    taken = cursors(subscription, len(subscription._buffer._events))
    assert taken == list(range(1, len(taken) + 1))
    assert line.subscribed()["after"] == len(taken)


def test_closing_the_runtime_ends_an_iteration_behind_what_has_come(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.stream("s"))
    id_ = line.subscribed()["id"]
    stream = call.result()
    iterating = beyond.call(lambda: [envelope.cursor for envelope in stream])
    line.events(id_, event(1), event(2))
    wait_until(lambda: stream.cursor == 2)

    runtime.close()

    assert iterating.result() == [1, 2]
    assert stream.closed
    assert stream.next() is None


def test_closing_the_runtime_wakes_who_is_subscribing(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk(timeout=None)
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))
    line.hear("subscribe")

    runtime.close()

    with pytest.raises(RuntimeClosedError):
        call.result()


def test_it_is_followed_by_asyncio_too(talk: Talk, beyond: Beyond, scripted: Scripted) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.subscribe("s", "me"))
    id_ = line.subscribed()["id"]
    subscription = call.result()

    async def consume() -> list[int | None]:
        found: list[int | None] = []
        async with subscription:
            async for envelope in subscription:
                found.append(envelope.cursor)
                if envelope.cursor == 2:
                    await subscription.aack()
                if envelope.cursor == 4:
                    break
        return found

    consuming = beyond.call(lambda: asyncio.run(consume()))
    line.events(id_, event(1), event(2))
    while (acked := line.hear("ack")["cursor"]) != 2:
        assert acked == 1
    line.say("acked", id=id_, cursor=2)
    line.drop()
    line = scripted.line()
    id_ = line.subscribed()["id"]
    line.events(id_, event(3), event(4))
    assert line.hear("ack")["cursor"] == 3
    line.say("acked", id=id_, cursor=3)

    assert consuming.result() == [1, 2, 3, 4]


def test_an_asyncio_consumer_ends_with_the_runtime_and_may_be_cancelled(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.events.stream("s"))
    line.subscribed()
    stream = call.result()

    async def consume() -> list[Any]:
        impatient = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        assert impatient.cancelled()
        assert stream._buffer._watchers == []
        asyncio.get_running_loop().run_in_executor(None, runtime.close)
        return [envelope async for envelope in stream]

    assert asyncio.run(consume()) == []


def test_a_loop_that_is_gone_is_no_harm(follow: Follow) -> None:
    subscription, line, id_ = follow()
    loop = asyncio.new_event_loop()
    task = loop.create_task(subscription._buffer.wait_async())
    loop.run_until_complete(asyncio.sleep(0))
    subscription._buffer._watchers *= 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()

    line.events(id_, event(1))

    assert cursors(subscription, 1) == [1]


def test_a_consumer_that_never_waits_lets_other_tasks_of_its_loop_go_on(
    follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REST", 10)
    subscription, line, id_ = follow()
    line.events(id_, *events(1, 100))
    wait_until(lambda: len(subscription._buffer._events) == 100)

    async def consume() -> list[int]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        seen = [(await anext(subscription)).cursor or 0 for _ in range(100)]
        task.cancel()
        assert turns > 5
        return seen

    assert asyncio.run(consume()) == list(range(1, 101))


Step: TypeAlias = tuple[str, int]


@given(
    st.lists(st.tuples(st.sampled_from(["send", "repeat", "drop", "take", "close"]), st.integers(1, 12)), max_size=25)
)
def test_whatever_happens_to_connections_each_event_is_handed_out_once_and_in_order(steps: list[Step]) -> None:
    from tests.client.playing import play  # noqa: PLC0415

    play(steps)
