"""Several machines: nodes on one log, as runtimes of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Image, LogLockedError, Runtime
from reenact._runtime import SharedRuntime
from reenact.audit import verify_log
from reenact.domain.operations.table import Sent
from reenact.events import Envelope
from reenact.testing import MockEnvironmentFactory
from reenact.testing.clock import wait_until
from tests.features.story import Ears
from tests.journal.server import Server, running_server

scenarios("several_machines.feature")

PATIENCE = 60.0
NODES = ("A", "B")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    runtime = tmp_path_factory.getbasetemp().parent / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with running_server(runtime) as server:
        yield server


class Cluster:
    """The nodes, and what the scenario has done with them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stack = ExitStack()
        self.nodes: dict[str, Runtime] = {}
        self.session = self.agent = self.turn = ""
        self.followed: dict[str, Any] = {}
        self.ears: dict[str, Ears] = {}
        self.asked: dict[str, str] = {}
        self.answers: list[object] = []
        self.refused: Exception | None = None

    def open(self, name: str) -> None:
        self.nodes[name] = self.stack.enter_context(
            Runtime.open(self.url, environment=MockEnvironmentFactory(delays=False), default_image=Image(id="chat"))
        )

    def is_at(self, name: str, session_id: str) -> bool:
        node = self.nodes[name]._node
        assert node is not None
        return node.region.may_start(f"session/{session_id}")

    def id_at(self, name: str) -> str:
        return next(id_ for number in count() if self.is_at(name, id_ := f"session-{number}"))

    def heard(self, name: str) -> list[Envelope]:
        """Return what was heard at the node until its last turn was over."""
        told: list[Envelope] = []
        while not (told and told[-1].type == "turn_completed" and told[-1].context.turn_id == self.turn):
            envelope = self.followed[name].next(timeout=PATIENCE)
            assert envelope is not None
            told.append(envelope)
        return told


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = Cluster(server.new_log())
    with cluster.stack:
        yield cluster


@given('the nodes "A" and "B" on one log in PostgreSQL')
def two_nodes(cluster: Cluster) -> None:
    for name in NODES:
        cluster.open(name)
    wait_until(lambda: all(node._node is not None and node._node.owns_share for node in cluster.nodes.values()))


@given(parsers.parse('a session on node "{name}"'))
def a_session(cluster: Cluster, name: str) -> None:
    node = cluster.nodes[name]
    node.containers.create(container_id="default")
    cluster.session = node.sessions.create("default", "chat", session_id=cluster.id_at(name)).id
    cluster.agent = node.sessions.run(cluster.session)


@given("I follow the session at both nodes")
def i_follow(cluster: Cluster) -> None:
    for name, node in cluster.nodes.items():
        cluster.followed[name] = cluster.stack.enter_context(node.events.stream(cluster.session))


@given("I listen to all events at both nodes")
def i_listen(cluster: Cluster) -> None:
    cluster.ears = {name: Ears() for name in cluster.nodes}
    for name, node in cluster.nodes.items():
        node.events.on_all(cluster.ears[name].hear)


@given(parsers.parse('I send "{text}" to its agent through node "{name}"'))
@when(parsers.parse('I send "{text}" to its agent through node "{name}"'))
def i_send(cluster: Cluster, text: str, name: str) -> None:
    cluster.turn = cluster.nodes[name].agents.receive(cluster.agent, text)
    assert cluster.nodes[name].turns.wait(cluster.turn, timeout=PATIENCE).outcome == "completed"


@given(parsers.parse('I ask "{text}" at each node'))
@when(parsers.parse('I ask "{text}" at each node'))
def i_ask(cluster: Cluster, text: str) -> None:
    cluster.asked = {name: node.ask(text, timeout=PATIENCE).session_id for name, node in cluster.nodes.items()}


@when(parsers.parse('I send the request "{request_id}" with the message "{text}" through node "{name}"'))
def i_request(cluster: Cluster, request_id: str, text: str, name: str) -> None:
    asked = {"agent_id": cluster.agent, "content": text, "request_id": request_id}
    response = cluster.nodes[name].request("message_send_request", asked)
    turn = msgspec.convert(response.data.result, Sent).turn_id
    cluster.answers.append(turn)
    assert cluster.nodes[name].turns.wait(turn, timeout=PATIENCE).outcome == "completed"


