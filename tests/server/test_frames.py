"""Each frame does what the protocol says, and nobody hears what is another's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from reenact import Runtime
from reenact.domain.operations.table import RESPONSES
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.server.conftest import Serve
from tests.server.talk import PATIENCE, Json, Talk, greeted, has_turned, talking

FIRST_TURN = [
    "session_created",
    "agent_started",
    "user_message",
    "turn_started",
    "agent_state_changed",
    "message_start",
    "agent_state_changed",
    "text_delta",
    "text_delta",
    "text_delta",
    "message_stop",
    "assistant_message",
    "agent_state_changed",
    "turn_completed",
]


def cursors(events: list[Json]) -> list[int]:
    return [event["cursor"] for event in events]


def test_a_hello_is_welcomed_with_what_the_server_allows(serve: Serve) -> None:
    server = serve(message_size=100_000, subscriptions=7)

    with talking(server) as talk:
        welcome = talk.hello()

    assert welcome["protocol"] == 1
    assert welcome["server"].startswith("reenact ")
    assert (welcome["max_message_size"], welcome["max_subscriptions"]) == (100_000, 7)


def test_the_subprotocol_is_accepted_if_it_is_asked_for(server: Server) -> None:
    url = server.url.replace("http", "ws", 1) + "/ws"

    with (
        connect(url, subprotocols=[Subprotocol("other"), Subprotocol("reenact.v1")]) as asking,
        connect(url) as silent,
    ):
        assert asking.subprotocol == "reenact.v1"
        assert silent.subprotocol is None


def test_a_request_is_answered_with_the_envelope_of_its_response(talk: Talk) -> None:
    talk.say("request", id="mine", request="container_create_request", data={"container_id": "room", "name": "Room"})

    answer = talk.hear("response")

    assert answer["id"] == "mine"
    envelope = answer["response"]
    assert (envelope["type"], envelope["intent"], envelope["cursor"]) == ("container_create_response", "result", None)
    assert envelope["data"]["request_id"] == "mine"
    assert envelope["data"]["result"]["name"] == "Room"
    assert envelope["data"]["error"] is None


def test_what_the_facade_raises_is_the_error_of_the_response(talk: Talk) -> None:
    answer = talk.ask("session_run_request", session_id="nowhere")

    assert answer["result"] is None
    assert answer["error"] == {
        "code": "session_not_found",
        "message": "session 'nowhere' does not exist",
        "details": {"id": "nowhere"},
    }


def test_data_that_does_not_fit_is_the_error_of_the_response(talk: Talk) -> None:
    answer = talk.ask("session_run_request", session="nowhere")

    assert answer["error"]["code"] == "invalid_input"
    assert "session_id" in answer["error"]["message"]


@pytest.mark.parametrize("request_", ["text_delta", "container_create_response", "session_created", "", "x" * 1000])
def test_nothing_but_requests_can_be_asked_for(talk: Talk, runtime: Runtime, request_: str) -> None:
    heard: list[str] = []
    runtime.events.on_all(lambda event: heard.append(event.type))

    talk.say("request", id="forged", request=request_, data={"text": "said by nobody"})

    refused = talk.hear("error")
    assert (refused["id"], refused["code"]) == ("forged", "unknown_command")
    assert talk.ask("container_list_request")["result"] == []
    assert set(heard) <= {"container_list_request", "container_list_response"}


def test_the_id_of_a_request_is_that_of_its_frame_whatever_its_data_says(talk: Talk) -> None:
    answer = talk.ask_as("outer", "container_list_request", request_id="inner")

    assert answer["request_id"] == "outer"


def test_a_subscription_replays_and_goes_on_without_gap_or_overlap(talk: Talk, session_id: str) -> None:
    talk.ask("message_send_request", session_id=session_id, content="Hello")

    subscribed = talk.subscribe("s", session_id)
    events = list(talk.follow("s", has_turned))
    talk.ask("message_send_request", session_id=session_id, content="Again")
    both = talk.follow("s", lambda found: has_turned(found[len(events) :]))

    assert subscribed["after"] == 0
    assert [event["type"] for event in events] == FIRST_TURN
    assert cursors(both) == list(range(1, len(both) + 1))


def test_a_subscription_begins_behind_the_cursor_that_is_asked_for(talk: Talk, session_id: str) -> None:
    talk.ask("message_send_request", session_id=session_id, content="Hello")
    talk.subscribe("all", session_id)
    talk.follow("all", has_turned)

    subscribed = talk.subscribe("late", session_id, after=9)

    assert (subscribed["after"], subscribed["end"]) == (9, 14)
    assert cursors(talk.follow("late", has_turned)) == [10, 11, 12, 13, 14]


def test_what_is_acknowledged_is_where_the_client_goes_on(server: Server, session_id: str) -> None:
    with greeted(server) as talk:
        talk.ask("message_send_request", session_id=session_id, content="Hello")
        talk.subscribe("s", session_id, client_id="ada")
        talk.follow("s", has_turned)
        talk.say("ack", id="s", cursor=12)
        assert talk.hear("acked") == {"type": "acked", "id": "s", "cursor": 12}
        talk.say("ack", id="s", cursor=3)
        talk.hear("acked")

    with greeted(server) as again, greeted(server) as other:
        assert again.subscribe("s", session_id, client_id="ada")["after"] == 12
        assert cursors(again.follow("s", has_turned)) == [13, 14]
        assert other.subscribe("s", session_id, client_id="bob")["after"] == 0


def test_an_acknowledgement_that_came_before_the_connection_was_lost_counts(server: Server, session_id: str) -> None:
    with greeted(server) as talk:
        talk.ask("message_send_request", session_id=session_id, content="Hello")
        talk.subscribe("s", session_id, client_id="ada")
        talk.follow("s", has_turned)
        for cursor in range(1, 15):
            talk.say("ack", id="s", cursor=cursor)

    def begins() -> object:
        with greeted(server) as again:
            return again.subscribe("s", session_id, client_id="ada")["after"]

    wait_until(lambda: begins() == 14, what="what was sent on the first connection to be dealt with")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "subscribe", "id": "a", "topic": "nowhere"}, "session_not_found"),
        ({"type": "subscribe", "id": "a", "topic": "talks", "after": 99}, "invalid_input"),
        ({"type": "subscribe", "id": "a", "topic": "talks", "after": -1}, "invalid_input"),
        ({"type": "subscribe", "id": "a", "topic": "talks", "after": 10**30}, "invalid_input"),
        ({"type": "ack", "id": "taken", "cursor": 10**30}, "invalid_input"),
        ({"type": "listen", "id": "a", "after": {"talks": 10**30}}, "invalid_input"),
        ({"type": "subscribe", "id": "a", "topic": "talks", "client_id": " "}, "invalid_input"),
        ({"type": "subscribe", "id": "taken", "topic": "talks"}, "already_exists"),
        ({"type": "subscribe", "id": " ", "topic": "talks"}, "invalid_input"),
        ({"type": "subscribe", "id": "x" * 2000, "topic": "talks"}, "invalid_input"),
        ({"type": "listen", "id": "a", "types": ["nonsense"]}, "unknown_event_type"),
        ({"type": "listen", "id": "a", "types": []}, "invalid_input"),
        ({"type": "listen", "id": "a", "types": ["message_send_response"]}, "invalid_input"),
        ({"type": "listen", "id": "a", "after": {"nowhere": 1}}, "session_not_found"),
        ({"type": "ack", "id": "a", "cursor": 1}, "subscription_not_found"),
        ({"type": "ack", "id": "taken", "cursor": 99}, "invalid_input"),
        ({"type": "ack", "id": "taken", "cursor": 1}, "invalid_input"),
        ({"type": "unsubscribe", "id": "a"}, "subscription_not_found"),
        ({"type": "hello"}, "protocol"),
    ],
)
def test_what_cannot_be_accepted_is_refused_and_the_connection_goes_on(
    talk: Talk, session_id: str, frame: dict[str, Any], code: str
) -> None:
    talk.subscribe("taken", session_id)

    talk.connection.send(json.dumps(frame))

    refused = talk.hear("error")
    assert (refused["id"], refused["code"]) == (frame.get("id"), code)
    assert talk.ask("container_list_request")["error"] is None
    assert talk.subscribe("after all", session_id)["after"] == 0


def test_nothing_comes_for_a_subscription_that_has_ended(talk: Talk, session_id: str) -> None:
    talk.subscribe("s", session_id)
    talk.subscribe("t", session_id)
    talk.follow("s", lambda events: len(events) == 1)

    talk.say("unsubscribe", id="s")
    ended = talk.hear("ended")
    talk.ask("message_send_request", session_id=session_id, content="Hello")
    talk.follow("t", has_turned)

    assert ended == {"type": "ended", "id": "s", "reason": "unsubscribed"}
    assert len(talk.events["s"]) == 1


def test_an_id_can_be_used_again_when_its_subscription_has_ended(talk: Talk, session_id: str) -> None:
    talk.ask("message_send_request", session_id=session_id, content="Hello")
    for _ in range(20):
        talk.say("subscribe", id="s", topic=session_id)
        talk.say("unsubscribe", id="s")
    for _ in range(20):
        talk.hear("subscribed")
        talk.hear("ended")
    talk.events.clear()

    talk.subscribe("s", session_id, after=5)

    events = talk.follow("s", has_turned)
    assert cursors(events) == list(range(6, 15))


def test_a_deleted_session_is_followed_to_its_end_and_acknowledged(talk: Talk, session_id: str) -> None:
    talk.subscribe("s", session_id, client_id="ada")
    talk.follow("s", lambda events: len(events) == 1)

    talk.say("request", id="r", request="session_delete_request", data={"session_id": session_id})
    frames = [talk.hear(), talk.hear()]
    talk.say("ack", id="s", cursor=talk.events["s"][-1]["cursor"])
    acked = talk.hear("acked")
    talk.say("unsubscribe", id="s")

    assert {"type": "ended", "id": "s", "reason": "deleted"} in frames
    assert talk.events["s"][-1]["type"] == "session_deleted"
    assert acked["cursor"] == talk.events["s"][-1]["cursor"]
    assert talk.ask("session_get_request", session_id=session_id)["result"] is None


def test_who_listens_hears_all_sessions_and_what_belongs_to_none(talk: Talk) -> None:
    talk.say("listen", id="l")
    listening = talk.hear("subscribed")
    talk.ask("container_create_request", container_id="room")
    talk.ask("message_send_request", image_id="chat", container_id="room", content="Hello")

    events = talk.follow("l", has_turned)

    assert listening["after"] is None
    assert [event["type"] for event in events] == ["container_created", *FIRST_TURN]


def test_who_listens_to_types_hears_these(talk: Talk) -> None:
    talk.say("listen", id="l", types=["turn_completed", "text_delta"])
    talk.hear("subscribed")

    talk.ask("message_send_request", image_id="chat", content="Hello")

    events = talk.follow("l", has_turned)
    assert [event["type"] for event in events] == ["text_delta"] * 3 + ["turn_completed"]


def test_who_listens_again_first_hears_what_was_missed(server: Server, session_id: str) -> None:
    with greeted(server) as talk:
        talk.ask("message_send_request", session_id=session_id, content="Hello")
        talk.subscribe("s", session_id)
        talk.follow("s", has_turned)

    with greeted(server) as again:
        again.say("listen", id="l", after={session_id: 4})
        again.hear("subscribed")

        assert cursors(again.follow("l", has_turned)) == list(range(5, 15))


def test_a_client_that_only_asks_hears_its_own_responses_and_nothing_else(server: Server, runtime: Runtime) -> None:
    with greeted(server) as asking, greeted(server) as listening, greeted(server) as silent:
        listening.say("listen", id="l")
        listening.hear("subscribed")
        asking.ask("message_send_request", image_id="chat", content="Hello")
        events = listening.follow("l", has_turned)
        runtime.request("container_list_request", {})
        silent.say("request", id="last", request="container_list_request")
        asking.say("request", id="last", request="container_list_request")

        assert silent.hear("response")["id"] == "last"
        assert asking.hear("response")["id"] == "last"
        assert silent.events == asking.events == {}
    assert not {event["type"] for event in events} & {*RESPONSES, *(kind.event_type for kind in RESPONSES.values())}


def test_what_a_client_asked_for_happens_although_it_has_gone(
    server: Server, runtime: Runtime, mock: MockEnvironmentFactory
) -> None:
    with greeted(server) as talk:
        for number in range(40):
            talk.say(
                "request", id=f"c{number}", request="container_create_request", data={"container_id": f"c{number}"}
            )

    wait_until(lambda: len(runtime.containers.list()) == 40, PATIENCE, "all containers")


def test_a_runtime_that_closes_tells_its_followers(server: Server, runtime: Runtime, session_id: str) -> None:
    with greeted(server) as talk:
        talk.subscribe("s", session_id)
        talk.say("listen", id="l")
        talk.hear("subscribed")

        runtime.close()

        ended = [talk.hear("ended"), talk.hear("ended")]
        talk.say("request", id="r", request="container_list_request")
        response = talk.hear("response")
    assert {(one["id"], one["reason"]) for one in ended} == {("s", "closed"), ("l", "closed")}
    assert response["response"]["data"]["error"]["code"] == "runtime_closed"
