"""What happened, why, what was true then, and what changed, on the command line."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from reenact import Image, Runtime
from reenact.cli.commands.audit import sides_of
from reenact.testing import MockEnvironmentFactory
from tests.cli.conftest import Json, Run, logged
from tests.logs import log_at

HOSTILE = "a\x1b[2Jb\u202e\u2028\x85\x9b\nc"


def positions(run: Run, *arguments: str) -> list[int]:
    return [event["position"] for event in run("log", "--output-format", "json", *arguments).objects]


def position(run: Run, name: str) -> str:
    """Return where the last event of this type is."""
    return str(positions(run, "--type", name)[-1])


def test_a_list_may_be_short_and_begin_with_the_newest(run: Run, talk: Json) -> None:
    everything = positions(run)

    assert positions(run, "--limit", "2") == everything[:2]
    assert positions(run, "--last", "3") == everything[-3:]
    assert positions(run, "--reverse") == everything[::-1]
    assert positions(run, "--reverse", "--limit", "1", "--type", "turn-started") == [int(position(run, "turn-started"))]
    assert positions(run, "--limit", "0") == positions(run, "--last", "0") == []


def test_what_cannot_be_asked_for_together_is_refused(run: Run, talk: Json) -> None:
    for arguments, word in (
        (("--reverse", "--follow"), "does not end"),
        (("--last", "1", "--limit", "1"), "--last says"),
        (("--why", "1", "--type", "warning"), "no filters"),
        (("--lineage",), "name it with --session"),
        (("--limit", "-1"), "it must be at least 0"),
    ):
        done = run("log", *arguments)
        assert (done.code, done.out) == (2, "")
        assert word in done.err


def test_why_tells_what_led_to_an_event_and_what_followed(run: Run, talk: Json) -> None:
    answer = position(run, "answer-recorded")

    told = run("log", "--why", answer, "--output-format", "json").result
    page = run("log", "--why", answer).out

    assert [link["type"] for link in told["causes"]] == ["message-accepted", "turn-started"]
    assert [link["type"] for link in told["effects"]] == ["turn-completed"]
    assert told["event"]["says"].startswith("The model answered")
    assert 'A message came in: "About apples".' in page
    assert max(map(len, page.splitlines())) <= 80


def test_where_there_is_no_event_there_is_no_why(run: Run, talk: Json) -> None:
    done = run("log", "--why", "999")

    assert (done.code, done.out) == (2, "")
    assert "there is no event at position 999: the log ends at" in done.err


def test_a_session_is_shown_as_it_is_and_as_it_was(run: Run, talk: Json) -> None:
    session = talk["session_id"]
    asked = position(run, "turn-started")

    now, then = (run("show", session, *at, "--output-format", "json").result for at in ((), ("--at", asked)))
    page = run("show", session, "--at", asked).out

    assert [message["role"] for message in now["messages"]] == ["user", "assistant"]
    assert [message["role"] for message in then["messages"]] == ["user"]
    assert (now["turn"], then["turn"]["id"]) == (None, talk["turn_id"])
    assert page.splitlines()[0].split() == ["Session", session]
    assert f"turn {talk['turn_id']}, step 1" in page


def test_a_moment_or_a_session_that_never_was_is_a_mistake(run: Run, talk: Json) -> None:
    for arguments, word in (
        (("show", talk["session_id"], "--at", "1"), "begins at position"),
        (("show", talk["session_id"], "--at", "999"), "the log ends at"),
        (("show", "nobody"), "does not exist"),
        (("show", "\udcff"), "does not exist"),
        (("diff", "nobody", "1", "2"), "does not exist"),
        (("diff", talk["session_id"], "1", "2"), "begins at position"),
        (("diff", talk["session_id"], "x", "2"), "a position in the log must be a number"),
        (("diff", talk["session_id"]), "name a session and two positions"),
    ):
        done = run(*arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert word in done.err


@pytest.mark.sqlite_only("the user's own file")
@pytest.mark.parametrize("command", [("show", "x"), ("diff", "x", "1", "2")])
def test_where_nobody_has_talked_yet_there_is_no_session(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command)

    assert (done.code, done.out) == (2, "")
    assert "session 'x' does not exist" in done.err


def test_a_difference_is_found_or_not(run: Run, talk: Json) -> None:
    session, asked, end = talk["session_id"], position(run, "turn-started"), str(positions(run)[-1])

    same = run("diff", session, end, end)
    changed = run("diff", session, asked, end)
    as_json = run("diff", f"{session}@{asked}", session, "--output-format", "json")

    assert (same.code, changed.code, as_json.code) == (0, 1, 1)
    assert "no difference" in same.out
    assert "@@ messages[1] added" in changed.out
    assert "messages[1]" in [change["path"] for change in as_json.result["changes"]]
    assert as_json.result["common"]["position"] == int(asked)


def test_a_branch_is_listed_with_its_lineage_and_compared_with_its_origin(run: Run, tmp_path: Path) -> None:
    with Runtime.open(log_at(tmp_path / "x.db"), environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="home")
        runtime.images.register(Image(id="chat"))
        runtime.sessions.create("home", "chat", session_id="one")
        runtime.sessions.run("one")
        runtime.sessions.branch("one", new_session_id="two")

    own = positions(run, "--session", "two", "--db", "x.db")
    whole = positions(run, "--session", "two", "--lineage", "--db", "x.db")
    shared = positions(run, "--session", "one", "--db", "x.db")[: len(whole) - len(own)]

    assert whole == [*shared, *own]
    assert shared
    assert run("diff", "one", "two", "--db", "x.db").code in (0, 1)
    assert "Branch of  one" in run("show", "two", "--db", "x.db").out


def test_the_two_sides_of_a_difference_are_named_in_two_ways() -> None:
    assert sides_of(["s", "1", "22"]) == (("s", 1), ("s", 22))
    assert sides_of(["s@1", "t"]) == (("s", 1), ("t", None))
    assert sides_of(["a@b", "me@home@7"]) == (("a@b", None), ("me@home", 7))
    assert sides_of(["s@", "t@" + "9" * 30]) == (("s@", None), ("t@" + "9" * 30, None))


def test_nothing_in_a_message_ends_a_line_or_reaches_the_terminal(run: Run) -> None:
    session = run("-p", HOSTILE, "--output-format", "json").result["session_id"]
    message = position(run, "message-accepted")
    commands = (("log",), ("log", "--why", message), ("show", session), ("diff", session, message, message))

    for command in commands:
        for form in ("text", "json"):
            printed = run(*command, "--output-format", form).out
            assert not set(printed) & set("\x1b\u202e\u2028\x85\x9b"), command

    (listed,) = logged(run, "message-accepted")
    assert listed["data"]["content"][0]["text"] == HOSTILE


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_following_ends_between_lines(
    run: Run, talk: Json, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    def instead_of_waiting(_seconds: float) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("reenact.cli.commands.log.pause", instead_of_waiting)

    done = run("log", "--follow", "--last", "2", "--output-format", "json")

    assert done.code == code
    assert [event["position"] for event in done.objects[:2]] == positions(run, "--last", "2")
