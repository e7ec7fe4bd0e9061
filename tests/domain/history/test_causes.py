"""The commands that steps followed from, as the log stores them: each is what it was when it is read again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings

from reenact.domain.container import ContainerCreated, CreateContainer
from reenact.domain.errors import LogTooNewError, LogUnusableError
from reenact.domain.history.causes import FORMS, AnyCommand, cause_of, read_cause
from reenact.domain.history.stored import STORED
from reenact.domain.idempotency import IdempotencyKey
from reenact.domain.image import Definition, ImageRegistered, RegisterImage
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import AnswerRecorded, Failure, MessageAccepted, ReceivedAnswer, TurnCompleted
from reenact.domain.session.commands import Compress, Delete, Finish, Receive, SessionCommand
from reenact.domain.session.state import Session, evolve
from tests.domain.history.retraced import STARTED, check_retraced, events_of, played, told
from tests.domain.session.examples import HELLO
from tests.domain.session.loops import (
    ASK,
    AT,
    CAREFUL,
    FREE,
    LOOK,
    PAY,
    PRICED,
    USAGE,
    approve,
    asks,
    finish,
    interrupt,
    receive,
    reject,
    report,
    respond,
    resume,
    run,
    says,
    stop,
)
from tests.domain.session.policies import PAY_IS_DENIED
from tests.examples import examples
from tests.projections.histories import Step as Doing
from tests.projections.histories import steps as doings

SILENT = ReceivedAnswer(message_id="m9", stop_reason="end_turn", usage=USAGE, model="m")
FAILS = ReceivedAnswer(failure=Failure("api_error", "broken"), untold=True, usage=USAGE)
SPENT = Rules(cost_limit=CostLimit(0.5), prices=PRICED.prices, costs=PRICED.costs)
WARNED = Rules(cost_limit=CostLimit(0.5, "warn"), prices=PRICED.prices)
NO_HANDS = Rules(runs_tools=False)
AGAIN = Rules(idempotent=("look",))
PART = ReceivedAnswer(message_id="m9", content=HELLO, usage=USAGE, model="m", responding=True)
DELETE = Delete(session_id="s", at=AT + 9, results_id="r8")
DENIED = Rules(policies=PAY_IS_DENIED)
ANSWER = "message_id content stop_reason usage model responding failure untold stop_sequence stop_details first_delta"


def compress(turn_id: str) -> Compress:
    return Compress(turn_id=turn_id, summary="in short", kept=1, usage=USAGE, model="m", at=AT, rules=PRICED)


def early(command: Finish) -> Finish:
    """Have the clock go back."""
    return msgspec.structs.replace(command, at=AT - 9)


def stored_again(events: Sequence[Any]) -> list[Any]:
    """Return the events as they come back from a log."""
    kinds: list[type[Any]] = [type(event) for event in events]
    return [
        msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=kind)
        for event, kind in zip(events, kinds, strict=True)
    ]


def check_stored(command: AnyCommand, events: Sequence[Any]) -> None:
    """Hold what is read of a command to the command; rules are recorded by themselves."""
    rules: Rules = getattr(command, "rules", Rules())

    read = read_cause(cause_of(command, events))

    assert read.kind is type(command)
    assert read.command(stored_again(events), rules) == command


@settings(max_examples=examples(150))
@given(doings)
def test_every_command_of_a_session_is_read_as_it_was_given(chosen: list[Doing]) -> None:
    world = played(chosen)

    for steps in world.steps.values():
        for step in steps:
            check_stored(step.command, step.events)


@pytest.mark.parametrize(
    "commands",
    [
        [receive("t1"), finish(says("Hi", usage=USAGE), PRICED), receive("t2")],
        [receive("t1", PRICED), receive("t2"), finish(SILENT, PRICED), finish(FAILS, turn_id="t2")],
        [receive("t1"), finish(says("Hi")), receive("t2"), compress("t2"), finish(FAILS, turn_id="t2")],
        [receive("t1"), finish(asks(LOOK, usage=USAGE)), report("a"), finish(FAILS)],
        [receive("t1"), finish(asks(LOOK), NO_HANDS)],
        [
            receive("t1"),
            finish(asks(LOOK, PAY), CAREFUL),
            report("a", rules=CAREFUL),
            approve("b"),
            report("b", turn_id="t7"),
        ],
        [receive("t1"), finish(asks(PAY), CAREFUL), approve("b", arguments={"amount": 2}), report("b", turn_id="t7")],
        [receive("t1"), finish(asks(PAY), CAREFUL), receive("t2"), reject("b")],
        [receive("t1"), finish(asks(PAY), CAREFUL), receive("t2"), reject("b", resume=False)],
        [receive("t1"), finish(asks(ASK)), respond("q", "that one")],
        [receive("t1"), finish(asks(LOOK)), resume()],
        [receive("t1"), finish(asks(LOOK), AGAIN), resume(AGAIN)],
        [receive("t1"), finish(asks(LOOK)), resume(CAREFUL)],
        [receive("t1"), finish(asks(LOOK)), finish(FAILS)],
        [receive("t1"), finish(asks(LOOK, usage=USAGE), SPENT), receive("t2", SPENT)],
        [receive("t1", WARNED), finish(asks(LOOK, usage=USAGE), WARNED), report("a", rules=WARNED)],
        [receive("t1"), receive("t2"), interrupt(PART, PRICED), finish(SILENT, turn_id="t2")],
        [receive("t1"), interrupt()],
        [receive("t1"), interrupt(asks(LOOK, text="Well"))],
        [receive("t1"), interrupt(says("Hi"))],
        [receive("t1"), finish(asks(LOOK)), interrupt()],
        [receive("t1"), finish(asks(PAY), CAREFUL), receive("t2"), interrupt(rules=CAREFUL)],
        [receive("t1"), stop(says("Hi"))],
        [receive("t1"), stop(FAILS)],
        [receive("t1"), finish(asks(LOOK, PAY), CAREFUL), stop(), run(FREE)],
        [receive("t1"), finish(asks(PAY), CAREFUL), stop(), run(DENIED)],
        [receive("t1"), receive("t2"), stop(PART), run(FREE)],
        [receive("t1"), receive("t2"), receive("t3"), DELETE],
        [receive("t1"), finish(asks(PAY), CAREFUL), DELETE],
        [stop(), DELETE],
        [receive("t1"), early(finish(SILENT)), receive("t2")],
        [receive("t1"), receive("t2"), early(finish(ReceivedAnswer(stop_reason="end_turn")))],
    ],
)
def test_every_kind_of_command_is_read_and_decided_again(commands: list[SessionCommand]) -> None:
    steps = [step for step in told(*STARTED, *commands) if step.events]

    for step in steps:
        check_stored(step.command, step.events)
    check_retraced(steps, reduce(evolve, events_of(steps), Session()))


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (CreateContainer(container_id="c", name="home"), ContainerCreated("c", "home")),
        (CreateContainer(container_id="c", name=None), ContainerCreated("c", None)),
        (RegisterImage(image_id="i", definition=Definition("i")), ImageRegistered("i", 7, Definition("i"))),
    ],
)
def test_commands_of_containers_and_images_are_read_as_they_were_given(command: AnyCommand, event: object) -> None:
    check_stored(command, [event])

    assert stored_fields(command, [event]) == {}


def stored_fields(command: AnyCommand, events: Sequence[object]) -> dict[str, Any]:
    """Return what is stored of a command, beside its name."""
    fields: dict[str, Any] = msgspec.msgpack.decode(cause_of(command, events))[1]
    return fields


def test_what_the_events_of_a_step_say_is_not_stored_again() -> None:
    steps = told(
        *STARTED,
        receive("t1"),
        finish(asks(LOOK, PAY, usage=USAGE, text="Well"), CAREFUL),
        report("a", rules=CAREFUL),
        approve("b", arguments={"amount": 2}),
        report("b", turn_id="t7"),
        finish(says("Hi", usage=USAGE), turn_id="t7"),
    )

    assert [stored_fields(step.command, step.events) for step in steps] == [
        {},
        {"session_id": "s", "at": AT},
        {"agent_id": "a"},
        {"results_id": "r1"},
        {"at": AT, "results_id": "r-a"},
        {"digest": None, "results_id": "r7"},
        {},
        {"results_id": "r1"},
    ]


def test_of_a_request_that_is_carried_out_once_its_id_is_stored() -> None:
    once = IdempotencyKey("req_7", b"a digest of all that was asked")
    command = CreateContainer(container_id="c", name=None, once=once)

    read = read_cause(cause_of(command, [ContainerCreated("c", None)])).command([ContainerCreated("c", None)], FREE)
    assert isinstance(read, CreateContainer)

    assert read.once == IdempotencyKey("req_7", b"")
    assert b"digest" not in cause_of(command, [ContainerCreated("c", None)])


def test_a_message_says_its_request_once() -> None:
    (step,) = told(
        *STARTED, msgspec.structs.replace(receive("t1"), request_id="req_7", once=IdempotencyKey("req_7", b""))
    )[2:]

    assert stored_fields(step.command, step.events) == {"agent_id": "a"}
    check_stored(step.command, step.events)


MALFORMED: list[tuple[object, type[Exception], str]] = [
    (["receive:2", {}], LogTooNewError, "unknown form 'receive:2'"),
    (["receive:1", {"content": 7}], LogUnusableError, "cannot be decoded"),
    (["receive:1", {"more": 7}], LogUnusableError, "cannot be decoded"),
    (["receive:1"], LogUnusableError, "cannot be decoded"),
    ({}, LogUnusableError, "cannot be decoded"),
]


@pytest.mark.parametrize(("cause", "error", "problem"), MALFORMED)
def test_what_is_no_command_that_this_version_knows_is_refused(
    cause: object, error: type[LogUnusableError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        read_cause(msgspec.msgpack.encode(cause))


def test_fields_that_nobody_says_are_missed() -> None:
    with pytest.raises(LogUnusableError, match="the record lacks the agent_id"):
        read_cause(msgspec.msgpack.encode(["receive:1", {}])).command([], Rules())


FIELDS = {
    "create-container:1": "container_id name once",
    "register-image:1": "image_id definition once",
    "create-session:1": "session_id container_id image_id image_revision once",
    "branch-session:1": (
        "session_id container_id image_id image_revision origin version digest position at left_at edit ids "
        "results_id once until children parent budget"
    ),
    "switch:1": "session_id image_id image_revision history once",
    "schedule-message:1": "session_id schedule_id content due every until once",
    "cancel-schedule:1": "schedule_id once",
    "fire-schedule:1": ("schedule_id due at agent_id turn_id message_turn_id message_id results_id runs_tools"),
    "run:1": "session_id agent_id at turn_id results_id once runs_tools",
    "receive:1": "agent_id turn_id message_id content at request_id output once runs_tools",
    "finish:1": f"turn_id at results_id runs_tools {ANSWER}",
    "pass-answer:1": "turn_id at",
    "report:1": "turn_id call_id result is_error at handover results_id runs_tools",
    "compress:1": "turn_id summary kept usage model at runs_tools",
    "approve:1": "call_id turn_id at arguments digest by results_id once runs_tools",
    "reject:1": "call_id turn_id at reason resume by results_id once runs_tools",
    "respond:1": "call_id turn_id at value by results_id once runs_tools",
    "resume:1": "turn_id at results_id runs_tools",
    "interrupt:1": f"agent_id reason at results_id once runs_tools {ANSWER}",
    "stop:1": f"agent_id reason at results_id once runs_tools {ANSWER}",
    "delete:1": f"session_id at results_id once runs_tools {ANSWER}",
    "begin-child:1": (
        "session_id container_id image_id image_revision parent budget agent_id turn_id message_id content at"
    ),
    "report-child:1": (
        "child_id outcome stop_reason steps usage cost version cursor digest at result content turn_id message_id "
        "agent_id results_id runs_tools"
    ),
    "give-up-children:1": "at results_id runs_tools",
}


def test_no_stored_form_loses_its_name_or_a_field() -> None:
    for name, fields in FIELDS.items():
        known = read_cause(msgspec.msgpack.encode([name, {}])).fields.__struct_fields__
        assert set(fields.split()) <= set(known), name


def test_every_field_is_looked_for_where_there_is_one() -> None:
    assert {kind for kind, _ in FORMS.values()} == {*get_args(SessionCommand), CreateContainer, RegisterImage}
    assert set(FORMS) == set(FIELDS)
    for name, (_, places) in FORMS.items():
        assert set(places) <= set(FIELDS[name].split())
        for event, field, _ in chain.from_iterable(places.values()):
            assert event in STORED.values()
            assert field in event.__struct_fields__


def test_what_was_stored_long_ago_is_read_as_it_was_meant() -> None:
    said = MessageAccepted("t1", "m1", (TextBlock("Hello"),), 7, "req_1")
    answer = AnswerRecorded("t1", "m2", (TextBlock("Hi"),), "end_turn", False, {"input_tokens": 1}, "small", 9)  # noqa: FBT003 - as stored
    completed = TurnCompleted("t1", "completed", "end_turn", {"input_tokens": 1}, 2e-6, "responding")

    receive = read_cause(msgspec.msgpack.encode(["receive:1", {"agent_id": "a"}])).command([said], FREE)
    finish = read_cause(msgspec.msgpack.encode(["finish:1", {"runs_tools": False}])).command([answer, completed], FREE)

    assert receive == Receive(
        agent_id="a",
        turn_id="t1",
        message_id="m1",
        content=(TextBlock("Hello"),),
        at=7,
        request_id="req_1",
        once=IdempotencyKey("req_1", b""),
        rules=FREE,
    )
    so_far = ReceivedAnswer(
        message_id="m2",
        content=(TextBlock("Hi"),),
        stop_reason="end_turn",
        usage={"input_tokens": 1},
        model="small",
        responding=True,
    )
    assert finish == Finish(turn_id="t1", so_far=so_far, at=9, rules=NO_HANDS)