@when('I hand the session over and plan messages through node "A"')
def i_arrange(cluster: Cluster) -> None:
    node = cluster.nodes["A"]
    node.images.register(Image(id="other"))
    assert node.sessions.switch(cluster.session, "other")
    first, second = (node.agents.schedule(cluster.session, "Later", every=3600) for _ in range(2))
    assert node.agents.cancel_schedule(first.id)
    cluster.answers.append(second)


@then("both nodes should say on which image it is, and what is to come")
def both_say(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        session = node.sessions.get(cluster.session)
        assert session is not None
        assert session.image_id == "other"
        assert node.agents.schedules(cluster.session) == cluster.answers


@given("a message is to come soon, and another one in an hour")
def one_is_to_come(cluster: Cluster) -> None:
    agents, now = cluster.nodes["B"].agents, datetime.now(UTC)
    agents.schedule(cluster.session, "In an hour", at=now + timedelta(hours=1))
    agents.schedule(cluster.session, "Soon", at=now + timedelta(seconds=1))


@then(parsers.parse('node "{name}" should have a conversation of {length:d} messages in the end'))
def a_node_has_it_in_the_end(cluster: Cluster, name: str, length: int) -> None:
    wait_until(lambda: len(cluster.nodes[name].sessions.messages(cluster.session)) == length)


@then(parsers.parse('one message should be to come at node "{name}"'))
def one_comes_later(cluster: Cluster, name: str) -> None:
    assert len(cluster.nodes[name].agents.schedules(cluster.session)) == 1


@when(parsers.parse('node "{name}" is closed'))
def a_node_is_closed(cluster: Cluster, name: str) -> None:
    cluster.nodes.pop(name).close()


@when("all nodes are closed")
def all_are_closed(cluster: Cluster) -> None:
    for name in NODES:
        cluster.nodes.pop(name).close()


@when("a chat opens the log")
def a_chat_opens(cluster: Cluster) -> None:
    with pytest.raises(LogLockedError) as refused:
        SharedRuntime.open(cluster.url, environment=MockEnvironmentFactory())
    cluster.refused = refused.value


@then("its turn should be completed")
def the_turn_is_completed(cluster: Cluster) -> None:
    (node, *_) = cluster.nodes.values()
    assert node.turns.wait(cluster.turn, timeout=PATIENCE).outcome == "completed"


@then(parsers.parse("both nodes should have the same conversation of {length:d} messages"))
def both_have_it(cluster: Cluster, length: int) -> None:
    said = [node.sessions.messages(cluster.session) for node in cluster.nodes.values()]
    assert said[0] == said[1]
    assert len(said[0]) == length


@then(parsers.parse('node "{name}" should have a conversation of {length:d} messages'))
def a_node_has_it(cluster: Cluster, name: str, length: int) -> None:
    assert len(cluster.nodes[name].sessions.messages(cluster.session)) == length


@then("I should have heard the same events under the same cursors from both")
def heard_the_same(cluster: Cluster) -> None:
    first, second = (cluster.heard(name) for name in NODES)
    assert first == second
    assert [event.cursor for event in first] == [*range(1, len(first) + 1)]


@then(parsers.parse('the events that I heard at node "{name}" should be numbered from 1, without holes'))
def heard_without_holes(cluster: Cluster, name: str) -> None:
    heard = cluster.heard(name)
    assert [event.cursor for event in heard] == [*range(1, len(heard) + 1)]
    assert len([event for event in heard if event.type == "turn_completed"]) == 2


@then("each node should have told of both turns, each once")
def told_of_both(cluster: Cluster) -> None:
    for ears in cluster.ears.values():
        ended = ears.wait("turn_completed", count=len(cluster.asked))
        assert {event.context.session_id for event in ended} == {*cluster.asked.values()}
        assert len(ears.of("turn_completed")) == len(cluster.asked)


@then("both should have been answered with the same turn")
def answered_with_the_same(cluster: Cluster) -> None:
    first, second = cluster.answers
    assert first == second


@then("each session should be on its own node")
def on_its_own_node(cluster: Cluster) -> None:
    assert all(cluster.is_at(name, session) for name, session in cluster.asked.items())


@then(parsers.parse('the session should be on node "{name}"'))
def the_session_is_on(cluster: Cluster, name: str) -> None:
    assert cluster.is_at(name, cluster.session)


@then("it should be refused because the log is being written")
def it_is_refused(cluster: Cluster) -> None:
    assert cluster.refused is not None


@then("the log should be sound")
def the_log_is_sound(cluster: Cluster) -> None:
    assert verify_log(cluster.url).findings == ()
