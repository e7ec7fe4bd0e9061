"""Spans of an encrypted log: as those of one that is not, and none of a session that was forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reenact import Image, KeyRing, Runtime
from reenact.testing import ManualClock, MockEnvironmentFactory, wait_until
from reenact.tracing import Tracing
from tests.inspector.shop import Ids
from tests.logs import log_at, stands_in
from tests.tracing.conftest import TOOLS
from tests.tracing.receiver import Receiver, attributes, receiving

IMAGE = Image(id="clerk", model="claude-clerk", tools=TOOLS)


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing.generate(tmp_path / "ring.keys")


@contextmanager
def opened(log: str, mock: MockEnvironmentFactory, keys: KeyRing | None) -> Generator[Runtime]:
    clock = ManualClock()
    with Runtime.open(
        log, environment=mock, default_image=IMAGE, synchronous="OFF", keys=keys, clock=clock, ids=Ids(clock)
    ) as runtime:
        yield runtime


def talked(runtime: Runtime) -> None:
    for session_id in ("kept", "forgotten"):
        if runtime.sessions.get(session_id) is None:
            runtime.containers.create(container_id=session_id)
            runtime.sessions.create(session_id, "clerk", session_id=session_id)
        runtime.ask("Find plums", session=session_id)


@pytest.mark.parametrize("content", [False, True])
def test_the_spans_are_those_of_a_log_that_is_not_encrypted(
    tmp_path: Path, mock: MockEnvironmentFactory, ring: KeyRing, *, content: bool
) -> None:
    sent: list[list[bytes]] = []
    for name, keys in (("plain.db", None), ("secret.db", ring)):
        with (
            receiving() as receiver,
            opened(log_at(tmp_path / name), mock, keys) as runtime,
            Tracing(runtime, endpoint=receiver.url, content=content) as tracing,
        ):
            talked(runtime)
            tracing.wait_for()
            sent.append(sorted(span.SerializeToString(deterministic=True) for span in receiver.spans()))

    assert sent[0] == sent[1] != []
    assert any(b"plums" in span for span in sent[1]) == content
    assert not stands_in(b"plums", log_at(tmp_path / "secret.db"))


def test_of_a_session_that_was_forgotten_there_are_no_spans_and_of_others_there_are_all(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, ring: KeyRing
) -> None:
    with opened(log, mock, ring) as runtime:
        talked(runtime)
        runtime.sessions.forget("forgotten", by="ada")
        runtime.ask("Hello", session="kept")
        with Tracing(runtime, endpoint=receiver.url, content=True) as tracing:
            tracing.wait_for()

            assert tracing.status().failure is None

    assert {attributes(span.attributes)["gen_ai.conversation.id"] for span in receiver.spans()} == {"kept"}
    assert Counter(receiver.names())["invoke_agent clerk"] == 2


def test_whoever_is_behind_when_a_session_is_forgotten_goes_on_behind_it(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, ring: KeyRing
) -> None:
    with opened(log, mock, ring) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        receiver.status = 503  # the collector takes nothing
        talked(runtime)
        wait_until(lambda: receiver.requests, what="it is tried")
        runtime.sessions.forget("forgotten", by="ada")
        runtime.ask("Hello", session="kept")
        receiver.status = 200
        tracing.wait_for()

        assert tracing.status().failure is None
    kept = [span for span in receiver.spans() if attributes(span.attributes)["gen_ai.conversation.id"] == "kept"]
    assert Counter(span.name for span in kept)["invoke_agent clerk"] == 2


def test_what_is_remembered_of_what_was_sent_has_no_content(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, ring: KeyRing, tmp_path: Path
) -> None:
    state = tmp_path / "sent"
    with (
        opened(log, mock, ring) as runtime,
        Tracing(runtime, endpoint=receiver.url, content=True, metrics=True, state=state) as tracing,
    ):
        talked(runtime)
        tracing.wait_for()

    files = [path for path in state.rglob("*") if path.is_file()]
    assert any(path.stat().st_size for path in files)
    assert [path for path in files if b"plums" in path.read_bytes()] == []
