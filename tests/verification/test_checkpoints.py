"""What is cut off, left out or rewritten by somebody who knows how is found by a checkpoint that is kept elsewhere."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import Image, Retention, Runtime
from reenact.audit import Audit, checkpoint_of, verify_log
from reenact.domain.errors import CheckpointError, ConfigurationError, LogUnusableError
from reenact.testing import MockEnvironmentFactory
from tests.examples import examples
from tests.verification.conftest import copied
from tests.verification.forging import cut, leave_out, rewrite


@given(back=st.integers(1, 20))
@settings(max_examples=10)
def test_streams_that_were_cut_are_named(log: Path, checkpoint: Path, back: int) -> None:
    with copied(log) as copy:
        number = verify_log(copy).rows - back
        with closing(sqlite3.connect(copy)) as connection, connection:
            ((last,),) = connection.execute("SELECT number FROM steps ORDER BY number LIMIT 1 OFFSET ?", (number - 1,))
            lost = cut(connection, last)
        findings = verify_log(copy, checkpoint=checkpoint).findings

    assert lost <= {finding.name for finding in findings if finding.kind == "stream"}


@pytest.mark.parametrize("stream", ["container/c", "container/d", "image/i", "session/a", "session/b", "session/z"])
def test_a_stream_that_was_left_out_is_named(log: Path, checkpoint: Path, stream: str) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            leave_out(connection, stream)
        findings = verify_log(copy, checkpoint=checkpoint).findings

    assert stream in {finding.name for finding in findings if "at the checkpoint" in finding.problem}


@given(data=st.data())
@settings(max_examples=examples(15))
def test_a_stream_that_was_rewritten_is_named(log: Path, checkpoint: Path, data: st.DataObject) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            keys = connection.execute("SELECT stream, number FROM steps").fetchall()
            stream, number = data.draw(st.sampled_from(keys))
            rewrite(connection, stream, number)
        findings = verify_log(copy, checkpoint=checkpoint).findings

    assert stream in {finding.name for finding in findings}


def test_a_checkpoint_in_a_pipe_is_refused_since_it_can_be_read_only_once(log: Path, checkpoint: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "wb") as pipe:
        pipe.write(checkpoint.read_bytes())
        pipe.close()

        with pytest.raises(CheckpointError, match="save it in a file first"):
            verify_log(log, checkpoint=f"/dev/fd/{reader}")


def test_a_log_that_goes_on_and_is_compacted_is_what_it_was(tmp_path: Path) -> None:
    path, kept = tmp_path / "log.db", tmp_path / "kept"
    with Runtime.open(
        path,
        environment=MockEnvironmentFactory(delays=False),
        synchronous="OFF",
        retention=Retention(deltas=timedelta(0)),
    ) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="s")
        agent = runtime.sessions.run("s")
        with runtime.events.stream("s") as events:
            runtime.agents.receive(agent, "One")
            for envelope in events:
                if envelope.type == "text_delta":  # the checkpoint ends in the middle of an answer
                    break
            with Audit.open(path) as audit:
                before = audit.checkpoint(kept)
            runtime.agents.receive(agent, "Two")
            completed = 0
            for envelope in events:
                completed += envelope.type == "turn_completed"
                if completed == 2:
                    break
        assert runtime.events.compact().deltas == 6

        verdict = verify_log(path, checkpoint=kept)

    assert verdict.findings == ()
    assert verdict.checkpoint == before.position < verdict.position
    assert verify_log(path, checkpoint=kept).findings == ()


def test_a_log_is_whole_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with Runtime.open(path, environment=MockEnvironmentFactory(delays=False), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        over = threading.Event()

        def write() -> None:
            for number in range(40):
                runtime.sessions.create("c", "i", session_id=f"s{number}")
                runtime.agents.receive(runtime.sessions.run(f"s{number}"), "Hello")
            over.set()

        writer = threading.Thread(target=write)
        writer.start()
        verdicts = [verify_log(path)]
        while not over.is_set():
            verdicts.append(verify_log(path))
        writer.join()
        verdicts.append(verify_log(path))

    assert [verdict.findings for verdict in verdicts] == [()] * len(verdicts)
    assert {verdict.read_model for verdict in verdicts} == {"agrees"}
    assert verdicts[-1].events > verdicts[0].events


@given(data=st.data())
@settings(max_examples=examples(25))
def test_a_checkpoint_that_was_changed_is_refused(log: Path, checkpoint: Path, data: st.DataObject) -> None:
    content = bytearray(checkpoint.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    changed = checkpoint.with_name("changed")
    changed.write_bytes(content)

    with pytest.raises(CheckpointError):
        verify_log(log, checkpoint=changed)


def test_what_is_no_checkpoint_is_refused(log: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.write_text('{"line":"checkpoint","format":2,"position":0,"made_at":0}\n')

    with pytest.raises(CheckpointError, match="cannot be read"):
        verify_log(log, checkpoint=tmp_path / "missing")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        verify_log(log, checkpoint=log)
    with pytest.raises(CheckpointError, match="upgrade"):
        verify_log(log, checkpoint=newer)


def test_a_checkpoint_of_another_log_is_refused(log: Path, tmp_path: Path) -> None:
    other, kept = tmp_path / "other.db", tmp_path / "kept"
    with Runtime.open(other, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="c")
        runtime.containers.create(container_id="elsewhere")
    checkpoint_of(other, kept)

    with pytest.raises(CheckpointError, match="another log"):
        verify_log(log, checkpoint=kept)


def test_a_log_of_which_nothing_is_left_is_no_other_one(log: Path, checkpoint: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            for table in ("steps", "requests", "consumers"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
        Path(f"{copy}.projections").unlink()
        verdict = verify_log(copy, checkpoint=checkpoint)

    assert {finding.name for finding in verdict.findings} >= {"session/a", "session/b", "session/z", "image/i"}


def _closed(_line: bytes) -> None:
    """Be a pipe that nobody reads any more."""
    raise BrokenPipeError


def test_there_is_no_checkpoint_of_a_damaged_log_and_none_in_the_place_of_a_log(log: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("the one before")
    with copied(log) as copy:
        with pytest.raises(ConfigurationError, match="belongs to it"):
            checkpoint_of(copy, copy)
        with pytest.raises(ConfigurationError, match="belongs to it"):
            checkpoint_of(copy, f"{copy}.projections")
        with pytest.raises(BrokenPipeError):
            checkpoint_of(copy, _closed)
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("UPDATE steps SET events = x'00' WHERE version = 2")

        with pytest.raises(LogUnusableError, match="damaged"):
            checkpoint_of(copy, kept)

    assert kept.read_text() == "the one before"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_whoever_stops_listening_to_a_checkpoint_is_told_so(log: Path) -> None:
    def gone(_line: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        checkpoint_of(log, gone)


def test_announcements_that_are_gone_are_named(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("UPDATE steps SET heard = 0, feed = NULL WHERE stream = 'session/b'")
            connection.execute("DELETE FROM consumers")
        findings = verify_log(copy).findings

    assert {finding.name for finding in findings} == {"session/b"}
