"""What is in the log, and which sessions there are, beside whoever writes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reenact import Image, Runtime
from reenact.cli.commands.log import parse_time
from reenact.testing import MockEnvironmentFactory
from tests.cli.conftest import Json, Run
from tests.logs import log_at

NOW = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


@pytest.fixture
def two_talks(run: Run) -> tuple[Json, Json]:
    """Talk twice, and return what came of it."""
    first = run("-p", "About apples", "--output-format", "json").result
    second = run("-p", "About PEARS", "--output-format", "json").result
    return first, second


def test_every_event_is_listed_in_order_on_a_line_of_its_own(run: Run, two_talks: tuple[Json, Json]) -> None:
    lines = run("log").out.splitlines()

    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert "container-created" in lines[0]
    assert any("message-accepted" in line and "About apples" in line for line in lines)


def test_a_session_that_is_not_in_the_log_is_named(run: Run, two_talks: tuple[Json, Json]) -> None:
    refused = run("log", "--session", "nope")

    assert (refused.code, refused.out) == (2, "")
    assert "session 'nope' does not exist" in refused.err


def test_events_are_objects_with_their_session_and_agent(run: Run, two_talks: tuple[Json, Json]) -> None:
    first, _ = two_talks

    completed = run("log", "--output-format", "json", "--type", "turn_completed").objects[0]

    assert (completed["session_id"], completed["agent_id"]) == (first["session_id"], first["agent_id"])
    assert completed["data"]["turn_id"] == first["turn_id"]
    assert datetime.fromisoformat(completed["time"]).tzinfo is not None


def test_filters_are_all_of_them_to_be_met(run: Run, two_talks: tuple[Json, Json]) -> None:
    first, second = two_talks

    def found(*arguments: str) -> list[str]:
        return [event["type"] for event in run("log", "--output-format", "json", *arguments).objects]

    of_the_first = found("--session", first["session_id"])
    assert of_the_first[0] == "session-created"
    assert of_the_first[-1] == "agent-stopped"
    assert found("--agent", second["agent_id"]) == of_the_first[1:]
    assert found("--text", "pears", "--type", "message-accepted") == ["message-accepted"]
    assert found("--text", "pears", "--session", first["session_id"]) == []
    assert found("--type", "image-registered", "--type", "container_created") == [
        "container-created",
        "image-registered",
    ]
    assert found("--until", "1h") == []
    assert found("--since", "1h") == found()
    assert found("--after", "3") == found()[3:]


def test_an_agent_that_has_never_been_live_is_refused(run: Run, two_talks: tuple[Json, Json]) -> None:
    refused = run("log", "--agent", "agt_nope")

    assert (refused.code, refused.out) == (2, "")
    assert "agent 'agt_nope' does not exist" in refused.err


def test_what_a_terminal_would_obey_is_not_printed(run: Run) -> None:
    run("-p", "a\x1b[2Jb\u202e")

    listed = run("log", "--type", "message-accepted").out + run("sessions").out

    assert "\x1b" not in listed


@pytest.mark.sqlite_only("files, by their paths")
def test_a_log_is_followed_while_it_is_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "followed.db"
    with Runtime.open(path, environment=MockEnvironmentFactory()) as runtime:
        names = iter(["second", "third"])

        def instead_of_waiting(_seconds: float) -> None:
            name = next(names, None)
            if name is None:
                raise KeyboardInterrupt
            runtime.containers.create(container_id=name)

        runtime.containers.create(container_id="first")
        monkeypatch.setattr("reenact.cli.commands.log.pause", instead_of_waiting)
        done = run("log", "--follow", "--db", str(path), "--output-format", "json")

    assert done.code == 130
    assert [event["data"]["container_id"] for event in done.objects[:3]] == ["first", "second", "third"]


def test_sessions_are_listed_the_newest_first(run: Run, two_talks: tuple[Json, Json]) -> None:
    first, second = two_talks

    lines = run("sessions").out.splitlines()

    assert [line.split()[0] for line in lines] == [second["session_id"], first["session_id"]]
    assert lines[1].endswith("2 messages  About apples")


def test_sessions_are_listed_as_objects(run: Run, two_talks: tuple[Json, Json]) -> None:
    newest = run("sessions", "--output-format", "json").objects[0]

    assert newest["id"] == two_talks[1]["session_id"]
    assert (newest["messages"], newest["first_words"]) == (2, "About PEARS")


def test_first_words_are_few_and_on_one_line(run: Run) -> None:
    run("-p", "word\n" * 100)

    (line,) = run("sessions").out.splitlines()

    assert line.endswith("word…")
    assert len(line) < 140


@pytest.mark.sqlite_only("the user's own file")
@pytest.mark.parametrize("command", ["log", "sessions"])
def test_where_nobody_has_talked_yet_there_is_nothing_and_it_says_so(run: Run, command: str) -> None:
    done = run(command)

    assert (done.code, done.out) == (0, "")
    assert "there is no log yet" in done.err


def test_the_log_may_be_named_before_the_subcommand(run: Run) -> None:
    run("-p", "x", "--db", "here.db")

    assert run("--db", "here.db", "sessions").out == run("sessions", "--db", "here.db").out != ""


def test_many_sessions_are_cut_short_inside_a_conversation_only(run: Run, tmp_path: Path) -> None:
    with Runtime.open(log_at(tmp_path / "many.db"), environment=MockEnvironmentFactory()) as runtime:
        runtime.containers.create(container_id="default")
        runtime.images.register(Image(id="chat"))
        for _ in range(23):
            runtime.sessions.create("default", "chat")

    inside = run("--db", "many.db", stdin=b"/sessions\n")
    outside = run("--db", "many.db", "sessions")

    assert "and 3 older ones" in inside.err
    assert len(outside.out.splitlines()) == 23


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15m", NOW - timedelta(minutes=15)),
        (" 1.5h ", NOW - timedelta(minutes=90)),
        ("2026-11-20T08:30:00Z", NOW - timedelta(days=1)),
        ("2026-11-20T09:30:00+01:00", NOW - timedelta(days=1)),
    ],
)
def test_a_time_is_said_as_it_is_or_by_how_long_ago(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected
