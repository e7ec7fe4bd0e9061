"""What subscribers hear of events is derived when it is read: always the same, and it stands nowhere twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings

from reenact import Image, Runtime
from reenact._runtime import codec
from reenact.actors.envelopes import enveloped, segments_of
from reenact.actors.feed.replay import opened
from reenact.actors.journal.api import Append, Derived, Publication
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.records import open_records
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.audit import export_log, import_log, verify_log
from reenact.domain.errors import ExportUnusableError, LogTooNewError, LogUnusableError
from reenact.domain.history.stored import STORED
from reenact.domain.session.announce import TODAY, VERSIONS, Needs, announce
from reenact.domain.session.state import SessionCreated, SessionEvent
from reenact.domain.stream.events import Context, Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent
from tests.examples import examples
from tests.feed.announcements import Golden, file_of, told
from tests.journal.support import commit
from tests.logs import log_at
from tests.projections.histories import Step, play, steps
from tests.transfer.logs import write
from tests.transfer.test_round_trip import folder


def goldens(version: int) -> list[Golden]:
    lines = file_of(version).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Golden) for line in lines]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_version_has_announced_it_announces_for_ever(version: int) -> None:
    by, forms = VERSIONS[version], codec()

    for golden in goldens(version):
        events = [forms.decode(topic, bytes.fromhex(state))[1] for topic, state in golden.events]
        heard = by.announce(golden.session, by.read(bytes.fromhex(golden.needs)), events)
        assert list(map(told, heard)) == golden.heard


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_steps_of_a_version_hold_every_event(version: int) -> None:
    names = {topic.partition(":")[0] for golden in goldens(version) for topic, _ in golden.events}

    assert {name for name, kind in STORED.items() if kind in get_args(SessionEvent)} <= names


@given(steps)
@settings(max_examples=examples(25))
def test_what_is_derived_is_what_was_heard_when_it_happened(chosen: list[Step]) -> None:
    live: dict[str, list[Envelope]] = {}

    def hear(publications: Iterable[Publication]) -> None:
        for topic, cursor, segment in map(msgspec.structs.astuple, publications):
            context = Context(**segment.context)
            live.setdefault(topic, []).extend(
                enveloped(entry, context, f"{topic}:{number}", number)
                for number, entry in enumerate(segment.entries, cursor)
            )

    with folder() as there:
        write(play(chosen).log, there / "log.db", listener=hear)

        with SqliteJournal.open(there / "log.db", codec(), read_only=True) as journal:
            for topic, envelopes in live.items():
                assert list(opened(journal.read_feed(topic), 0)) == envelopes
                cursors = [row.first_cursor for row in journal.read_feed_backwards(topic)]
                assert cursors == sorted(cursors, reverse=True)
                assert journal.feed_end(topic) == len(envelopes)


def test_a_row_that_a_later_version_has_announced_is_refused_by_name(tmp_path: Path) -> None:
    event, needs = SessionCreated("a", "c", "i", 1), Needs()
    heard = segments_of(announce("a", needs, (event,)), 0)
    with SqliteJournal.open(tmp_path / "log.db", codec(), synchronous="OFF") as journal:
        commit(journal, Append("session/a", 0, 0, (event,), Derived(TODAY + 1, needs.stored(), heard)))

        with pytest.raises(LogTooNewError, match=r"row 1 of the feed of 'session/a' was announced by version 2"):
            journal.read_feed("session/a")
    (finding,) = verify_log(tmp_path / "log.db").findings
    assert "row 1 of the feed of 'session/a' was announced by version 2" in finding.problem
    export_log(tmp_path / "log.db", tmp_path / "log.jsonl")
    with pytest.raises(ExportUnusableError, match=r"row 1 of the feed of 'session/a' was announced by version 2"):
        import_log(tmp_path / "log.jsonl", tmp_path / "again.db")


def test_what_nobody_here_can_derive_is_refused_by_name(tmp_path: Path) -> None:
    write(play([]).log, tmp_path / "log.db")
    with (
        SqliteJournal.open(tmp_path / "log.db", EventCodec(()), read_only=True) as journal,
        pytest.raises(LogUnusableError, match="row 1 of the feed of 'session/a' is derived from its events"),
    ):
        journal.read_feed("session/a")


def test_the_content_of_a_message_stands_once_in_its_row(tmp_path: Path) -> None:
    factory = MockEnvironmentFactory(delays=False)
    pieces = [MockEvent("text_delta", data={"text": text}) for text in ("an okapi ", "answers")]
    factory.define_scenario("okapi", [MockEvent("message_start"), *pieces, MockEvent("message_stop")])
    factory.set_scenario("okapi")
    with Runtime.open(log_at(tmp_path / "log.db"), environment=factory, synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
        agent = runtime.sessions.run("s")
        with runtime.events.subscribe("s", "me") as heard:
            runtime.agents.receive(agent, "does an okapi answer?")
            messages = [event.type for event in until_completed(heard) if event.category == "message"]

    assert messages == ["user_message", "assistant_message"]
    for content in (b"does an okapi answer?", b"an okapi answers"):
        assert times(log_at(tmp_path / "log.db"), content) == [1]


def until_completed(heard: Iterable[Envelope]) -> Iterator[Envelope]:
    for event in heard:
        yield event
        if event.type == "turn_completed":
            return


def times(log: str, content: bytes) -> list[int]:
    """Return how often the content stands in each row that has it."""
    with open_records(log) as records:
        rows = [b"".join(part or b"" for part in (row.cause, row.events, row.feed)) for row in records.rows()]
    return [row.count(content) for row in rows if content in row]
