"""How far spans are sent is kept with the sums of the metrics, and moves on when the collector has taken them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reenact.domain.errors import StorageError
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.domain.session.state import SessionBranched
from reenact.projections.errors import ProjectionFailedError, ReadModelError
from reenact.projections.views.files import Files
from reenact.projections.views.schemas import Schemas
from reenact.tracing import log_spans
from reenact.tracing.collector import Collector
from reenact.tracing.sending import NAME, Sending
from tests.journal.server import Server
from tests.projections.audited import AuditedList
from tests.projections.histories import Recorded, World

DONE = ReceivedAnswer(message_id="m", content=(TextBlock("Hi"),), stop_reason="end_turn", usage={"output_tokens": 3})


class TroubledLog(AuditedList):
    """A log that cannot always be read."""

    trouble: StorageError | None = None

    def find(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        after_version: int = 0,
        until_version: int | None = None,
        names: Collection[str] = (),
        since: int | None = None,
        before: int | None = None,
        backwards: bool = False,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        if self.trouble is not None:
            raise self.trouble
        return super().find(
            after=after, stream=stream, after_version=after_version, until_version=until_version, limit=limit
        )


@pytest.fixture
def log() -> TroubledLog:
    return TroubledLog()


@pytest.fixture
def world(log: TroubledLog) -> World:
    world = World(log)
    for session_id in "ab":
        world.create(session_id)
        world.run(session_id)
        turn(world, session_id)
    return world


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def sending(
    log: TroubledLog, world: World, exporter: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sending]:
    monkeypatch.setattr("reenact.projections.generations.BUSY_TIMEOUT", 0.05)
    with (
        closing(Files(tmp_path / "state")) as files,
        closing(Sending(files.of(NAME), log, Collector(exporter).send, content=False)) as sending,
    ):
        yield sending


def turn(world: World, session_id: str) -> None:
    world.say(session_id)
    world.answer(session_id, DONE)


def sent(exporter: InMemorySpanExporter) -> list[int]:
    return [span.context.span_id for span in exporter.get_finished_spans() if span.context is not None]


def test_a_log_that_cannot_be_read_is_read_later(
    sending: Sending, log: TroubledLog, exporter: InMemorySpanExporter
) -> None:
    log.trouble = StorageError("the disk is gone")
    with pytest.raises(ReadModelError, match="the disk is gone"):
        sending.catch_up()

    log.trouble = None
    sending.catch_up()

    assert len(sent(exporter)) == 4


def test_a_position_that_cannot_be_noted_is_noted_later_and_the_same_is_sent_again(
    world: World, sending: Sending, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    sending.catch_up()
    turn(world, "a")
    with closing(sqlite3.connect(tmp_path / "state" / "tracing.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ReadModelError, match="locked"):
            sending.catch_up()

    sending.catch_up()

    ids = sent(exporter)
    assert ids[4:6] == ids[6:]
    assert len(set(ids)) == 6


def test_a_history_that_the_log_has_lost_stops_it_and_the_event_is_named(
    sending: Sending, log: TroubledLog, exporter: InMemorySpanExporter
) -> None:
    position = log.append("session/c", SessionBranched("c", "x", "i", 1, "nobody", 3, "d"))

    with pytest.raises(ProjectionFailedError, match="which is not there") as caught:
        sending.catch_up()

    assert caught.value.position == position
    assert len(sent(exporter)) == 4


def test_sessions_that_are_not_held_in_memory_are_read_again(
    world: World, sending: Sending, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_spans, "_MOST_HELD", 1)
    monkeypatch.setattr(log_spans, "_PAGE", 2)
    world.say("a")
    world.say("b")
    world.answer("a", DONE)
    world.answer("b", DONE)

    sending.catch_up()

    assert len(set(sent(exporter))) == 8


def test_of_a_stream_alone_nothing_else_is_sent(
    world: World, log: TroubledLog, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    with (
        closing(Files(tmp_path / "state")) as files,
        closing(Sending(files.of(NAME), log, Collector(exporter).send, content=False, stream="session/b")) as sending,
    ):
        sending.catch_up()

    assert {str((span.attributes or {})["session.id"]) for span in exporter.get_finished_spans()} == {"b"}


def test_of_two_processes_on_a_server_the_second_goes_on_where_the_first_was(
    world: World, log: TroubledLog, exporter: InMemorySpanExporter, server: Server
) -> None:
    url = server.new_log()
    with closing(Schemas.open(url)) as first, closing(Schemas.open(url)) as second:
        sendings = [
            Sending(place.of(NAME), log, Collector(exporter).send, content=False, is_leader=lambda: True)
            for place in (first, second)
        ]
        for sending in (*sendings, *sendings):
            sending.catch_up()
            turn(world, "a")
        for sending in sendings:
            sending.catch_up()
            sending.close()

    ids = sent(exporter)
    turns = 2 + 4
    assert len(set(ids)) == 2 * turns
