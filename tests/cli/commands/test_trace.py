"""The turns in a log, sent to a collector on the command line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact._location import location_of
from reenact.cli.settings.environment import database_of
from reenact.testing import wait_until
from tests.cli.conftest import Json, Run
from tests.logs import with_logs
from tests.started.programs import Programs, Started
from tests.tracing.receiver import Receiver, receiving

TURN = ["chat", "invoke_agent chat"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def trace(run: Run, receiver: Receiver, *options: str, **variables: str) -> str:
    done = run("trace", "--otlp", receiver.url, *options, **variables)
    assert done.code == 0, done.err
    return done.out


def test_the_turns_that_have_ended_are_sent(run: Run, talk: Json, receiver: Receiver) -> None:
    assert trace(run, receiver) == f"2 spans sent to {receiver.url}\n"

    assert receiver.names() == TURN
    assert receiver.metrics == []
    assert b"apples" not in receiver.traces[0].SerializeToString()


def test_sent_again_they_are_the_same_and_with_a_state_they_are_not_sent_again(
    run: Run, talk: Json, receiver: Receiver
) -> None:
    trace(run, receiver)
    trace(run, receiver, "--state", "sent")
    last = trace(run, receiver, "--state", "sent", "--output-format", "json")

    spans = [span.SerializeToString(deterministic=True) for span in receiver.spans()]
    assert '"spans":0' in last
    assert spans[:2] == spans[2:]


def test_one_session_is_sent_with_its_content_if_that_is_wanted(run: Run, talk: Json, receiver: Receiver) -> None:
    run("-p", "About pears")

    trace(run, receiver, "--session", talk["session_id"], "--content")

    assert receiver.names() == TURN
    assert b"About apples" in receiver.traces[0].SerializeToString()


def test_metrics_are_sent_too(run: Run, talk: Json, receiver: Receiver) -> None:
    trace(run, receiver, "--metrics")

    assert "gen_ai.invoke_agent.duration" in receiver.last_metrics()


def test_the_collector_may_be_that_of_the_environment(run: Run, talk: Json, receiver: Receiver) -> None:
    done = run("trace", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)

    assert (done.code, receiver.names()) == (0, TURN)


def test_what_cannot_be_done_is_said_and_nothing_is_sent(run: Run, talk: Json, receiver: Receiver) -> None:
    for arguments, word in (
        ((), "--otlp says where"),
        (("--otlp", "localhost:4318"), "http://localhost:4318"),
        (("--otlp", receiver.url, "--session", "nobody"), "does not exist"),
        (("--otlp", receiver.url, "--session", "x", "--metrics"), "give no --session"),
        (("--otlp", receiver.url, "--state", "mysql://x"), "a directory or a postgresql:// URL"),
    ):
        done = run("trace", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert word in done.err

    assert receiver.requests == 0


@pytest.mark.sqlite_only("the user's own file")
def test_where_there_is_no_log_nothing_is_sent(run: Run, receiver: Receiver) -> None:
    assert trace(run, receiver) == ""

    assert receiver.requests == 0


@pytest.mark.parametrize(("status", "code"), [(401, 2), (404, 2), (503, 4)])
def test_a_collector_that_takes_nothing_is_a_failure(
    run: Run, talk: Json, receiver: Receiver, status: int, code: int
) -> None:
    receiver.status = status

    done = run("trace", "--otlp", receiver.url, OTEL_EXPORTER_OTLP_TIMEOUT="0.3")

    assert (done.code, done.out) == (code, "")
    assert str(status) in done.err
    assert "Traceback" not in done.err


def test_a_collector_that_is_not_there_is_one_of_the_network(run: Run, talk: Json) -> None:
    with receiving() as gone:
        url = gone.url

    done = run("trace", "--otlp", url, OTEL_EXPORTER_OTLP_TIMEOUT="0.3")

    assert (done.code, done.out) == (4, "")
    assert "does not answer" in done.err


class Follower:
    """`trace --follow` in a process of its own."""

    def __init__(self, start: Callable[[int], Started], told: Path, receiver: Receiver) -> None:
        self.receiver = receiver
        self._told = told
        with told.open("wb") as file:
            self._program = start(file.fileno())

    def wait(self, count: int) -> None:
        """Wait until so many spans are there."""
        wait_until(lambda: len({span.span_id for span in self.receiver.spans()}) == count)

    def end(self) -> tuple[int, str]:
        """Interrupt it, and return its exit code and what it has said."""
        os.kill(self._program.pid, signal.SIGINT)
        return self._program.wait(60), self._told.read_text()


Follow: TypeAlias = Callable[[], Follower]


@pytest.fixture
def follow(receiver: Receiver, programs: Programs, environ: dict[str, str], tmp_path: Path) -> Follow:
    """Return what starts a follower, which is impatient with its collector."""
    arguments = with_logs(["trace", "--otlp", receiver.url, "--follow"], tmp_path)
    impatient = environ | {"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"}

    def start(told: int) -> Started:
        return programs.start(arguments, impatient, tmp_path, (None, told, told))

    return lambda: Follower(start, tmp_path / "told", receiver)


def test_a_log_is_followed_while_others_write_it_and_gone_on_with(
    run: Run, talk: Json, receiver: Receiver, follow: Follow, environ: dict[str, str]
) -> None:
    follower = follow()
    follower.wait(2)
    run("-p", "About pears", "--continue")
    follower.wait(4)
    code, told = follower.end()
    run("-p", "About plums", "--continue")
    beside = location_of(database_of(None, environ)).tracing
    last = trace(run, receiver, "--state", beside)

    assert (code, "Traceback" in told) == (130, False)
    assert (last, len(receiver.spans())) == (f"2 spans sent to {receiver.url}\n", 6)


def test_a_follower_says_once_that_the_collector_is_down_and_goes_on_when_it_is_back(
    talk: Json, receiver: Receiver, follow: Follow
) -> None:
    receiver.status = 503
    follower = follow()
    wait_until(lambda: receiver.requests > 2)
    receiver.status = 200
    follower.wait(2)
    _, told = follower.end()

    assert told.count("answers 503; nothing is lost: it is sent later; trying again") == 1
    assert "Traceback" not in told


def test_a_follower_that_is_refused_ends(run: Run, talk: Json, receiver: Receiver) -> None:
    receiver.status = 401

    done = run("trace", "--otlp", receiver.url, "--follow")

    assert (done.code, receiver.requests) == (2, 1)
    assert "OTEL_EXPORTER_OTLP_HEADERS" in done.err


def test_the_turns_of_an_encrypted_log_are_sent_with_its_keys_alone(run: Run, receiver: Receiver) -> None:
    for name in ("ring.keys", "other.keys"):
        run("keys", name)
    run("-p", "About apples", "--db", "secret.db", "--keys", "ring.keys")
    asked = ("trace", "--otlp", receiver.url, "--db", "secret.db")

    without, wrong = run(*asked), run(*asked, "--keys", "other.keys")
    before = receiver.names()
    sent = run(*asked, "--keys", "ring.keys")

    assert [(one.code, one.out) for one in (without, wrong)] == [(2, ""), (3, "")]
    assert before == []
    assert (sent.code, receiver.names()) == (0, TURN)
