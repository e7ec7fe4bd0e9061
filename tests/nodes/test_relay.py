"""Requests and replies between nodes on a server that goes, comes back and falls silent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from selectors import DefaultSelector
from subprocess import PIPE
from typing import TypeAlias

import psycopg
import pytest

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect
from reenact.actors.nodes import relay as relay_module
from reenact.actors.nodes.database import ImpatientConnection
from reenact.actors.nodes.relay import NotSentError, OutcomeUnknownError, Relay, RelayError, Serve
from reenact.actors.nodes.relay import _Message as Message
from reenact.domain.errors import ConfigurationError, LogUnusableError, StorageError
from tests.journal.server import Server
from tests.nodes.proxy import Proxy
from tests.nodes.relay_program import echo
from tests.nodes.test_database import wait_for
from tests.started.forked import Forked

LIMIT = 120.0

Exchanged: TypeAlias = tuple[float, list[tuple[int, int, str | None, bytes]]]
Reply: TypeAlias = Callable[[bytes], None]
Outcome: TypeAlias = "Future[bytes | RelayError]"


class Waiting:
    """Serves when the test says so."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[tuple[bytes, Reply]] = SimpleQueue()

    def __call__(self, body: bytes, reply: Reply) -> None:
        self.requests.put((body, reply))

    def next(self) -> tuple[bytes, Reply]:
        return self.requests.get(timeout=LIMIT)


class Nodes:
    """Relays of one log; each says its node's id to the server as the name of its application."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.url = url
        self.address = address_of(url)
        self._stack = stack

    def start(self, node_id: str, serve: Serve = echo, url: str | None = None) -> Relay:
        relay = Relay(f"{url or self.url}&application_name={node_id}", node_id, serve)
        self._stack.callback(relay.close)
        return relay

    def start_program(self, node_id: str) -> Forked:
        command = ["tests.nodes.relay_program", self.url, node_id]
        program = self._stack.enter_context(Forked(command, stdin=PIPE, stdout=PIPE))
        self._stack.callback(program.kill)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        return program

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with connect(self.address) as connection:
            cursor = connection.execute(statement.replace("{schema}", self.address.schema).encode())
            return cursor.fetchall() if cursor.description else []

    def messages(self) -> list[tuple[object, ...]]:
        return self.execute("SELECT recipient, reply_to, length(body) FROM {schema}.messages ORDER BY number")

    def terminate(self, node_id: str) -> None:
        """End the node's connection."""
        query = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = "
        assert self.execute(f"{query}'{node_id}'") == [(True,)]

    @contextmanager
    def blocked(self) -> Generator[None]:
        """Have exchanges wait in the server."""
        with connect(self.address) as connection, connection.transaction():
            connection.execute(f"LOCK TABLE {self.address.schema}.messages".encode())
            yield

    def wait_until_blocked(self, node_id: str) -> None:
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = "
        wait_for(lambda: len(self.execute(f"{waits}'{node_id}'")) == 1)


