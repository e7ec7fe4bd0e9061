"""What runs on a log that has imported an export: guards, and who follows sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact import Guards, Image, KeyRing, MessageRefusedError, Runtime, SessionNotFoundError, guard
from reenact.audit import Redaction, export_log, import_log, verify_log
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at


def test_guards_of_an_image_refuse_where_it_was_redacted(tmp_path: Path) -> None:
    log, other = log_at(tmp_path / "log.db"), log_at(tmp_path / "other.db")
    strict = guard(name="strict")(lambda about: "it is bad" if "bad" in about.text else None)
    with Runtime.open(log, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        guards = Guards(message=("strict",), answer=("strict",), hold=True)
        runtime.images.register(Image(id="careful", guards=guards))
    export_log(log, tmp_path / "log.jsonl", redaction=Redaction(fields=("image-registered",)))

    import_log(tmp_path / "log.jsonl", other)

    heard: list[str] = []
    mock = MockEnvironmentFactory()
    with Runtime.open(other, environment=mock, guards=[strict], synchronous="OFF") as runtime:
        with pytest.raises(MessageRefusedError, match="it is bad"):
            runtime.ask("a bad word", image="careful")
        runtime.ask("a word", image="careful", on_event=lambda event: heard.append(event.type))
    assert "text_delta" in heard
    assert verify_log(other).findings == ()


def test_a_session_that_was_imported_without_its_feed_is_followed_from_the_beginning(tmp_path: Path) -> None:
    log, other = log_at(tmp_path / "log.db"), log_at(tmp_path / "other.db")
    with Runtime.open(log, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        session_id = runtime.ask("Hello", image=Image(id="chat")).session_id
    export_log(log, tmp_path / "log.jsonl", feeds=False)
    import_log(tmp_path / "log.jsonl", other)

    with Runtime.open(other, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        following = runtime.events.subscribe(session_id, "me")
        before = following.take()
        runtime.ask("Once more", session=session_id)
        after = following.take()
        with pytest.raises(SessionNotFoundError):
            runtime.events.stream("nobody")

    assert before == []
    assert [event.cursor for event in after] == list(range(1, len(after) + 1))
    assert after[-1].type == "turn_completed"


def test_nobody_waits_for_events_of_a_session_that_was_deleted_before_it_was_imported_without_its_feed(
    tmp_path: Path,
) -> None:
    log, other, keys = log_at(tmp_path / "log.db"), log_at(tmp_path / "other.db"), KeyRing.generate(tmp_path / "keys")
    with Runtime.open(log, environment=MockEnvironmentFactory(), keys=keys, synchronous="OFF") as runtime:
        deleted, forgotten = (runtime.ask("Hello", image=Image(id=name)).session_id for name in ("one", "two"))
        runtime.sessions.delete(deleted)
        runtime.sessions.forget(forgotten, by="me")
    export_log(log, tmp_path / "log.jsonl", feeds=False)
    import_log(tmp_path / "log.jsonl", other, keys=keys)

    with Runtime.open(other, environment=MockEnvironmentFactory(), keys=keys, synchronous="OFF") as runtime:
        for session_id in (deleted, forgotten):
            with pytest.raises(SessionNotFoundError):
                runtime.events.stream(session_id)
            with pytest.raises(SessionNotFoundError):
                runtime.events.subscribe(session_id, "me")
