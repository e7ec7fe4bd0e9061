"""How a command becomes a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.extensions.kinds import Command, called_agent, called_command


def command(body: str) -> Command:
    return Command(name="fix", description="", argument_hint=None, body=body, path="fix.md", source="user", digest="")


@pytest.mark.parametrize(
    ("body", "arguments", "message"),
    [
        ("Fix $ARGUMENTS now", "a  b", "Fix a  b now"),
        ("Fix $1, then $2", "a b c", "Fix a, then b"),
        ("Fix $1, then $2", '"a b" c', "Fix a b, then c"),
        ("Fix $1, then $2", "a", "Fix a, then "),
        ("Fix $1", "it's", "Fix it's"),
        ("Fix $1 and $1", "$2 b", "Fix $2 and $2"),
        ("Fix $ARGUMENTS", "$1 $ARGUMENTS", "Fix $1 $ARGUMENTS"),
        ("Costs $10 or $0", "a", "Costs $10 or $0\n\nARGUMENTS: a"),
        ("Keep $ARGUMENTS_LEFT", "", "Keep $ARGUMENTS_LEFT"),
        ("Fix it", "a b", "Fix it\n\nARGUMENTS: a b"),
        ("Fix it", "  ", "Fix it"),
    ],
)
def test_arguments_are_put_in_their_places_once(body: str, arguments: str, message: str) -> None:
    assert command(body).message(arguments) == message


@given(arguments=st.text())
def test_whatever_is_typed_stands_in_the_message_as_it_was_typed(arguments: str) -> None:
    assert command("<$ARGUMENTS>").message(arguments) == f"<{arguments.strip()}>"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/fix", ("fix", "")),
        ("/fix 1 2", ("fix", "1 2")),
        ("/fix one\ntwo", ("fix", "one\ntwo")),
        ("/etc/passwd is what?", None),
        ("fix", None),
        ("/", None),
        ("/ fix", None),
    ],
)
def test_a_line_calls_a_command_by_its_first_word(line: str, name: tuple[str, str] | None) -> None:
    assert called_command(line) == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("@boss look here", ("boss", "look here")),
        ("@boss\nlook", ("boss", "look")),
        ("@boss", None),
        ("ask @boss this", None),
        ("me@example.org wrote", None),
    ],
)
def test_a_line_is_for_an_agent_if_it_begins_with_its_name(line: str, name: tuple[str, str] | None) -> None:
    assert called_agent(line) == name
