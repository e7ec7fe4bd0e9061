"""A limit of what a session costs is kept: where nobody knows what is to be paid, nothing is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import Run

LIMITED = ("--max-cost", "1", "--price", "claude-x=3,15")
Claude = Mapping[str, str]


@pytest.fixture
def begun(run: Run, claude: FakeMessagesAPI) -> None:
    """Have a session with a limit."""
    assert run("-p", "Hello", "--model", "claude-x", *LIMITED).code == 0
    claude.requests.clear()


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize("said", [("-p", "More"), ("-p", "@boss More"), ()], ids=["-p", "agent", "lines"])
def test_a_session_with_a_limit_does_not_go_on_where_its_model_has_no_price(
    run: Run, claude: FakeMessagesAPI, tmp_path: Path, said: tuple[str, ...]
) -> None:
    agents = tmp_path / ".reenact" / "agents"
    agents.mkdir(parents=True)
    agents.joinpath("boss.md").write_text("---\nname: boss\ndescription: Decides\n---\nDecide.\n")

    done = run("--continue", *said, "--output-format", "json", stdin=b"More\n")

    error = done.result["error"]
    assert (done.code, error["code"], error["type"]) == (2, 2, "invalid_configuration")
    assert all(words in error["message"] for words in ("--max-cost", "claude-x", "--price claude-x=IN,OUT"))
    assert claude.requests == []


@pytest.mark.usefixtures("begun")
def test_a_session_with_a_limit_goes_on_with_the_prices_of_settings(
    run: Run, claude: FakeMessagesAPI, tmp_path: Path
) -> None:
    settings = Path(tmp_path, "home", ".reenact")
    settings.mkdir()
    settings.joinpath("settings.json").write_text('{"prices": {"claude-x": [3, 15]}}')

    assert run("--continue", "-p", "More").code == 0


@pytest.mark.usefixtures("begun")
def test_a_session_with_a_limit_does_not_go_on_with_another_model_that_has_no_price(
    run: Run, claude: FakeMessagesAPI
) -> None:
    refused = run("--continue", "-p", "More", "--model", "claude-z", "--price", "claude-x=3,15")

    assert refused.code == 2
    assert "claude-z has no price (there is one for claude-x)" in refused.err
    assert claude.requests == []


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        (("--model", "claude-z"), "claude-z"),
        ("claude-y", "claude-y"),
        (("--model", "claude-fable-5-2"), "claude-fable-5-2"),
    ],
    ids=["--model", "ANTHROPIC_MODEL", "well-known"],
)
def test_a_limit_needs_the_price_of_the_model_that_is_asked(
    run: Run, claude: FakeMessagesAPI, chosen: tuple[str, ...] | str, named: str
) -> None:
    variables = {"ANTHROPIC_MODEL": chosen} if isinstance(chosen, str) else {}

    refused = run("-p", "Hello", *(chosen if isinstance(chosen, tuple) else ()), *LIMITED, **variables)

    assert refused.code == 2
    assert f"{named} has no price" in refused.err
    assert f"--price {named}=IN,OUT" in refused.err
    assert claude.requests == []


def test_the_mock_answers_whatever_the_limit_for_it_costs_nothing(run: Run) -> None:
    assert run("-p", "Hello", *LIMITED).code == 0


def test_the_mock_answers_without_a_price_and_a_warning_says_so(run: Run) -> None:
    done = run("-p", "Hello", "--model", "claude-y", "--max-cost", "1")

    assert (done.code, done.out) == (0, "Hello from mock!\n")
    assert done.err.count("the cost limit of image 'chat' does not count its model, which has no price") == 1


def test_answers_under_a_name_without_a_price_are_warned_of_once(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply(text="One", model="claude-other")
    claude.reply(text="Two", model="claude-other")

    done = run("--model", "claude-x", *LIMITED, stdin=b"One\nTwo\n")

    assert (done.code, done.out) == (0, "One\nTwo\n")
    assert done.err.count("answers came from claude-other, which has no price") == 1


def test_answers_under_the_name_with_a_date_have_the_price(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply(text="One", model="claude-x-20260101")

    done = run("-p", "One", "--model", "claude-x", *LIMITED)

    assert (done.code, done.err) == (0, "")
