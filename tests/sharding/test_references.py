"""Commands to actors that may be on other nodes: who is asked, and what becomes of a command when nodes come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import cast

import msgspec
import pykka
import pytest

from reenact._runtime import codec
from reenact.actors.container import ContainerActor
from reenact.actors.journal.api import Remembered
from reenact.actors.journal.opening import open_journal
from reenact.actors.kernel import ActorSystem, PooledFuture
from reenact.actors.kernel.timetable import microseconds
from reenact.actors.nodes.protocol import Peer
from reenact.actors.nodes.relay import NotSentError, OutcomeUnknownError, Relay, RelayError
from reenact.actors.sharding import references, wire
from reenact.actors.sharding.references import ShardedActors
from reenact.actors.sharding.region import ShardRegion
from reenact.domain.container import CreateContainer
from reenact.domain.errors import (
    AlreadyExistsError,
    RequestTimeoutError,
    RuntimeClosedError,
    ShardMovedError,
)
from reenact.domain.idempotency import IdempotencyKey
from tests.logs import log_at

CREATE = CreateContainer("c", None)
Done = Callable[[bytes | RelayError], None]


class Region:
    """Knows where the shards are, as the test says."""

    owner = "here"

    def __init__(self) -> None:
        self.at: str | None = "here"
        self.ended: set[str] = set()

    def is_here(self, stream: str) -> bool:
        return self.at == "here"

    def owner_of(self, stream: str) -> Peer | None:
        return None if self.at is None else Peer(self.at, self.at, "live", drains=False)

    def has_ended(self, node_id: str) -> bool:
        return node_id in self.ended


class Wire:
    """Takes what is asked of other nodes, for the test to answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, Done]] = []
        self.let_go: set[str] = set()

    def ask(self, node_id: str, body: bytes, done: Done) -> None:
        self.asked.append((node_id, body, done))

    def gone(self, node_ids: Collection[str]) -> None:
        self.let_go.update(node_ids)


class Node:
    """One node, with everything around it played by the test."""

    def __init__(self, system: ActorSystem) -> None:
        self.region = Region()
        self.wire = Wire()
        self.remembered: dict[str, Remembered] = {}
        self.actors = ShardedActors(
            system,
            cast("ShardRegion", self.region),
            remembered=self.remembered.get,
            new_id=lambda prefix: f"{prefix}_{len(self.wire.asked)}",
        )
        self.actors.join(cast("Relay", self.wire))
        self.container = self.actors.actor(ContainerActor, "c")


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path = log_at(tmp_path_factory.mktemp("log") / "log.db")
    with open_journal(path, codec(), synchronous="OFF") as journal:
        system = ActorSystem(journal, clock=microseconds)
        try:
            yield Node(system)
        finally:
            system.close()


def test_an_actor_that_is_here_is_asked_here(node: Node) -> None:
    assert node.container.ask(CREATE) is None
    with pytest.raises(AlreadyExistsError):
        node.container.ask_future(CREATE).get(timeout=60)
    assert node.wire.asked == []


def test_a_command_for_another_node_is_passed_on_under_a_key_and_its_reply_comes_back(node: Node) -> None:
    node.region.at = "there"

    reply = node.container.ask_future(CREATE)
    (asked,) = node.wire.asked
    passed = wire.read_passed(asked[1])
    asked[2](wire.reply_bytes(None))

    assert asked[0] == "there"
    assert (passed.category, passed.id) == ("container", "c")
    assert passed.command == msgspec.structs.replace(CREATE, once=IdempotencyKey("req_0", b""))
    assert reply.get(timeout=0) is None


def test_the_key_of_a_request_stays_its_own(node: Node) -> None:
    node.region.at = "there"
    key = IdempotencyKey("r", b"digest")

    node.container.ask_future(msgspec.structs.replace(CREATE, once=key))

    assert wire.read_passed(node.wire.asked[0][1]).command.once == key


