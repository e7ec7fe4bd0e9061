"""The numbers that a server gives away can be read by machines, and are right."""

from __future__ import annotations

import re
import time

import httpx2
import pytest

from reenact import Runtime, StorageFullError
from reenact.server import Server
from reenact.testing import wait_until
from tests.server.talk import PATIENCE, greeted, has_turned

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\n"])*)"')
UNESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples of a text in Prometheus' format, which has to be one."""
    assert text.endswith("\n")
    described: set[str] = set()
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge")
            assert name not in described
            described.add(name)
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] in described
        labels = tuple(
            (name, re.sub(r"\\.", lambda one: UNESCAPED[one[0]], value))
            for name, value in LABEL.findall(sample[2] or "")
        )
        assert (sample[1], labels) not in found
        found[sample[1], labels] = float(sample[3])
    return found


def numbers(server: Server) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = httpx2.get(f"{server.url}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(answer.text)


def number(server: Server, name: str, **labels: str) -> float:
    return numbers(server).get((name, tuple(labels.items())), 0.0)


def test_connections_subscriptions_and_events_are_counted(server: Server, session_id: str) -> None:
    with greeted(server) as talk, greeted(server) as other:
        talk.ask("message_send_request", session_id=session_id, content="Hello")
        for one, names in ((talk, ("a", "b")), (other, ("c",))):
            for name in names:
                one.subscribe(name, session_id)
                one.follow(name, has_turned)
        talk.connection.send("nonsense")
        talk.hear("error")

        there = numbers(server)
        talk.say("unsubscribe", id="a")
        talk.hear("ended")
        fewer = number(server, "reenact_subscriptions")
    wait_until(lambda: number(server, "reenact_connections") == 0, PATIENCE, "the ends of connections")

    assert there["reenact_connections", ()] == 2
    assert there["reenact_subscriptions", ()] == 3
    assert there["reenact_events_sent_total", ()] == 3 * 14
    assert there["reenact_refused_frames_total", (("code", "invalid_frame"),)] == 1
    assert there["reenact_received_bytes_total", ()] > 100
    assert there["reenact_sent_bytes_total", ()] > 42 * 100
    assert fewer == 2
    assert number(server, "reenact_subscriptions") == 0
    assert number(server, "reenact_connections_total") == 2


def test_requests_are_counted_by_type_and_outcome(server: Server) -> None:
    with greeted(server) as talk:
        talk.ask("container_create_request", container_id="room")
        talk.ask("container_create_request", container_id="room")
        talk.say("request", id="r", request="nonsense\n")
        talk.hear("error")
    httpx2.get(f"{server.url}/v1/containers")
    httpx2.get(f"{server.url}/v1/nowhere")

    found = numbers(server)

    name = "reenact_requests_total"
    assert found[name, (("type", "container_create_request"), ("code", "ok"))] == 1
    assert found[name, (("type", "container_create_request"), ("code", "already_exists"))] == 1
    assert found[name, (("type", "unknown"), ("code", "unknown_command"))] == 1
    assert found[name, (("type", "container_list_request"), ("code", "ok"))] == 1
    assert found["reenact_http_responses_total", (("status", "404"),)] == 1
    assert found["reenact_requests_in_progress", ()] == 0


def test_what_the_runtime_holds_is_told(server: Server, runtime: Runtime, session_id: str) -> None:
    before = number(server, "reenact_log_position")
    runtime.sessions.run(session_id)
    wait_until(lambda: number(server, "reenact_projection_lag") == 0, PATIENCE, "the read model")

    found = numbers(server)

    assert found["reenact_log_position", ()] > before > 0
    assert found["reenact_live_agents", ()] == 1
    assert found["reenact_failing", ()] == 0
    assert abs(found["reenact_start_time_seconds", ()] - time.time()) < 60


def test_a_failure_is_told(server: Server, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(runtime), "failure", property(lambda _: StorageFullError("no space is left")))

    assert number(server, "reenact_failing") == 1


def test_what_cannot_be_read_is_left_out(server: Server, runtime: Runtime) -> None:
    runtime.close()

    found = numbers(server)

    assert ("reenact_connections", ()) in found
    assert ("reenact_live_agents", ()) not in found
