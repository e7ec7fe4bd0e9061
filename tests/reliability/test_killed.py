"""Servers and clients that are killed: who comes back goes on where it was."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from reenact import Runtime
from reenact.server import Server
from reenact.testing import wait_until
from tests.domain.stream.grammar import Heard
from tests.examples import chance_of
from tests.jsons import at
from tests.logs import log_at
from tests.reliability.serving import PATIENCE, Process, reenact_serve
from tests.reliability.tap import Tap, chunks
from tests.reliability.truth import deltas_of, kept, kept_in, received, taken
from tests.reliability.wire import Wire

EVERY = 20
"""The client that is killed acknowledges every so many events."""


def test_a_client_of_a_server_that_is_killed_hears_on_when_it_is_back(tmp_path: Path) -> None:
    log = log_at(tmp_path / "agents.db")
    heard: list[Heard] = []

    with reenact_serve(log) as first, Runtime.connect(first.url) as remote:
        remote.containers.create(container_id="c")
        remote.sessions.create(
            "c", at(str, remote.request("image_list_request", {}).data.result, 0, "id"), session_id="s"
        )
        with remote.events.subscribe("s", "client") as subscription:
            remote.request("message_send_request", {"session_id": "s", "content": "Test"})
            while len(deltas_of(heard)) < 50:
                heard += taken(filter(None, [subscription.next(PATIENCE)]))
            first.kill()
            with reenact_serve(log, port=first.port) as second:
                while heard[-1].type != "agent_stopped":
                    heard += taken(filter(None, [subscription.next(PATIENCE)]))
                remote.request("message_send_request", {"session_id": "s", "content": "Test again"})
                while [event.type for event in heard].count("turn_completed") < 2:
                    heard += taken(filter(None, [subscription.next(PATIENCE)]))
                subscription.ack()
                assert second.terminate() == 0

    assert heard == kept_in(log)[: len(heard)]
    assert [event.data["outcome"] for event in heard if event.type == "turn_completed"] == ["interrupted", "completed"]
    assert deltas_of(heard)[-100:] == chunks(100)


def test_a_request_to_a_server_that_is_killed_is_carried_out_once(tmp_path: Path) -> None:
    log = log_at(tmp_path / "agents.db")
    create = {"container_id": "c", "name": "once"}

    with reenact_serve(log) as first, Wire(first.url) as wire:
        answer = wire.ask("container_create_request", create, request_id="r1")
        first.kill()
    with reenact_serve(log, port=first.port) as second, Wire(second.url) as wire:
        again = wire.ask("container_create_request", create, request_id="r1")
        assert second.terminate() == 0

    assert again["result"] == answer["result"]
    assert again.get("error") is None


def test_a_client_that_is_killed_goes_on_behind_what_it_has_acknowledged(
    runtime: Runtime, agent: str, server: Server, tap: Tap, tmp_path: Path
) -> None:
    file, chance = tmp_path / "received", chance_of("killed")
    file.touch()
    runtime.agents.receive(agent, "400 deltas")
    begins: list[int] = []

    for _ in range(2):
        written = len(_lines(file))
        begins.append(written)
        with Process(["tests.reliability.following_client", server.url, str(file), str(EVERY)]) as client:
            tap.allow(chance.randrange(30, 100))
            wait_until(partial(_has_lines, file, written + 25), PATIENCE, "the client to write")
            client.kill()
    begins.append(len(_lines(file)))
    tap.open()
    with Process(["tests.reliability.following_client", server.url, str(file), str(EVERY)]) as client:
        assert client.line() == "done"

    expected = kept(runtime)
    got = received(_lines(file))
    assert {event.cursor: event for event in got} == {event.cursor: event for event in expected}
    for begin, end in zip(begins, [*begins[1:], len(got)], strict=True):
        cursors = [event.cursor for event in got[begin:end]]
        assert cursors == list(range(cursors[0], cursors[0] + len(cursors)))
        seen = max((event.cursor for event in got[:begin]), default=0)
        assert seen - EVERY < cursors[0] <= seen + 1


def _has_lines(file: Path, count: int) -> bool:
    return len(_lines(file)) >= count


def _lines(file: Path) -> list[dict[str, object]]:
    """Return the whole lines of the file; the last one may have been cut."""
    return [json.loads(line) for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