def test_a_refusal_of_another_node_is_raised_here(node: Node) -> None:
    node.region.at = "there"

    reply = node.container.ask_future(CREATE)
    node.wire.asked[0][2](wire.refusal_bytes(AlreadyExistsError("container", "c")))

    with pytest.raises(AlreadyExistsError):
        reply.get(timeout=0)


def test_a_command_waits_until_its_shard_has_an_owner(node: Node) -> None:
    node.region.at = None
    reply = node.container.ask_future(CREATE)
    node.actors.resend_waiting()
    assert not reply.done()

    node.region.at = "here"
    node.actors.resend_waiting()

    assert reply.get(timeout=60) is None


def test_a_node_that_has_just_lost_the_shard_leads_to_the_next_one(node: Node) -> None:
    node.region.at = "there"
    reply = node.container.ask_future(CREATE)
    node.wire.asked[0][2](wire.ELSEWHERE)

    node.region.at = "elsewhere"
    node.actors.resend_waiting()

    assert [asked[0] for asked in node.wire.asked] == ["there", "elsewhere"]
    assert not reply.done()


@pytest.mark.parametrize("error", [NotSentError("the server is away"), OutcomeUnknownError("nobody knows")])
def test_a_command_whose_answer_is_lost_is_sent_again_under_the_same_key(node: Node, error: RelayError) -> None:
    node.region.at = "there"
    reply = node.container.ask_future(CREATE)
    node.wire.asked[0][2](error)
    node.actors.resend_waiting()

    first, second = (wire.read_passed(body).command for _, body, _ in node.wire.asked)
    node.wire.asked[1][2](wire.reply_bytes(None))

    assert first == second
    assert reply.get(timeout=0) is None


def test_when_the_owner_ends_the_next_one_is_asked_and_a_late_answer_is_of_no_effect(node: Node) -> None:
    node.region.at = "there"
    reply = node.container.ask_future(CREATE)
    node.region.at, node.region.ended = "next", {"there"}
    node.actors.resend_waiting()
    first, second = node.wire.asked
    first[2](wire.refusal_bytes(AlreadyExistsError("container", "c")))
    assert not reply.done()

    second[2](wire.reply_bytes(None))

    assert reply.get(timeout=0) is None
    assert node.wire.let_go == {"there"}


def test_what_was_carried_out_before_its_node_ended_is_answered_from_the_log(node: Node) -> None:
    node.region.at = "there"
    reply = node.container.ask_future(CREATE)
    node.region.at = "next"
    node.actors.resend_waiting()
    node.wire.asked[1][2](wire.refusal_bytes(AlreadyExistsError("container", "c")))
    node.remembered["req_0"] = Remembered("req_0", b"", msgspec.msgpack.encode(None), 1)

    node.actors.resend_waiting()

    assert reply.get(timeout=0) is None


def test_a_refusal_stands_if_the_log_remembers_nothing_of_the_command(node: Node) -> None:
    node.region.at = "there"
    reply = node.container.ask_future(CREATE)
    node.region.at = "next"
    node.actors.resend_waiting()
    node.wire.asked[1][2](wire.refusal_bytes(AlreadyExistsError("container", "c")))

    node.actors.resend_waiting()

    with pytest.raises(AlreadyExistsError):
        reply.get(timeout=0)


def test_a_log_that_cannot_be_read_then_is_the_asker_s_to_know(node: Node) -> None:
    def fail(_: str) -> Remembered | None:
        raise RuntimeClosedError("closed")

    node.actors = ShardedActors(
        node.actors._system, cast("ShardRegion", node.region), remembered=fail, new_id=lambda prefix: prefix
    )
    node.actors.join(cast("Relay", node.wire))
    node.region.at = "there"
    reply = node.actors.actor(ContainerActor, "c").ask_future(CREATE)
    node.region.at = "next"
    node.actors.resend_waiting()
    node.wire.asked[1][2](wire.refusal_bytes(AlreadyExistsError("container", "c")))

    node.actors.resend_waiting()

    with pytest.raises(RuntimeClosedError):
        reply.get(timeout=0)


