"""Whatever comes in, it harms nobody but who sent it."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
import struct
import threading
import time

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed

from reenact.server import Server
from reenact.server.reading import MOST_VALUES, has_too_many_values
from reenact.server.transports import MOST_CHUNKS
from reenact.testing import wait_until
from tests.server.conftest import TOKEN, Serve
from tests.server.talk import PATIENCE, Talk, all_of, client_frame, greeted, handshake, plain, request_head, talking

NONSENSE = [
    "",
    " ",
    "null",
    "1",
    "[]",
    '"hello"',
    "{}",
    "{",
    '{"type": "hello"',
    '{"type": 1}',
    '{"type": null}',
    '{"type": "events", "batches": []}',
    '{"type": "welcome", "server": "me", "max_message_size": 1, "max_subscriptions": 1}',
    '{"type": "response", "id": "a", "response": {}}',
    '{"type": "publish", "id": "a"}',
    '{"type": "request", "id": "a"}',
    '{"type": "request", "id": 1, "request": "container_list_request"}',
    '{"type": "request", "id": "a", "request": "container_list_request", "data": []}',
    '{"type": "request", "id": "a", "request": "container_list_request", "admin": true}',
    '{"type": "request", "id": "a", "request": "container_list_request", "timeout": NaN}',
    '{"type": "request", "id": "a", "request": "container_list_request", "timeout": Infinity}',
    '{"type": "request", "id": "a", "request": "container_list_request", "timeout": "soon"}',
    '{"type": "subscribe", "id": "a", "topic": "t", "after": 1.5}',
    '{"type": "ack", "id": "a", "cursor": "1"}',
    '{"type": "ack", "id": "a", "cursor": true}',
    '{"type": "request", "id": "\\ud800", "request": "x"}',
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"type": "request", "id": "a", "request": "container_list_request", "data": '
    + '{"a":' * 50_000
    + "1"
    + "}" * 50_001,
]


def test_what_is_no_frame_is_refused_and_the_connection_goes_on(talk: Talk, subtests: pytest.Subtests) -> None:
    for text in NONSENSE:
        with subtests.test(text[:60]):
            talk.connection.send(text)

            assert talk.hear("error")["code"] == "invalid_frame"
            assert talk.ask("container_list_request")["error"] is None


def test_a_frame_that_is_refused_is_named_if_its_id_can_be_read(talk: Talk) -> None:
    talk.connection.send('{"type": "ack", "id": "mine", "cursor": "x"}')

    assert talk.hear("error")["id"] == "mine"


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        ("request", {"request": "message_send_request", "data": {"image_id": "chat", "content": "half \ud83d"}}),
        ("subscribe", {"topic": "\udc00", "after": 0}),
        ("subscribe", {"topic": "\U0001f600\ud800", "client_id": "me"}),
    ],
)
def test_a_frame_with_half_a_character_is_refused_by_its_id(talk: Talk, type_: str, fields: dict[str, object]) -> None:
    talk.say(type_, **fields, id="x1")
    refused = talk.hear("error")
    assert (refused["id"], refused["code"]) == ("x1", "invalid_frame")


def test_a_binary_message_is_refused_and_the_connection_goes_on(talk: Talk) -> None:
    talk.connection.send(b'{"type": "hello"}')

    assert talk.hear("error")["code"] == "invalid_frame"
    assert talk.ask("container_list_request")["error"] is None


@pytest.mark.parametrize(
    "first",
    [
        "nonsense",
        "{}",
        '{"type": "hello", "hacked": true}',
        json.dumps({"type": "hello", "ä" * 100: True}, ensure_ascii=False),
        json.dumps({"type": "hello", "x" + "😀" * 50: True}),
        '{"type": "ack", "id": "a", "cursor": 1}',
        b"\x00",
        "[" * 9999,
    ],
)
def test_a_first_frame_that_is_no_hello_ends_the_connection(server: Server, first: str | bytes) -> None:
    with talking(server) as talk:
        talk.connection.send(first)
        refused = json.loads(talk.connection.recv(timeout=PATIENCE))

        assert refused["type"] == "error"
        assert talk.closing()[0] == 4400


@pytest.mark.parametrize("protocol", [0, 2, -1, 10**30, "1", None, [1]])
def test_another_version_of_the_protocol_is_told_so(server: Server, protocol: object) -> None:
    with talking(server) as talk:
        talk.say("hello", protocol=protocol, something_new=True)
        refused = json.loads(talk.connection.recv(timeout=PATIENCE))

        assert (refused["type"], refused["code"]) == ("error", "protocol")
        assert "version 1" in refused["message"]
        assert f"the client {protocol!r:.20}" in refused["message"]
        assert talk.closing()[0] == 4400


def test_whoever_says_nothing_is_sent_away(serve: Serve) -> None:
    with talking(serve(hello_timeout=0.1)) as talk:
        assert talk.closing()[0] == 4408


def test_a_message_that_is_too_large_ends_the_connection(serve: Serve) -> None:
    server = serve(message_size=100_000)
    content = "x" * 99_000
    with greeted(server) as talk:
        refused = talk.ask("container_create_request", name=content)
        with contextlib.suppress(ConnectionClosed):
            talk.say("request", id="r", request="container_create_request", data={"name": content + content})

        assert refused["error"]["code"] == "invalid_input"
        assert talk.closing()[0] == 1009


def test_a_message_in_parts_that_is_too_large_together_ends_the_connection(serve: Serve) -> None:
    server = serve(message_size=100_000)
    with greeted(server) as talk:
        with contextlib.suppress(ConnectionClosed):
            talk.connection.send("x" * 60_000 for _ in range(3))

        assert talk.closing()[0] == 1009


def test_whoever_is_not_known_yet_cannot_send_much(server: Server) -> None:
    with talking(server) as talk:
        with contextlib.suppress(ConnectionClosed):
            talk.say("hello", token="x" * 100_000)

        assert talk.closing()[0] == 1009


def test_a_message_of_10_mib_is_taken(talk: Talk, session_id: str) -> None:
    content = "x" * (10 * 1024 * 1024)

    answer = talk.ask("message_send_request", session_id=session_id, content=content)

    assert answer["error"] is None


@pytest.mark.parametrize(
    "parts", [[(0x81, b'{"type": "hello\xff"}')], [(0x01, b'{"type": "\xe2\x82'), (0x80, b'hello"}')]]
)
def test_text_that_is_not_utf_8_ends_the_connection_and_is_no_error_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture, parts: list[tuple[int, bytes]]
) -> None:
    with plain(server) as connection:
        connection.sendall(handshake(server))
        connection.recv(65536)
        connection.sendall(b"".join(client_frame(first, payload) for first, payload in parts))

        assert all_of(connection)[2:4] == struct.pack(">H", 1007)
    server.stop()

    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_character_may_be_cut_between_two_fragments(talk: Talk) -> None:
    frame = json.dumps({"type": "request", "id": "€", "request": "container_list_request"}, ensure_ascii=False).encode()
    middle = frame.index("€".encode()) + 1

    talk.connection.socket.sendall(client_frame(0x01, frame[:middle]) + client_frame(0x80, frame[middle:]))

    assert talk.hear("response")["id"] == "€"


def test_random_bytes_harm_nobody(server: Server) -> None:
    chance = random.Random(7)
    with greeted(server) as bystander:
        for _ in range(50):
            with plain(server) as connection, contextlib.suppress(OSError):
                if chance.random() < 0.7:
                    connection.sendall(handshake(server))
                    connection.recv(65536)
                connection.sendall(chance.randbytes(3000))
                connection.shutdown(socket.SHUT_WR)
                all_of(connection)

        assert bystander.ask("container_list_request")["error"] is None
    assert httpx2.get(f"{server.url}/health").status_code == 200


def test_random_frames_harm_nobody(server: Server) -> None:
    chance = random.Random(8)
    frame = json.dumps({"type": "request", "id": "r", "request": "container_list_request", "data": {}})
    with greeted(server) as talk:
        for _ in range(300):
            text = [*frame]
            for _ in range(chance.randrange(1, 5)):
                text[chance.randrange(len(text))] = chr(chance.randrange(1, 0x250))
            talk.connection.send("".join(text))

        talk.say("request", id="last", request="container_list_request")
        while talk.hear().get("id") != "last":
            pass


def test_a_handshake_that_never_ends_is_cut(serve: Serve) -> None:
    server = serve(head_timeout=0.3)
    with plain(server) as connection:
        begun = time.monotonic()
        connection.sendall(handshake(server)[:40])

        assert all_of(connection) == b""
    assert time.monotonic() - begun < PATIENCE


def test_a_handshake_that_drips_is_cut(serve: Serve) -> None:
    server = serve(head_timeout=0.3)
    with plain(server) as connection:
        gone = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not gone.wait(0.02):
                    connection.sendall(b"X")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert b"101" not in all_of(connection)
        finally:
            gone.set()
            dripping.join()


def test_a_second_request_on_a_connection_that_never_ends_is_cut(serve: Serve) -> None:
    server = serve(head_timeout=0.3)
    with plain(server) as connection:
        head = request_head(server, "GET /health")
        connection.sendall(head + head.removesuffix(b"\r\n"))

        assert all_of(connection).count(b"HTTP/1.1 ") == 1


def test_a_handshake_with_a_header_too_large_for_it_is_cut(serve: Serve) -> None:
    server = serve(head_timeout=0.3)
    with plain(server) as connection:
        connection.sendall(handshake(server, f"X-Much: {'x' * 20_000}"))

        assert b"101" not in all_of(connection)


def test_a_body_that_never_comes_is_waited_for_no_longer(serve: Serve) -> None:
    server = serve(head_timeout=0.2)
    with plain(server) as connection:
        connection.sendall(request_head(server, "POST /v1/containers", "Content-Length: 10") + b"{")

        answer = connection.recv(65536)

    assert b"408" in answer.partition(b"\r\n")[0]


def test_a_body_in_too_many_chunks_ends_the_connection(server: Server) -> None:
    head = request_head(server, "POST /v1/containers", "Transfer-Encoding: chunked")
    most = head + b"1\r\n \r\n" * MOST_CHUNKS
    with plain(server) as connection:
        connection.sendall(most + b"0\r\n\r\n" + most + b"1\r\n ")

        answers = all_of(connection).split(b"HTTP/1.1 ")

    assert [answer[:3] for answer in answers[1:]] == [b"201", b"400"]


def test_a_body_that_is_wrong_after_its_request_was_answered_is_no_error_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with plain(server) as connection:
        connection.sendall(request_head(server, "GET /nothing", "Transfer-Encoding: chunked"))
        connection.recv(65536)
        connection.sendall(b"wrong\r\n")

        assert b"HTTP/1.1" not in all_of(connection)

    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


def test_there_are_only_so_many_connections(serve: Serve) -> None:
    server = serve(connections=3)
    with greeted(server) as one, greeted(server), plain(server), plain(server) as refused:
        answer = all_of(refused)

        assert b"503" in answer.partition(b"\r\n")[0]
        assert one.ask("container_list_request")["error"] is None
    wait_until(lambda: _answers(server), PATIENCE, "room for another connection")


def test_there_are_only_so_many_subscriptions(serve: Serve, session_id: str) -> None:
    server = serve(subscriptions=100)
    with greeted(server) as talk:
        for number in range(300):
            talk.say("subscribe", id=f"s{number}", topic=session_id)

        answers = [talk.hear() for _ in range(300)]

        assert [answer["type"] for answer in answers] == ["subscribed"] * 100 + ["error"] * 200
        assert {answer["code"] for answer in answers[100:]} == {"too_many_subscriptions"}
        talk.say("unsubscribe", id="s0")
        talk.hear("ended")
        talk.subscribe("s300", session_id)


def test_who_sends_too_fast_is_read_no_faster_than_that(serve: Serve) -> None:
    server = serve(rate=50, burst=10)
    with greeted(server) as talk:
        begun = time.monotonic()
        for number in range(49):
            talk.say("request", id=f"r{number}", request="container_list_request")
        answered = {talk.hear("response")["id"] for _ in range(49)}
        took = time.monotonic() - begun

    assert len(answered) == 49
    assert took >= 0.78, "49 frames and a hello, 10 of them at once, the others at 50 a second"


def test_who_sends_too_fast_holds_up_nobody_else(serve: Serve) -> None:
    server = serve(rate=0.01, burst=10)
    with greeted(server) as talk, greeted(server) as other:
        for number in range(49):  # which takes more than an hour
            talk.say("request", id=f"r{number}", request="container_list_request")

        assert other.ask("container_list_request")["error"] is None
        talk.connection.socket.shutdown(socket.SHUT_RDWR)  # nobody would read that it closes


def test_who_is_not_read_from_is_not_taken_for_gone(serve: Serve) -> None:
    server = serve(rate=50, burst=1, ping_interval=0.4)
    with greeted(server) as talk:
        for number in range(100):  # 2 s; the answers to pings stand behind them
            talk.say("request", id=f"r{number}", request="container_list_request")

        assert {talk.hear("response")["id"] for _ in range(100)} == {f"r{number}" for number in range(100)}


@pytest.mark.parametrize(
    ("fragments", "why"), [([b"{", b"", b"}"], "no content"), ([b" "] * 5000, "at most 4096 fragments")]
)
def test_a_message_in_too_many_pieces_or_empty_ones_ends_the_connection(
    server: Server, fragments: list[bytes], why: str
) -> None:
    with greeted(server) as talk:
        pieces = [client_frame(0x00, fragment) for fragment in fragments[1:]]
        talk.connection.socket.sendall(client_frame(0x01, fragments[0]) + b"".join(pieces))

        code, reason = talk.closing()

    assert code == 1008
    assert why in reason
    assert _answers(server)


def test_a_message_in_pieces_with_pings_between_and_an_empty_last_one_is_taken(talk: Talk) -> None:
    frame = json.dumps({"type": "request", "id": "r", "request": "container_list_request"}).encode()
    pieces = b"".join(client_frame(0x00, bytes((byte,))) + client_frame(0x89, b"?") for byte in frame[1:])

    talk.connection.socket.sendall(client_frame(0x01, frame[:1]) + pieces + client_frame(0x80, b""))

    assert talk.hear("response")["id"] == "r"


@pytest.mark.parametrize("first", [0x89, 0x8A])
def test_pings_and_pongs_are_read_no_faster_than_the_rate_allows(serve: Serve, first: int) -> None:
    server = serve(rate=200, burst=10)  # of messages; 10 times as many frames
    with greeted(server) as talk:
        begun = time.monotonic()
        talk.connection.socket.sendall(client_frame(first, b"") * 2100)  # 2,000 too many
        talk.say("request", id="r", request="container_list_request")
        talk.hear("response")
        took = time.monotonic() - begun

    assert took >= 0.5, "those of the last slice are waited for by whoever comes next"


def test_who_asks_too_often_over_http_is_told_when_to_come_again(serve: Serve) -> None:
    server = serve(rate=0.01, burst=3)

    with httpx2.Client() as http:
        answers = [http.get(f"{server.url}/v1/containers") for _ in range(5)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["error"]["code"] == "too_many_requests"
    assert 50 < int(answers[-1].headers["retry-after"]) <= 100
    assert httpx2.get(f"{server.url}/health").status_code == 200


def test_a_client_without_a_token_is_counted_by_its_address(serve: Serve) -> None:
    server = serve(rate=0.01, burst=3)

    answers = [_get(server, f"made-up-{number}") for number in range(5)]

    assert answers == [200, 200, 200, 429, 429]


def test_who_tries_tokens_is_told_to_wait_and_who_has_one_is_not(serve: Serve) -> None:
    server = serve(rate=0.01, burst=3, tokens=[TOKEN])

    tried = [_get(server, f"not-the-token-{number}") for number in range(3)]
    with plain(server) as connection:
        connection.sendall(handshake(server, "Authorization: Bearer not-the-token-either"))
        handshaken = all_of(connection).partition(b"\r\n")[0]

    assert [*tried, _get(server, "not-the-token-3")] == [401, 401, 401, 429]
    assert b"429" in handshaken
    assert _get(server, TOKEN) == 200
    with greeted(server, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as talk:
        assert talk.ask("container_list_request")["error"] is None


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        pytest.param(json.dumps({f"k{n}": n for n in range(MOST_VALUES // 2)}), False, id="names"),
        pytest.param(json.dumps({f"k{n}": n for n in range(MOST_VALUES)}), True, id="too many names"),
        pytest.param(
            json.dumps({f"k{n}\\": '"' for n in range(MOST_VALUES)}), True, id="names that end in a backslash"
        ),
        pytest.param(json.dumps([[]] * (MOST_VALUES + 2)), True, id="too many lists"),
        pytest.param(json.dumps([[]] * MOST_VALUES), False, id="lists"),
        pytest.param(json.dumps(['[{"a": 1, "\\\\": 2},' * MOST_VALUES]), False, id="code in a string"),
        pytest.param(json.dumps([","] * (MOST_VALUES // 2) + ["\\"]), False, id="strings of commas"),
    ],
)
def test_a_message_has_so_many_names_and_values(text: str, is_refused: bool) -> None:  # noqa: FBT001
    assert has_too_many_values(text.encode()) is is_refused


def test_a_message_with_too_many_values_is_refused_and_the_connection_goes_on(talk: Talk, http: httpx2.Client) -> None:
    data = {f"k{number}": number for number in range(MOST_VALUES)}
    talk.say("request", request="container_create_request", data=data, id="r")

    refused = talk.hear("error")
    answer = http.post("/v1/containers", json=data)

    assert (refused["id"], refused["code"]) == ("r", "too_large")
    assert talk.ask("container_list_request")["error"] is None
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize("path", ["/", "/v1/ws", "/health", "/ws/"])
def test_a_handshake_elsewhere_is_told_that_nothing_is_there(server: Server, path: str) -> None:
    with plain(server) as connection:
        connection.sendall(handshake(server).replace(b" /ws ", f" {path} ".encode()))

        head, _, body = all_of(connection).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["error"]["code"] == "not_found"


def test_refused_handshakes_are_no_errors_in_the_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve(tokens=[TOKEN])
    refused = {"Authorization: Bearer not-the-token": b"401", "Origin: http://elsewhere.example": b"403"}
    for header, status in refused.items():
        with plain(server) as connection:
            connection.sendall(handshake(server, header))

            assert status in all_of(connection).partition(b"\r\n")[0]
    server.stop()

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def _get(server: Server, token: str) -> int:
    return httpx2.get(f"{server.url}/v1/containers", headers={"Authorization": f"Bearer {token}"}).status_code


def _answers(server: Server) -> bool:
    return httpx2.get(f"{server.url}/health").status_code == 200
