"""Handlers of a remote runtime: each event in order, for all of them before the next, from when they joined on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from reenact import InvalidInputError, RequestTimeoutError, UnknownEventTypeError
from reenact.client import handlers, link
from reenact.client import handlers as module
from reenact.client.handlers import RemoteListener
from reenact.client.runtime import RemoteRuntime
from reenact.domain.errors import RemoteError
from reenact.domain.stream.events import Envelope
from reenact.testing import wait_until
from tests.client.scripted import Beyond, Called, Line, Scripted, event, events

Talk: TypeAlias = Callable[..., tuple[RemoteRuntime, Line]]


class Ears:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[Envelope] = []

    def __call__(self, envelope: Envelope) -> None:
        self.heard.append(envelope)

    @property
    def cursors(self) -> list[int | None]:
        return [envelope.cursor for envelope in self.heard]

    def wait(self, count: int) -> list[int | None]:
        """Return the cursors when there are so many."""
        wait_until(lambda: len(self.heard) >= count, what=f"{count} events")
        return self.cursors


class House:
    """A runtime with handlers, and the server that it hears."""

    def __init__(self, runtime: RemoteRuntime, line: Line, beyond: Beyond, scripted: Scripted) -> None:
        self.runtime = runtime
        self.line = line
        self.id: str | None = None
        self._beyond = beyond
        self._scripted = scripted

    def add(self, type_: str | None, handler: Callable[[Envelope], object], *between: dict[str, Any]) -> RemoteListener:
        """Let a handler join; `between` is told under both subscriptions before the one of before ends."""
        adding = self._beyond.call(lambda: self._on(type_, handler))
        asked = self.line.listened()
        listener: RemoteListener = adding.result()
        if self.id is not None:
            self.line.events(asked["id"], *between)
            self.line.events(self.id, *between)
            assert self.line.hear("unsubscribe")["id"] == self.id
            self.line.say("ended", id=self.id, reason="unsubscribed")
        self.id = asked["id"]
        return listener

    def join(self, type_: str, handler: Callable[[Envelope], object]) -> tuple[Called, str]:
        """Begin to let a handler join, and return its call and the id of what it asks to listen to."""
        joining = self._beyond.call(lambda: self._on(type_, handler))
        return joining, self.line.hear("listen")["id"]

    def tell(self, *events: dict[str, Any]) -> None:
        assert self.id is not None
        self.line.events(self.id, *events)

    def reconnect(self) -> dict[str, Any]:
        """Break the connection; return what is listened to over the next one."""
        self.line.drop()
        self.line = self._scripted.line()
        asked = self.line.listened()
        self.id = asked["id"]
        return asked

    def _on(self, type_: str | None, handler: Callable[[Envelope], object]) -> RemoteListener:
        return self.runtime.events.register(type_, handler, None)


@pytest.fixture
def house(talk: Talk, beyond: Beyond, scripted: Scripted) -> House:
    return House(*talk(), beyond, scripted)


def test_a_handler_hears_the_events_of_its_type_in_order(house: House) -> None:
    ears = Ears()
    house.add("text_delta", ears)

    house.tell(event(1), event(2))
    house.tell(event(3, session_id="other"), event(3))

    assert ears.wait(4) == [1, 2, 3, 3]
    assert [envelope.context.session_id for envelope in ears.heard] == ["s", "s", "other", "s"]


def test_only_the_types_that_somebody_wants_are_asked_for(talk: Talk, beyond: Beyond, scripted: Scripted) -> None:
    runtime, line = talk()
    wanted: list[object] = []

    for type_ in ("turn_completed", "text_delta", None):
        calling = beyond.call(
            lambda type_=type_: runtime.events.on_all(print) if type_ is None else runtime.events.on(type_, print)  # type: ignore[misc]
        )
        asked = line.listened()
        wanted.append(asked["types"])
        calling.result()
        if len(wanted) > 1:
            line.say("ended", id=line.hear("unsubscribe")["id"], reason="unsubscribed")

    assert wanted == [["turn_completed"], ["text_delta", "turn_completed"], None]


def test_only_the_sessions_that_somebody_wants_are_asked_for(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    wanted: list[object] = []

    for session_id in ("a", "b", None):
        calling = beyond.call(lambda session_id=session_id: runtime.events.on_all(print, session_id=session_id))  # type: ignore[misc]
        asked = line.listened()
        wanted.append(asked.get("sessions"))
        calling.result()
        if len(wanted) > 1:
            line.say("ended", id=line.hear("unsubscribe")["id"], reason="unsubscribed")

    assert wanted == [["a"], ["a", "b"], None]


def test_all_handlers_have_had_an_event_before_any_has_the_next(house: House) -> None:
    order: list[tuple[str, int | None]] = []
    house.add(None, lambda envelope: order.append(("first", envelope.cursor)))
    house.add("text_delta", lambda envelope: order.append(("second", envelope.cursor)))

    house.tell(event(1), event(2))

    wait_until(lambda: len(order) == 4)
    assert order == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]


def test_who_joins_hears_exactly_what_comes_from_then_on_and_nobody_misses_anything(house: House) -> None:
    early, late = Ears(), Ears()
    house.add("text_delta", early)
    house.tell(event(1), event(2))
    early.wait(2)

    house.add(None, late, event(3), event(4, type_="message_start", data={}))
    house.tell(event(5))

    assert late.wait(3) == [3, 4, 5]
    assert early.wait(4) == [1, 2, 3, 5]


def test_what_the_first_subscription_brings_late_is_not_lost(house: House) -> None:
    early, late = Ears(), Ears()
    house.add("text_delta", early)
    line, first = house.line, house.id

    joining, second = house.join("message_stop", late)
    house.tell(event(1))
    line.say("subscribed", id=second)
    joining.result()
    line.hear("unsubscribe")
    line.events(second, event(3), event(4, type_="message_stop", data={}))
    house.tell(event(2), event(3))
    line.say("ended", id=first, reason="unsubscribed")
    line.events(second, event(5))

    assert early.wait(4) == [1, 2, 3, 5]
    assert late.wait(1) == [4]


def test_who_has_left_hears_nothing_more(house: House) -> None:
    gone, there = Ears(), Ears()
    listener = house.add("text_delta", gone)
    house.add("text_delta", there)
    house.tell(event(1))
    gone.wait(1)

    with listener:
        pass
    listener()
    house.tell(event(2))

    assert there.wait(2) == [1, 2]
    assert gone.cursors == [1]


def test_when_all_have_left_the_server_need_not_tell_anything(house: House) -> None:
    ears = Ears()
    listener = house.add("text_delta", ears)
    house.tell(event(1))
    ears.wait(1)
    id_, house.id = house.id, None

    listener()
    assert house.line.hear("unsubscribe")["id"] == id_
    house.add("text_delta", ears)
    house.tell(event(5))

    assert ears.wait(2) == [1, 5]


def test_a_handler_may_leave_join_and_ask_while_it_is_called(house: House, beyond: Beyond) -> None:
    heard: list[object] = []
    ears = Ears()

    def handle(envelope: Envelope) -> None:
        heard.append(house.runtime.sessions.run("s"))
        listener()
        house.runtime.events.on("text_delta", ears)

    house.add("text_delta", Ears())  # somebody is always there
    listener = house.add("text_delta", handle)
    house.tell(event(1), event(2))
    house.line.answer(house.line.hear("request"), result="agent")
    asked = house.line.hear("listen")
    house.line.say("subscribed", id=asked["id"])
    house.line.say("ended", id=house.line.hear("unsubscribe")["id"], reason="unsubscribed")
    house.line.events(asked["id"], event(3))

    assert ears.wait(1) == [3]
    assert heard == ["agent"]


def test_a_handler_that_another_one_ends_hears_the_event_that_is_being_told_and_no_other(house: House) -> None:
    ends: list[RemoteListener] = []
    gone, there = Ears(), Ears()
    house.add("text_delta", lambda _: ends[0]())
    ends.append(house.add("text_delta", gone))
    house.add("text_delta", there)

    house.tell(event(1), event(2))

    assert there.wait(2) == [1, 2]
    assert [event.cursor for event in gone.heard] == [1]


def test_what_a_handler_raises_is_logged_and_harms_nobody(house: House, caplog: pytest.LogCaptureFixture) -> None:
    ears = Ears()

    def fail(_: Envelope) -> None:
        raise KeyError("handlers fail")

    house.add("text_delta", fail)
    house.add("text_delta", ears)
    with caplog.at_level(logging.ERROR, "reenact.events"):
        house.tell(event(1, id_="s:1"), event(2))
        assert ears.wait(2) == [1, 2]

    assert "a handler of 'text_delta' raised; the event was s:1" in caplog.text
    assert "handlers fail" in caplog.text


def test_an_event_that_cannot_be_read_is_logged_and_the_next_is_heard(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    ears = Ears()
    house.add("text_delta", ears)

    house.tell(event(1, data={"text": 5}), event(2))

    assert ears.wait(1) == [2]
    assert "could not be read" in caplog.text


def test_after_a_break_what_the_sessions_had_meanwhile_comes_first(house: House) -> None:
    ears = Ears()
    house.add("text_delta", ears)
    house.tell(event(1), event(2), event(7, session_id="other"), event(None, session_id=None, id_="evt"))
    ears.wait(4)

    asked = house.reconnect()
    house.tell(event(2), event(3), event(8, session_id="other"))

    assert (asked["types"], asked["after"]) == (["text_delta"], {"s": 2, "other": 7})
    assert ears.wait(6) == [1, 2, 7, None, 3, 8]


def test_so_many_sessions_are_remembered_and_no_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "SESSIONS", 2)
    ears = Ears()
    house.add("text_delta", ears)
    house.tell(*(event(1, session_id=name) for name in "abca"))
    house.tell(event(2, session_id="b"), event(2, session_id="c"))
    ears.wait(5)

    assert house.reconnect()["after"] == {"b": 2, "c": 2}


def test_a_break_while_one_joins_loses_nothing_for_the_others(house: House) -> None:
    early, late = Ears(), Ears()
    house.add("text_delta", early)
    house.tell(event(1))

    joining, second = house.join("message_stop", late)
    house.tell(event(2))
    house.line.events(second, event(4))
    asked = house.reconnect()
    joining.result()
    house.tell(event(3), event(4), event(5, type_="message_stop", data={}))

    assert (asked["types"], asked["after"]) == (["message_stop", "text_delta"], {"s": 2})
    assert early.wait(4) == [1, 2, 3, 4]
    assert late.wait(1) == [5]


def test_one_who_stood_when_the_connection_broke_hears_over_the_next(house: House) -> None:
    early, late = Ears(), Ears()
    house.add("text_delta", early)
    joining, second = house.join("text_delta", late)
    house.line.say("subscribed", id=second)
    joining.result()
    house.line.hear("unsubscribe")

    house.reconnect()
    house.tell(event(1))

    assert (early.wait(1), late.wait(1)) == ([1], [1])


@pytest.mark.parametrize("reason", ["closed", "lagging"])
def test_a_subscription_that_the_server_ends_is_taken_up_again(house: House, scripted: Scripted, reason: str) -> None:
    ears = Ears()
    house.add("text_delta", ears)
    house.tell(event(1))
    ears.wait(1)

    house.line.say("ended", id=house.id, reason=reason)
    if reason == "closed":
        assert house.line.is_silent()
        house.line.close()
        house.line = scripted.line()
    asked = house.line.listened()
    house.line.events(asked["id"], event(2))

    assert asked["after"] == {"s": 1}
    assert ears.wait(2) == [1, 2]


def test_one_that_ends_while_another_comes_makes_room_for_it(house: House) -> None:
    early, late = Ears(), Ears()
    house.add("text_delta", early)
    line = house.line
    joining, second = house.join("text_delta", late)

    house.tell(event(1))
    line.say("ended", id=house.id, reason="lagging")
    line.say("subscribed", id=second)
    line.events(second, event(2))
    joining.result()

    assert early.wait(2) == [1, 2]
    assert late.wait(1) == [2]


def test_a_server_that_refuses_one_who_joins_goes_on_telling_the_others(house: House) -> None:
    ears = Ears()
    house.add("text_delta", ears)

    joining, second = house.join("message_stop", print)
    house.tell(event(1))
    house.line.say("error", id=second, code="too_many_subscriptions", message="no more")
    with pytest.raises(RemoteError, match="no more"):
        joining.result()
    house.tell(event(2))

    assert ears.wait(2) == [1, 2]


def test_a_server_that_does_not_know_a_session_any_more_is_listened_to_all_the_same(house: House) -> None:
    ears = Ears()
    house.add("text_delta", ears)
    house.tell(event(1))
    ears.wait(1)
    house.line.drop()
    house.line = house._scripted.line()

    asked = house.line.hear("listen")
    house.line.say("error", id=asked["id"], code="session_not_found", message="session 's' does not exist")
    again = house.line.listened()
    house.line.events(again["id"], event(5))

    assert (asked["after"], again["after"]) == ({"s": 1}, {})
    assert ears.wait(2) == [1, 5]


def test_a_server_that_cannot_read_its_log_is_asked_again_for_what_was_missed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_PAUSE", 0.01)
    ears = Ears()
    house.add("text_delta", ears)
    house.tell(event(1))
    ears.wait(1)
    house.line.drop()
    house.line = house._scripted.line()

    house.line.say("error", id=house.line.hear("listen")["id"], code="log_unreachable", message="not now")
    again = house.line.listened()
    house.line.events(again["id"], event(2))

    assert again["after"] == {"s": 1}
    assert ears.wait(2) == [1, 2]


def test_a_server_that_refuses_to_tell_anything_is_said_so_in_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.add("text_delta", print)
    house.line.drop()
    house.line = house._scripted.line()

    house.line.say("error", id=house.line.hear("listen")["id"], code="forbidden", message="not for you")

    wait_until(lambda: "handlers receive no more events: not for you" in caplog.text)
    assert house.line.is_silent()


def test_a_server_that_is_closing_is_asked_again_when_it_is_back(
    talk: Talk, beyond: Beyond, scripted: Scripted
) -> None:
    runtime, line = talk()
    joining = beyond.call(lambda: runtime.events.on("text_delta", print))
    line.say("error", id=line.hear("listen")["id"], code="runtime_closed", message="the server is ending")
    line.close()

    scripted.line().listened()

    joining.result()


def test_without_an_answer_in_time_a_handler_does_not_join(talk: Talk) -> None:
    runtime, line = talk(timeout=0.5)
    ears = Ears()

    with pytest.raises(RequestTimeoutError, match="did not answer within"):
        runtime.events.on("text_delta", ears)
    asked = line.listened()
    line.events(asked["id"], event(1))

    assert line.hear("unsubscribe")["id"] == asked["id"]
    assert ears.heard == []


def test_what_nobody_could_hear_is_refused_and_not_sent(talk: Talk) -> None:
    runtime, line = talk()

    with pytest.raises(UnknownEventTypeError, match="aurora"):
        runtime.events.on("aurora", print)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(UnknownEventTypeError):
        runtime.events.on(5, print)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(InvalidInputError, match="cannot be called"):
        runtime.events.on_all("print")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert line.is_silent()


def test_an_acknowledgement_of_what_nobody_acknowledged_is_ignored(house: House) -> None:
    ears = Ears()
    house.add("text_delta", ears)

    house.line.say("acked", id=house.id, cursor=1)
    house.tell(event(1))

    assert ears.wait(1) == [1]


@pytest.fixture
def held(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Ears, threading.Event]]:
    """A handler that does not return until it is let go, in a house with room for ten events."""
    monkeypatch.setattr(house.runtime._handlers._events, "_most", 10)
    ears, go = Ears(), threading.Event()

    def slow(envelope: Envelope) -> None:
        ears(envelope)
        go.wait(60)

    house.add("text_delta", slow)
    yield ears, go
    go.set()


def test_handlers_that_are_too_slow_leave_events_with_the_server(
    house: House, held: tuple[Ears, threading.Event]
) -> None:
    ears, go = held
    house.tell(event(1))
    ears.wait(1)

    first, second = ([event(cursor) for cursor in range(begin, begin + 15)] for begin in (2, 17))
    batches = [{"id": house.id, "events": first}, {"id": house.id, "events": second}]
    house.line.say("events", batches=batches)
    assert house.line.hear("unsubscribe")["id"] == house.id
    assert house.line.is_silent()
    go.set()
    asked = house.line.listened()
    house.line.events(asked["id"], *events(12, 14))

    assert asked["after"] == {"s": 11}
    assert ears.wait(14) == list(range(1, 15))


def test_a_handler_may_join_while_there_is_no_room(
    house: House, held: tuple[Ears, threading.Event], beyond: Beyond
) -> None:
    ears, go = held
    house.tell(event(1))
    ears.wait(1)
    house.tell(*events(2, 30))
    house.line.hear("unsubscribe")
    late = Ears()

    beyond.call(lambda: house.runtime.events.on("text_delta", late)).result()
    go.set()
    asked = house.line.listened()
    house.line.events(asked["id"], event(12))

    assert late.wait(1) == [12]
    assert ears.wait(12) == list(range(1, 13))


def test_closing_lets_handlers_hear_what_has_come(house: House, held: tuple[Ears, threading.Event]) -> None:
    ears, go = held
    house.tell(event(1), event(2), event(3))
    ears.wait(1)
    wait_until(lambda: len(house.runtime._handlers._events._events) == 2)

    go.set()
    house.runtime.close()

    assert ears.cursors == [1, 2, 3]


def test_a_handler_that_does_not_return_is_left_behind(
    house: House,
    held: tuple[Ears, threading.Event],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.02)
    ears, go = held
    house.tell(event(1), event(2))
    ears.wait(1)
    wait_until(lambda: len(house.runtime._handlers._events._events) == 1)

    house.runtime.close()
    assert "a handler has not returned" in caplog.text
    go.set()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "reenact-client-handlers"])

    assert ears.cursors == [1]


def test_a_handler_may_close_the_runtime(house: House) -> None:
    closed = threading.Event()

    def close(_: Envelope) -> None:
        house.runtime.close()
        closed.set()

    house.add("text_delta", close)

    house.tell(event(1))

    assert closed.wait(60)