def test_nobody_waits_for_an_owner_for_ever(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "PATIENCE", 0.0)
    node.region.at = None
    reply = node.container.ask_future(CREATE)

    node.actors.resend_waiting()

    with pytest.raises(ShardMovedError):
        reply.get(timeout=0)


def test_an_ask_ends_with_its_time(node: Node) -> None:
    node.region.at = "there"

    with pytest.raises(RequestTimeoutError):
        node.container.ask(CREATE, timeout=0.01)


def test_a_reply_that_comes_as_the_time_ends_is_the_reply(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.region.at = "there"
    get = PooledFuture[object].get

    def get_too_late(future: PooledFuture[object], *, timeout: float | None = None) -> object:
        if timeout is None:
            return get(future)
        node.wire.asked[0][2](wire.reply_bytes(None))
        raise pykka.Timeout

    monkeypatch.setattr(PooledFuture, "get", get_too_late)

    assert node.container.ask(CREATE, timeout=60) is None


def test_closing_tells_those_that_wait(node: Node) -> None:
    node.region.at = None
    waiting = node.container.ask_future(CREATE)
    node.region.at = "there"
    asked = node.container.ask_future(CREATE)

    node.actors.close()
    node.region.at = None
    late = node.container.ask_future(CREATE)
    node.region.at = "there"
    later = node.container.ask_future(CREATE)

    for reply in (waiting, asked, late, later):
        with pytest.raises(RuntimeClosedError):
            reply.get(timeout=0)


class Answers:
    """What was replied to other nodes."""

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def __call__(self, answer: bytes) -> None:
        self.given.append(answer)


def test_a_command_of_another_node_is_carried_out_by_the_actor_here(node: Node) -> None:
    answers = Answers()
    body = wire.passed_bytes("container", "c", CREATE)

    node.actors.serve(body, answers)
    node.container.ask_future(CREATE).add_done_callback(lambda _: None)
    with pytest.raises(AlreadyExistsError):
        node.container.ask(CREATE)
    node.actors.serve(body, answers)
    with pytest.raises(AlreadyExistsError):
        node.container.ask(CREATE)

    assert wire.answer_of(CREATE, answers.given[0]) is None
    assert isinstance(wire.answer_of(CREATE, answers.given[1]), AlreadyExistsError)


def test_a_command_of_another_node_for_an_actor_that_is_not_here_has_no_effect(node: Node) -> None:
    answers = Answers()
    node.region.at = "there"

    node.actors.serve(wire.passed_bytes("container", "c", CREATE), answers)

    assert answers.given == [wire.ELSEWHERE]


@pytest.mark.parametrize("body", [b"", b"\xc1", wire.passed_bytes("planet", "c", CREATE)])
def test_what_nobody_can_read_is_refused_and_not_left_without_an_answer(node: Node, body: bytes) -> None:
    answers = Answers()

    node.actors.serve(body, answers)

    assert isinstance(wire.answer_of(CREATE, answers.given[0]), Exception)


def test_a_system_that_closes_has_not_seen_the_command(node: Node) -> None:
    answers = Answers()
    node.actors._system.close()

    node.actors.serve(wire.passed_bytes("container", "c", CREATE), answers)

    assert answers.given == [wire.ELSEWHERE]


def test_what_a_closing_node_has_carried_out_is_answered_from_the_log(node: Node) -> None:
    node.region.at = "there"
    reply = node.container.ask_future(CREATE)
    node.wire.asked[0][2](wire.ELSEWHERE)
    node.actors.resend_waiting()
    node.wire.asked[1][2](wire.refusal_bytes(AlreadyExistsError("container", "c")))
    node.remembered["req_0"] = Remembered("req_0", b"", msgspec.msgpack.encode(None), 1)

    node.actors.resend_waiting()

    assert reply.get(timeout=0) is None
