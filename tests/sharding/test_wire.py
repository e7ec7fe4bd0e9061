"""How commands and their replies travel between nodes."""

from __future__ import annotations

import msgspec
import pytest

from reenact.actors.sharding import wire
from reenact.domain.container import CreateContainer
from reenact.domain.errors import AlreadyExistsError, ReenactError, ShardMovedError
from reenact.domain.history.causes import FORMS
from reenact.domain.idempotency import IdempotencyKey, IdempotentCommand
from reenact.domain.image import Definition, RegisterImage
from reenact.domain.messages import TextBlock, instant
from reenact.domain.session.commands import (
    Approve,
    BranchSession,
    CancelSchedule,
    CreateSession,
    Delete,
    Interrupt,
    Receive,
    Reject,
    Respond,
    Run,
    ScheduleMessage,
    Stop,
    Switch,
)
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import SessionInfo
from reenact.domain.stream.events import Context

KEY = IdempotencyKey("req_1", b"\x00digest")
INFO = SessionInfo(id="s", container_id="c", image_id="i", image_revision=1, created_at=instant(0), origin=None)
RECEIVE = Receive(agent_id="a", turn_id="t", message_id="m", content=(TextBlock(text="Hé\0llo"),), at=3, once=KEY)
PLANNED = Schedule(
    id="q", session_id="s", content=(TextBlock(text="x"),), at=instant(1), every=60.0, until=None, created_at=instant(0)
)
COMMANDS: tuple[IdempotentCommand, ...] = (
    CreateContainer("c", None, once=KEY),
    RegisterImage("i", Definition(name="n"), once=KEY),
    CreateSession(session_id="s", container_id="c", image_id="i", image_revision=1, once=KEY),
    BranchSession(
        session_id="b",
        container_id="c",
        image_id="i",
        image_revision=1,
        origin="s",
        version=1,
        digest="00",
        position=4,
        at=1,
        left_at=1,
        edit=(TextBlock(text="x"),),
        once=KEY,
    ),
    Run(session_id="s", agent_id="a", at=1, once=KEY),
    RECEIVE,
    Approve(call_id="k", turn_id="t", at=1, arguments={"a": [1, None, {"b": 0.5}]}, once=KEY),
    Reject(call_id="k", turn_id="t", at=1, reason="no", once=KEY),
    Respond(call_id="k", turn_id="t", at=1, value=["x"], once=KEY),
    Interrupt(agent_id="a", reason="user", at=1, once=KEY),
    Stop(agent_id="a", reason="destroyed", at=1, once=KEY),
    Delete(session_id="s", at=1, once=KEY),
    Switch(session_id="s", image_id="j", image_revision=2, history="none", once=KEY),
    ScheduleMessage(session_id="s", schedule_id="q", content=(TextBlock(text="x"),), due=1, every=2, until=3, once=KEY),
    CancelSchedule(schedule_id="q", once=KEY),
)


def test_each_command_that_a_request_may_lead_to_is_tried_here() -> None:
    kinds = {kind for kind, _ in FORMS.values() if issubclass(kind, IdempotentCommand)}

    assert {type(command) for command in COMMANDS} == kinds


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_arrives_as_it_was_sent(command: IdempotentCommand) -> None:
    passed = wire.read_passed(wire.passed_bytes("session", "s", command))

    assert (passed.category, passed.id, passed.command) == ("session", "s", command)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (COMMANDS[0], None),
        (COMMANDS[1], 3),
        (COMMANDS[2], INFO),
        (COMMANDS[4], "a"),
        (RECEIVE, "t"),
        (COMMANDS[6], None),
        (COMMANDS[12], False),
        (COMMANDS[13], PLANNED),
        (COMMANDS[14], True),
    ],
)
def test_a_reply_arrives_as_it_was_given(command: IdempotentCommand, reply: object) -> None:
    assert wire.answer_of(command, wire.reply_bytes(reply)) == reply


def test_a_reply_of_no_use_to_anybody_arrives_as_none() -> None:
    assert wire.answer_of(COMMANDS[0], wire.reply_bytes({"some": "state"})) is None


def test_a_refusal_is_the_same_error_with_the_same_words() -> None:
    refused = AlreadyExistsError("session", "s")

    answer = wire.answer_of(COMMANDS[2], wire.refusal_bytes(refused))

    assert isinstance(answer, AlreadyExistsError)
    assert str(answer) == str(refused)


def test_a_failure_that_is_no_refusal_is_said_in_its_own_words() -> None:
    answer = wire.answer_of(COMMANDS[2], wire.refusal_bytes(ZeroDivisionError("by zero")))

    assert isinstance(answer, ReenactError)
    assert "by zero" in str(answer)


def test_an_actor_that_is_elsewhere_has_not_seen_the_command() -> None:
    assert isinstance(wire.answer_of(RECEIVE, wire.ELSEWHERE), ShardMovedError)


@pytest.mark.parametrize(
    ("command", "note", "reply"),
    [
        (COMMANDS[1], ("i", 2), 2),
        (COMMANDS[2], INFO, INFO),
        (RECEIVE, (Context(session_id="s"), {"turn_id": "t", "agent_id": "a", "session_id": "s"}), "t"),
        (COMMANDS[11], True, None),
    ],
)
def test_what_the_log_remembers_of_a_command_is_its_reply(
    command: IdempotentCommand, note: object, reply: object
) -> None:
    assert wire.reply_of(command, msgspec.msgpack.encode(note)) == reply
