"""`reenact switch`: another agent goes on with a session."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Json, Run, logged


def test_it_is_recorded_and_the_session_is_the_same(run: Run, talk: Json) -> None:
    (listed,) = run("sessions", "--output-format", "json").objects

    switched = run("switch", talk["session_id"], listed["image_id"], "--history", "none")

    assert (switched.code, switched.out) == (0, f"{talk['session_id']}\n")
    (changed,) = logged(run, "image-changed")
    assert changed["data"]["history"] == "none"
    resumed = run("--resume", talk["session_id"], "-p", "Go on", "--output-format", "json").result
    assert (resumed["success"], resumed["session_id"]) == (True, talk["session_id"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody", "chat"), "session 'nobody' does not exist"),
        (("SESSION", "nobody"), "image 'nobody' does not exist"),
        (("SESSION", "chat", "--history", "some"), "--history"),
    ],
)
def test_what_cannot_be_is_refused(run: Run, talk: Json, arguments: tuple[str, ...], words: str) -> None:
    refused = run("switch", *(talk["session_id"] if word == "SESSION" else word for word in arguments))

    assert (refused.code, refused.out) == (2, "")
    assert words in refused.err


def test_where_there_is_no_log_none_is_begun(run: Run) -> None:
    assert run("switch", "nobody", "chat").code == 2
