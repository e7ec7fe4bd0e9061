"""Requests to a server that fails in every way: each is answered once, or it is said that it was not in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from reenact import (
    AgentNotFoundError,
    AlreadyExistsError,
    AsyncRuntime,
    CallNotPendingError,
    InvalidInputError,
    ReenactError,
    RequestTimeoutError,
    SessionNotFoundError,
    UnknownCommandError,
)
from reenact.client.runtime import RemoteRuntime
from reenact.domain.errors import ProtocolError, RemoteError, RequestReusedError
from reenact.domain.operations.table import refusal_of
from reenact.domain.stream.frames import BAD_FRAME
from tests.client.conftest import Waits
from tests.client.scripted import Beyond, Line, Scripted, event

Talk: TypeAlias = Callable[..., tuple[RemoteRuntime, Line]]
REFUSED = {"code": "session_not_found", "message": "There is no session 's'.", "details": {"session_id": "s"}}
ANSWERS: list[object] = [5, None, {"id": 5}, "text"]


def test_a_request_bears_an_id_of_its_own_and_the_time_that_it_has(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk(timeout=7.0)

    first, second = (beyond.call(runtime.containers.list) for _ in range(2))
    asked = [line.hear("request") for _ in range(2)]
    for one in asked:
        line.answer(one, result=[])

    assert (first.result(), second.result()) == ([], [])
    assert asked[0]["id"] != asked[1]["id"]
    assert all(6.0 < one["timeout"] <= 7.0 and one["data"] == {} for one in asked)


def test_answers_that_come_in_another_order_twice_or_for_nobody_reach_who_asked(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    calls = {name: beyond.call(lambda name=name: runtime.sessions.run(name)) for name in "abc"}  # type: ignore[misc]
    asked = {one["data"]["session_id"]: one for one in (line.hear("request") for _ in calls)}

    line.answer({**asked["a"], "id": "nobody's"}, result="wrong")
    for name in "cab":
        line.answer(asked[name], result=f"agent of {name}")
        line.answer(asked[name], result="again")

    assert {name: call.result() for name, call in calls.items()} == {name: f"agent of {name}" for name in "abc"}


def test_what_was_not_answered_is_asked_again_on_the_next_connection_under_the_same_id(
    talk: Talk, scripted: Scripted, beyond: Beyond
) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))
    before = line.hear("request")

    line.drop()
    line = scripted.line()
    after = line.hear("request")
    line.answer(after, result="agent")

    assert call.result() == "agent"
    assert (after["id"], after["request"], after["data"]) == (before["id"], before["request"], before["data"])
    assert after["timeout"] <= before["timeout"]


def test_what_was_answered_is_not_asked_again(talk: Talk, scripted: Scripted, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(runtime.agents.list)
    line.answer(line.hear("request"), result=[])
    call.result()

    line.drop()

    assert scripted.line().is_silent()


@pytest.mark.parametrize("breaks", [1, 5])
def test_a_connection_may_break_any_number_of_times_before_the_answer_comes(
    talk: Talk, scripted: Scripted, beyond: Beyond, waits: Waits, breaks: int
) -> None:
    runtime, line = talk()
    call = beyond.call(runtime.images.list)

    for _ in range(breaks):
        line.hear("request")
        line.drop()
        line = scripted.line()
    line.answer(line.hear("request"), result=[])

    assert call.result() == []
    assert len(waits.asked) == breaks
    assert runtime.failure is None


def test_what_is_asked_for_while_there_is_no_connection_waits_for_one(
    talk: Talk, scripted: Scripted, beyond: Beyond, waits: Waits
) -> None:
    runtime, line = talk()
    waits.at_once = False
    line.drop()
    _wait_for(waits, 1)

    call = beyond.call(runtime.containers.list)
    waits.pass_()
    line = scripted.line()
    line.answer(line.hear("request"), result=[])

    assert call.result() == []


def test_without_an_answer_in_time_it_is_said_so_and_the_request_is_forgotten(talk: Talk, scripted: Scripted) -> None:
    runtime, line = talk(timeout=0.5)

    with pytest.raises(RequestTimeoutError, match=r"session_run_request was not answered within 0\.5 s"):
        runtime.sessions.run("s")
    line.hear("request")
    line.drop()

    assert scripted.line().is_silent()


OF_QUESTION_AND_REQUEST = [
    (0, 30.0, 5.0),
    (6, 30.0, 6.0),
    (6, None, 6.0),
    (60, 30.0, 30.0),
    (6, 2.0, 2.0),
    (None, 30.0, 30.0),
]


@pytest.mark.parametrize(("timeout", "of_connection", "expected"), OF_QUESTION_AND_REQUEST)
def test_a_request_for_a_question_has_the_time_of_the_question_and_5_seconds_at_least(
    talk: Talk, beyond: Beyond, timeout: float | None, of_connection: float | None, expected: float
) -> None:
    runtime, line = talk(timeout=of_connection)

    for question in (
        lambda: runtime.ask("Hello", session="s", timeout=timeout),
        lambda: runtime.turns.wait("t", timeout),
    ):
        asked = beyond.call(question)
        request = line.hear("request")
        line.answer(request, error=REFUSED)
        assert expected - 1 < request["timeout"] <= expected
        with pytest.raises(SessionNotFoundError):
            asked.result()


@pytest.mark.parametrize(("timeout", "of_connection", "expected"), OF_QUESTION_AND_REQUEST)
def test_a_request_for_a_question_of_a_coroutine_has_the_same_time(
    scripted: Scripted, beyond: Beyond, timeout: float | None, of_connection: float | None, expected: float
) -> None:
    async def ask() -> None:
        async with AsyncRuntime.connect(scripted.url, timeout=of_connection) as runtime:
            with pytest.raises(SessionNotFoundError):
                await runtime.ask("Hello", session="s", timeout=timeout)
            with pytest.raises(SessionNotFoundError):
                await runtime.turns.wait("t", timeout)

    asked = beyond.call(lambda: asyncio.run(ask()))
    line = scripted.line()
    for _ in range(2):
        request = line.hear("request")
        line.answer(request, error=REFUSED)
        assert expected - 1 < request["timeout"] <= expected
    asked.result()


def test_an_answer_that_comes_too_late_is_ignored(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk(timeout=0.5)
    with pytest.raises(RequestTimeoutError):
        runtime.sessions.run("s")
    late = line.hear("request")

    call = beyond.call(lambda: runtime.request("container_list_request", {}, timeout=60))
    next_ = line.hear("request")
    line.answer(late, result="late")
    line.answer(next_, result=["the right one"])

    assert call.result().data.result == ["the right one"]


def test_a_time_out_of_the_servers_own_is_raised_as_one(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))

    line.answer(line.hear("request"), error={"code": "timeout", "message": "no reply within 3 s"})

    with pytest.raises(RequestTimeoutError, match="no reply within 3 s"):
        call.result()


def test_a_refusal_because_of_a_time_out_is_raised_as_one(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))

    line.say("error", id=line.hear("request")["id"], code="timeout", message="too busy")

    with pytest.raises(RequestTimeoutError, match="too busy"):
        call.result()


def test_no_time_out_waits_for_as_long_as_it_takes(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk(timeout=None)
    call = beyond.call(lambda: runtime.sessions.run("s"))

    asked = line.hear("request")
    line.answer(asked, result="agent")

    assert (asked["timeout"], call.result()) == (None, "agent")


@pytest.mark.parametrize(
    "error",
    [
        SessionNotFoundError("s"),
        AgentNotFoundError("a"),
        AlreadyExistsError("session", "s"),
        CallNotPendingError("c", "it was decided already"),
        InvalidInputError("no"),
        ReenactError("something else"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_is_raised_as_the_facade_raises_it(talk: Talk, beyond: Beyond, error: ReenactError) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))
    refusal = refusal_of(error)

    line.answer(
        line.hear("request"), error={"code": refusal.code, "message": refusal.message, "details": refusal.details}
    )

    with pytest.raises(type(error)) as raised:
        call.result()
    assert (type(raised.value), str(raised.value), vars(raised.value)) == (type(error), str(error), vars(error))


def test_an_error_that_is_not_known_keeps_its_code(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.sessions.run("s"))

    line.answer(line.hear("request"), error={"code": "out_of_stock", "message": "none is left"})

    with pytest.raises(RemoteError, match="none is left") as raised:
        call.result()
    assert raised.value.code == "out_of_stock"


def test_a_request_that_the_server_cannot_even_answer_is_refused(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.request("container_list_request", {"request_id": "mine"}))

    line.say("error", id=line.hear("request")["id"], code="request_reused", message="it was used for another")

    with pytest.raises(RequestReusedError, match="used for another") as raised:
        call.result()
    assert raised.value.request_id == "mine"


def test_a_server_that_is_closing_is_asked_again_when_it_is_back(
    talk: Talk, scripted: Scripted, beyond: Beyond
) -> None:
    runtime, line = talk()
    calls = [beyond.call(lambda: runtime.sessions.run("s")) for _ in range(2)]
    first, second = (line.hear("request") for _ in calls)

    line.answer(first, error={"code": "runtime_closed", "message": "the runtime is closed"})
    line.say("error", id=second["id"], code="runtime_closed", message="the server is ending")
    line.close()
    line = scripted.line()
    for _ in calls:
        line.answer(line.hear("request"), result="agent")

    assert [call.result() for call in calls] == ["agent", "agent"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_to_another_question_is_a_mistake_of_the_server(talk: Talk, beyond: Beyond, answer: object) -> None:
    runtime, line = talk()
    call = beyond.call(runtime.containers.list)

    line.answer(line.hear("request"), result=answer)

    with pytest.raises(ProtocolError, match="not an answer to it"):
        call.result()


def test_a_response_that_is_none_is_a_mistake_of_the_server(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(runtime.containers.list)

    line.say("response", id=line.hear("request")["id"], response={"data": "nothing"})

    with pytest.raises(ProtocolError, match="a malformed response"):
        call.result()


@pytest.mark.parametrize("garbage", ["{", "[]", '{"type": "acked"}', "{}", b"\x00\xff"])
def test_garbage_ends_the_connection_and_the_next_one_goes_on(
    talk: Talk, scripted: Scripted, beyond: Beyond, garbage: str | bytes
) -> None:
    runtime, line = talk()
    call = beyond.call(runtime.containers.list)
    line.hear("request")

    line.say_raw(garbage)
    assert line.is_closed()
    line = scripted.line()
    line.answer(line.hear("request"), result=[])

    assert call.result() == []


def test_a_second_welcome_ends_the_connection(talk: Talk, scripted: Scripted) -> None:
    _, line = talk()

    line.say("welcome", protocol=1, server="x", max_message_size=1, max_subscriptions=1)

    assert line.is_closed()
    scripted.line()


def test_what_is_about_nothing_is_ignored(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()

    for id_ in ("1", "999"):
        line.say("subscribed", id=id_, after=0)
        line.say("acked", id=id_, cursor=5)
        line.say("ended", id=id_, reason="deleted")
        line.say("error", id=id_, code="subscription_not_found", message="there is none")
        line.events(id_, event(1))
    line.say("error", code="invalid_frame", message="what was that?")
    call = beyond.call(runtime.containers.list)
    line.answer(line.hear("request"), result=[])

    assert call.result() == []


def test_what_the_server_takes_no_message_as_large_for_is_not_sent(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()

    with pytest.raises(InvalidInputError, match=r"the request has \d+ bytes; the server takes at most 100000"):
        runtime.agents.receive("a", "x" * 100_000)
    call = beyond.call(runtime.containers.list)

    line.answer(line.hear("request"), result=[])
    assert call.result() == []


@pytest.mark.parametrize("code", [1009, BAD_FRAME])
def test_a_request_over_which_servers_end_connections_is_given_up(
    talk: Talk, scripted: Scripted, beyond: Beyond, code: int
) -> None:
    runtime, line = talk()
    call = beyond.call(runtime.containers.list)

    for _ in range(2):
        line.hear("request")
        line.close(code)
        line = scripted.line()
    line.hear("request")
    line.close(code)

    with pytest.raises(ProtocolError, match="ended 3 connections"):
        call.result()
    assert scripted.line().is_silent()


def test_requests_of_the_same_id_are_one_and_share_the_answer(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    ask: Callable[[], Any] = lambda: runtime.request("session_run_request", {"request_id": "r", "session_id": "s"})  # noqa: E731
    calls = [beyond.call(ask) for _ in range(2)]
    asked = [line.hear("request") for _ in calls]

    line.answer(asked[0], result="agent")

    assert [one["id"] for one in asked] == ["r", "r"]
    assert [call.result().data.result for call in calls] == ["agent", "agent"]


def test_another_request_of_an_id_that_is_under_way_is_refused(talk: Talk, beyond: Beyond) -> None:
    runtime, line = talk()
    call = beyond.call(lambda: runtime.request("session_run_request", {"request_id": "r", "session_id": "s"}))
    asked = line.hear("request")

    with pytest.raises(RequestReusedError, match="'r'"):
        runtime.request("session_run_request", {"request_id": "r", "session_id": "another"})

    line.answer(asked, result="agent")
    assert call.result().data.result == "agent"


@pytest.mark.parametrize(
    ("type_", "data", "error"),
    [
        ("dance_request", {}, UnknownCommandError),
        (5, {}, UnknownCommandError),
        ("container_list_request", [], InvalidInputError),
        ("container_list_request", None, InvalidInputError),
        ("container_list_request", {"request_id": ""}, InvalidInputError),
        ("container_list_request", {"request_id": 5}, InvalidInputError),
        ("container_get_request", {"container_id": "\ud800"}, InvalidInputError),
        ("container_get_request", {"container_id": {1, 2}.__iter__()}, InvalidInputError),
        ("container_get_request", {("a", "b"): 1}, InvalidInputError),
        ("container_create_request", {"container_id": float("nan")}, InvalidInputError),
        ("message_send_request", {"session_id": "s", "content": b"Hello"}, InvalidInputError),
        ("agent_respond_request", {"call_id": "c", "value": [float("inf")]}, InvalidInputError),
    ],
)
def test_what_cannot_be_asked_is_refused_and_not_sent(
    talk: Talk,
    type_: Any,  # noqa: ANN401 - anything
    data: Any,  # noqa: ANN401 - anything
    error: type[Exception],
) -> None:
    runtime, line = talk()

    with pytest.raises(error):
        runtime.request(type_, data)

    assert line.is_silent()


@pytest.mark.parametrize("timeout", ["1", True, float("nan")])
def test_a_time_out_is_a_number_of_seconds(talk: Talk, timeout: Any) -> None:  # noqa: ANN401 - anything
    runtime, line = talk()

    with pytest.raises(InvalidInputError, match="number of seconds"):
        runtime.request("container_list_request", {}, timeout=timeout)

    assert line.is_silent()


def test_many_threads_ask_over_one_connection_that_breaks_again_and_again(
    talk: Talk, scripted: Scripted, beyond: Beyond
) -> None:
    runtime, line = talk()
    calls = [beyond.call(lambda number=number: runtime.sessions.run(f"s{number}")) for number in range(40)]  # type: ignore[misc]
    answered: set[str] = set()

    while len(answered) < len(calls):
        for _ in range(7):
            if len(answered) == len(calls):
                break
            asked = line.hear("request")
            line.answer(asked, result=f"agent of {asked['data']['session_id']}")
            answered.add(asked["data"]["session_id"])
        if len(answered) < len(calls):
            line.drop()
            line = scripted.line()

    for number, call in enumerate(calls):
        assert call.result() == f"agent of s{number}"


def _wait_for(waits: Waits, count: int) -> None:
    happened = threading.Event()
    for _ in range(2000):
        if len(waits.asked) >= count:
            return
        happened.wait(0.005)
    raise AssertionError(waits.asked)
