"""`reenact branch`: a new session that goes on with the history of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Json, Run


def test_its_id_is_printed_and_can_be_resumed(run: Run, talk: Json) -> None:
    branched = run("branch", talk["session_id"], "--id", "twig")

    assert (branched.code, branched.out) == (0, "twig\n")
    resumed = run("--resume", "twig", "-p", "Go on", "--output-format", "json").result
    assert (resumed["success"], resumed["session_id"]) == (True, "twig")


def test_as_json_it_is_the_session(run: Run, talk: Json) -> None:
    last = run("log", "--output-format", "json").objects[-1]["position"]

    branched = run("branch", talk["session_id"], "--model", "m", "--system-prompt", "p", "--output-format", "json")

    session = branched.result
    assert session["origin"]["session_id"] == talk["session_id"]
    assert session["origin"]["position"] == last
    assert session["image_id"].startswith("img_")


def test_the_history_ends_where_it_is_told_to(run: Run, talk: Json) -> None:
    accepted = run("log", "--type", "message-accepted", "--output-format", "json").result["position"]

    run("branch", talk["session_id"], "--at", str(accepted), "--edit", "About pears", "--id", "twig")

    listed = {one["id"]: one["first_words"] for one in run("sessions", "--output-format", "json").objects}
    assert listed == {talk["session_id"]: "About apples", "twig": "About pears"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("nobody",), "session 'nobody' does not exist"), (("nobody", "--at", "x"), "--at")],
)
def test_what_cannot_be_is_refused(run: Run, talk: Json, arguments: tuple[str, ...], words: str) -> None:
    refused = run("branch", *arguments)

    assert (refused.code, refused.out) == (2, "")
    assert words in refused.err


def test_where_there_is_no_log_none_is_begun(run: Run, tmp_path: Path) -> None:
    refused = run("branch", "nobody")

    assert refused.code == 2
    assert not list(tmp_path.rglob("*.db*"))


def test_a_position_that_there_is_not_is_refused_in_json_too(run: Run, talk: Json) -> None:
    refused = run("branch", talk["session_id"], "--at", "9999", "--output-format", "json")

    assert refused.code == 2
    assert refused.result["error"]["type"] == "invalid_input"