@pytest.fixture
def nodes(url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Generator[Nodes]:
    # No answer is given up while a test runs, however busy the machine is.
    monkeypatch.setattr(relay_module, "_PATIENCE", 600.0)
    with ExitStack() as stack:
        nodes = Nodes(url, stack)
        yield nodes
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert nodes.messages() == []


def ask(relay: Relay, node_id: str, body: bytes = b"question") -> Outcome:
    """Ask; the answer may come once."""
    outcome: Outcome = Future()
    relay.ask(node_id, body, outcome.set_result)
    return outcome


def sending(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what is set when the relay begins its next exchange with something to send."""
    begun = threading.Event()
    execute = relay._execute

    def note_and_execute(connection: ImpatientConnection, batch: list[Message], after: int) -> Exchanged:
        if batch:
            begun.set()
        return execute(connection, batch, after)

    monkeypatch.setattr(relay, "_execute", note_and_execute)
    return begun


def looks_no_more(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the relay begin no exchange without something to send, or to read."""
    waits, rest = threading.Event(), relay._wait

    def wait(selector: DefaultSelector, timeout: float) -> None:
        waits.set()
        rest(selector, LIMIT)

    monkeypatch.setattr(relay, "_wait", wait)
    assert waits.wait(LIMIT)


def reply_to(relay: Relay, node_id: str, body: bytes = b"question") -> bytes | RelayError:
    return ask(relay, node_id, body).result(LIMIT)


def ask_until_answered(relay: Relay, node_id: str) -> None:
    """Ask again and again, as whoever asks does."""
    wait_for(lambda: reply_to(relay, node_id, b"again") == b"again")


def test_a_request_is_served_by_the_node_that_it_is_for(nodes: Nodes) -> None:
    a = nodes.start("a", lambda body, reply: reply(b"a: " + body))
    b = nodes.start("b", lambda body, reply: reply(b"b: " + body))

    assert reply_to(a, "b") == b"b: question"
    assert reply_to(b, "a") == b"a: question"
    assert reply_to(a, "a") == b"a: question"
    wait_for(lambda: nodes.messages() == [])


@pytest.mark.parametrize(
    "body", [b"", b"\0", bytes(range(256)) * 4, b"\0x" * 10_000_000], ids=["empty", "nul", "all bytes", "20 MB"]
)
def test_a_body_may_be_any_bytes(nodes: Nodes, body: bytes) -> None:
    a = nodes.start("a")
    nodes.start("b")

    assert reply_to(a, "b", body) == body


def test_a_thousand_requests_at_once_have_each_its_reply(nodes: Nodes) -> None:
    a, b = nodes.start("a"), nodes.start("b")
    outcomes: dict[tuple[Relay, bytes], Outcome] = {}

    def ask_many(relay: Relay, node_id: str, start: int) -> None:
        for number in range(start, start + 250):
            body = str(number).encode()
            outcomes[relay, body] = ask(relay, node_id, body)

    threads = [
        threading.Thread(target=ask_many, args=(relay, node_id, start))
        for relay, node_id in ((a, "b"), (b, "a"))
        for start in (0, 250)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(outcomes) == 1000
    assert all(outcome.result(LIMIT) == body for (_, body), outcome in outcomes.items())
    wait_for(lambda: nodes.messages() == [])


@pytest.mark.parametrize(("name", "value"), [("_BATCH_BYTES", 100), ("_BATCH_ROWS", 3)])
def test_requests_of_one_node_are_served_in_their_order_in_however_many_exchanges(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(relay_module, name, value)
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)

    bodies = [str(number).encode() * 20 for number in range(100)]
    outcomes = [ask(a, "b", body) for body in bodies]
    served = [waiting.next() for _ in bodies]
    for body, reply in reversed(served):
        reply(body)

    assert [body for body, _ in served] == bodies
    assert [outcome.result(LIMIT) for outcome in outcomes] == bodies


def test_what_fails_here_is_logged_and_the_next_request_is_served(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    def serve(body: bytes, reply: Reply) -> None:
        reply(body)
        raise RuntimeError("served badly")

    def done(_: bytes | RelayError) -> None:
        raise RuntimeError("told badly")

    a = nodes.start("a")
    nodes.start("b", serve)
    a.ask("b", b"question", done)

    assert reply_to(a, "b") == b"question"
    a.ask("c", b"question", done)
    wait_for(lambda: len(nodes.messages()) == 1)
    a.gone(["c"])
    wait_for(lambda: nodes.messages() == [])
    assert reply_to(a, "b") == b"question"
    told = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert sorted(told) == ["served badly", "served badly", "served badly", "told badly", "told badly"]
    caplog.clear()


def test_what_is_too_large_is_not_sent(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "VALUE_LIMIT", 10)
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)

    refused = reply_to(a, "b", b"x" * 11)
    outcome = ask(a, "b", b"x" * 10)
    _, reply = waiting.next()
    with pytest.raises(ValueError, match="11 bytes"):
        reply(b"y" * 11)
    reply(b"too large")

    assert isinstance(refused, NotSentError)
    assert outcome.result(LIMIT) == b"too large"


# Nodes that end


def test_a_reply_after_the_asker_has_closed_is_deleted_when_it_is_old(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "_SWEEP_SECONDS", 0.0)
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    outcome = ask(a, "b")
    _, reply = waiting.next()

    a.close()
    reply(b"late")

    assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
    wait_for(lambda: nodes.messages() == [("a", None, 4)])
    nodes.execute("UPDATE {schema}.messages SET at = at - interval '60 s'")
    ask_until_answered(nodes.start("c"), "c")
    assert ("a", None, 4) in nodes.messages()
    nodes.execute("UPDATE {schema}.messages SET at = at - interval '60 s'")
    wait_for(lambda: nodes.messages() == [])


def test_a_request_that_nobody_reads_is_given_up(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_SWEEP_SECONDS", 0.0)
    a = nodes.start("a")
    outcome = ask(a, "nobody")
    wait_for(lambda: nodes.messages() == [("nobody", "a", 8)])

    nodes.start("b")
    nodes.execute("UPDATE {schema}.messages SET at = at - interval '60 s'")

    assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
    assert nodes.messages() == []


def test_what_was_asked_of_nodes_that_have_ended_fails_and_nothing_else_does(nodes: Nodes) -> None:
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    lost, kept = ask(a, "c"), ask(a, "b")
    _, reply = waiting.next()

    a.gone({"c", "d"})

    assert isinstance(lost.result(LIMIT), OutcomeUnknownError)
    reply(b"answer")
    assert kept.result(LIMIT) == b"answer"


def test_what_was_not_sent_yet_when_its_receiver_ended_is_known_not_to_be_carried_out(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = nodes.start("a")
    nodes.start("b")
    looks_no_more(a, monkeypatch)
    begun = sending(a, monkeypatch)
    with nodes.blocked():
        sent = ask(a, "c")
        assert begun.wait(LIMIT)
        unsent, kept = ask(a, "c"), ask(a, "b")
        a.gone(["c"])

    assert isinstance(sent.result(LIMIT), OutcomeUnknownError)
    assert isinstance(unsent.result(LIMIT), NotSentError)
    assert kept.result(LIMIT) == b"question"


def test_closing_fails_what_is_under_way_and_sends_the_last_replies(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting()
    a, b = nodes.start("a", waiting), nodes.start("b")
    asked = ask(b, "a")
    _, reply = waiting.next()
    under_way = ask(a, "a")
    waiting.next()
    looks_no_more(a, monkeypatch)
    begun = sending(a, monkeypatch)

    with nodes.blocked():
        unread = ask(a, "nobody")
        assert begun.wait(LIMIT)
        unsent = ask(a, "b")
        reply(b"the last")
        threads = [threading.Thread(target=a.close) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for(lambda: not a._is_open)
        assert isinstance(reply_to(a, "b"), NotSentError)
    for thread in threads:
        thread.join()

    assert asked.result(LIMIT) == b"the last"
    assert isinstance(under_way.result(LIMIT), OutcomeUnknownError)
    assert isinstance(unread.result(LIMIT), OutcomeUnknownError)
    assert isinstance(unsent.result(LIMIT), NotSentError)
    a.gone(["b"])
    reply(b"too late")
    a.close()


def test_a_relay_can_be_closed_by_whom_it_calls(nodes: Nodes) -> None:
    a = nodes.start("a")
    nodes.start("b")
    closed = threading.Event()

    def done(_: bytes | RelayError) -> None:
        a.close()
        closed.set()

    a.ask("b", b"question", done)

    assert closed.wait(LIMIT)
    assert isinstance(reply_to(a, "b"), NotSentError)


# A connection that is lost


def test_a_node_that_has_lost_its_connection_goes_on_over_another_one(nodes: Nodes) -> None:
    a, b = nodes.start("a"), nodes.start("b")
    for node_id in "ab":
        nodes.terminate(node_id)

    ask_until_answered(a, "b")
    ask_until_answered(b, "a")


def test_what_is_under_way_fails_with_the_asker_s_connection_and_its_reply_is_ignored(nodes: Nodes) -> None:
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    outcome = ask(a, "b")
    _, reply = waiting.next()

    nodes.terminate("a")

    assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
    reply(b"late")
    wait_for(lambda: nodes.messages() == [])


def test_a_request_is_taken_back_when_the_connection_is_lost_before_it_was_read(nodes: Nodes) -> None:
    a = nodes.start("a")
    outcome = ask(a, "b")
    wait_for(lambda: nodes.messages() == [("b", "a", 8)])

    nodes.terminate("a")

    assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
    wait_for(lambda: nodes.messages() == [])


def test_a_request_whose_sending_was_interrupted_has_an_unknown_outcome(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = nodes.start("a")
    nodes.start("b")
    looks_no_more(a, monkeypatch)
    begun = sending(a, monkeypatch)
    with nodes.blocked():
        outcome = ask(a, "b")
        assert begun.wait(LIMIT)
        nodes.wait_until_blocked("a")
        nodes.terminate("a")

        assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)

    ask_until_answered(a, "b")


def test_the_connection_of_the_receiver_is_lost_before_it_replies(nodes: Nodes) -> None:
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    outcome = ask(a, "b")
    _, reply = waiting.next()

    nodes.terminate("b")
    reply(b"answer")

    assert outcome.result(LIMIT) == b"answer"


def test_the_connection_of_the_receiver_is_lost_while_it_replies(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    a, b = nodes.start("a"), nodes.start("b", waiting)
    outcome = ask(a, "b")
    _, reply = waiting.next()
    looks_no_more(b, monkeypatch)
    begun = sending(b, monkeypatch)

    with nodes.blocked():
        reply(b"answer")
        assert begun.wait(LIMIT)
        nodes.wait_until_blocked("b")
        nodes.terminate("b")

    assert outcome.result(LIMIT) == b"answer"


@pytest.mark.parametrize("lost", ["the request", "the reply"])
def test_an_exchange_whose_answer_is_lost_is_done_once(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    execute = Relay._execute
    failures: list[str] = []

    def execute_and_lose(relay: Relay, connection: ImpatientConnection, batch: list[Message], after: int) -> Exchanged:
        exchanged = execute(relay, connection, batch, after)
        if relay._id == "b" and not failures and (exchanged[1] if lost == "the request" else batch):
            failures.append(lost)
            raise psycopg.OperationalError("lost")
        return exchanged

    monkeypatch.setattr(Relay, "_execute", execute_and_lose)  # before any thread of a relay begins an exchange
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    outcome = ask(a, "b")
    _, reply = waiting.next()
    reply(b"answer")

    assert outcome.result(LIMIT) == b"answer"
    wait_for(lambda: failures == [lost])
    # What comes after it shows that nothing came twice.
    outcome = ask(a, "b", b"next")
    body, reply = waiting.next()
    reply(b"next answer")
    assert (body, outcome.result(LIMIT)) == (b"next", b"next answer")


def test_requests_are_refused_while_the_server_is_gone_and_sent_when_it_is_back(nodes: Nodes, server: Server) -> None:
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    nodes.start("c")
    outcome = ask(a, "b")
    waiting.next()

    server.stop()
    try:
        assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
        wait_for(lambda: isinstance(reply_to(a, "b"), NotSentError))
        assert isinstance(reply_to(a, "b"), NotSentError)
    finally:
        server.start()

    ask_until_answered(a, "c")


def test_a_relay_can_be_closed_while_the_server_is_gone(nodes: Nodes, server: Server) -> None:
    waiting = Waiting()
    a = nodes.start("a")
    b = nodes.start("b", waiting)
    under_way = ask(b, "nobody")
    ask(a, "b")
    _, reply = waiting.next()
    server.stop()
    try:
        assert isinstance(under_way.result(LIMIT), OutcomeUnknownError)
        wait_for(lambda: isinstance(reply_to(b, "a"), NotSentError))
        reply(b"answer")
        b.close()
    finally:
        server.start()

    ask_until_answered(a, "a")
    nodes.execute("DELETE FROM {schema}.messages WHERE recipient = 'nobody'")


def test_a_message_is_not_taken_for_another_one_that_had_its_number_before_a_crash(nodes: Nodes) -> None:
    a = nodes.start("a")
    nodes.start("b")
    for number in range(10):
        body = str(number).encode()
        assert reply_to(a, "b", body) == body
        nodes.execute("TRUNCATE {schema}.messages RESTART IDENTITY")


def test_a_message_that_comes_into_sight_after_later_ones_were_read_is_read_all_the_same(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "_SWEEP_SECONDS", 0.2)
    waiting = Waiting()
    a = nodes.start("a")
    b = nodes.start("b", waiting)

    def is_served() -> bool:
        outcome = ask(a, "b")
        _, reply = waiting.next()
        reply(b"answer")
        return outcome.result(LIMIT) == b"answer"

    # Exchanges do not begin at the first message any more.
    wait_for(lambda: is_served() and b._floor > 1)
    nodes.execute(
        "INSERT INTO {schema}.messages (recipient, number, request, reply_to, body) OVERRIDING SYSTEM VALUE"
        " VALUES ('b', 1, 7, 'a', 'late')"
    )

    body, reply = waiting.next()
    reply(b"ignored")
    assert body == b"late"


def test_exchanges_pass_no_messages_of_others_and_none_that_were_read_before(nodes: Nodes) -> None:
    relay = nodes.start("a")
    query = f"EXPLAIN {relay_module._EXCHANGE.format(schema=nodes.address.schema)}"
    values = {"id": "a", "after": 5, "batch": 10, "rows": 10, "numbers": [1], "known": [2]}
    sent = {"recipients": ["b"], "requests": [1], "reply_to": ["a"], "bodies": [b""]}
    with relay._connect() as connection:
        plan = [line.strip() for (line,) in connection.execute(query.encode(), {**values, **sent})]

    scans = [line.removeprefix("->  ").partition("  (")[0] for line in plan if " on messages" in line]
    assert scans == [
        "Insert on messages messages_1",
        "Delete on messages messages_2",
        "Index Scan using messages_pkey on messages messages_2",
        "Index Scan using messages_pkey on messages",
    ]
    assert [line for line in plan if line.startswith("Index Cond")] == [
        "Index Cond: ((recipient = 'a'::text) AND (number = ANY ('{1}'::bigint[])))",
        "Index Cond: ((recipient = 'a'::text) AND (number > '5'::smallint))",
    ]


def test_a_server_that_falls_silent_is_given_up(nodes: Nodes, server: Server) -> None:
    waiting = Waiting()
    nodes.start("b", waiting)
    with Proxy(server.url) as proxy:
        a = nodes.start("a", url=proxy.url(nodes.url))
        outcome = ask(a, "b")
        waiting.next()

        assert a._connection is not None
        a._connection.limit = 0.5
        # An exchange that began before has the old limit: now it is over.
        reply_to(a, "a")
        proxy.hold()

        assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
        proxy.go_on()
        ask_until_answered(a, "a")
        a.close()


def test_who_did_not_look_for_long_may_have_lost_replies(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    a = nodes.start("a")
    nodes.start("b", waiting)
    outcome = ask(a, "b")
    waiting.next()

    monkeypatch.setattr(relay_module, "_LONGEST_ABSENCE", -1.0)

    assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
    monkeypatch.setattr(relay_module, "_LONGEST_ABSENCE", 30.0)
    assert reply_to(a, "a") == b"question"


def test_a_relay_needs_a_server_with_a_log(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError):
        Relay("postgresql://a@b@c/d", "a", echo)
    with pytest.raises(LogUnusableError):
        Relay(server.new_log(), "a", echo)
    with pytest.raises(StorageError):
        Relay("postgresql://nobody@127.0.0.1:1/none", "a", echo)


# Processes


def test_a_stopped_node_keeps_nobody_waiting_and_serves_when_it_goes_on(nodes: Nodes) -> None:
    a = nodes.start("a")
    nodes.start("b")
    program = nodes.start_program("c")
    assert reply_to(a, "c") == b"question"

    program.send_signal(signal.SIGSTOP)
    large = [ask(a, "c", b"x" * 5_000_000) for _ in range(4)]
    assert [reply_to(a, "b", str(number).encode()) for number in range(20)] == [b"%d" % n for n in range(20)]
    program.send_signal(signal.SIGCONT)

    assert [outcome.result(LIMIT) for outcome in large] == [b"x" * 5_000_000] * 4


def test_what_was_asked_of_a_killed_process_fails_when_it_is_gone(nodes: Nodes) -> None:
    a = nodes.start("a")
    program = nodes.start_program("c")
    program.send_signal(signal.SIGSTOP)
    outcome = ask(a, "c")
    wait_for(lambda: len(nodes.messages()) == 1)
    program.kill()
    program.wait()

    a.gone(["c"])

    assert isinstance(outcome.result(LIMIT), OutcomeUnknownError)
    wait_for(lambda: nodes.messages() == [])
