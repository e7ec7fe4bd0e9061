"""Turns as traces, sent to a collector on loopback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Answer, Image, PendingCall, Runtime, Said
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until
from reenact.tracing import Tracing
from tests.logs import log_at
from tests.tracing.conftest import TOOLS, clerk
from tests.tracing.receiver import Receiver, attributes, receiving

scenarios("tracing.feature")

IMAGE = Image(id="clerk", model="claude-clerk", tools=TOOLS)


def fallible(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Be a clerk, who fails if that is asked for."""
    if conversation[-1].text == "Fail":
        yield MockEvent("error", data={"type": "overloaded_error", "message": "too busy"})
    else:
        yield from clerk(conversation)


class Case:
    """An agent, its log, and what a collector has of it."""

    def __init__(self, folder: Path, receiver: Receiver, parts: ExitStack) -> None:
        self.receiver = receiver
        self.other: list[Span] = []
        self.answer: Answer | None = None
        self.settings: dict[str, bool] = {}
        self._folder = folder
        self._mock = MockEnvironmentFactory()
        self._mock.define_scenario("clerk", fallible)
        self._mock.set_scenario("clerk")
        self._parts = parts
        self.runtime: Runtime | None = None
        self.tracing: Tracing | None = None

    def open(self) -> tuple[Runtime, Tracing]:
        """Open the runtime, unless it is open."""
        if self.runtime is None or self.tracing is None:
            log = log_at(self._folder / "agents.db")
            self.runtime = self._parts.enter_context(
                Runtime.open(log, environment=self._mock, default_image=IMAGE, synchronous="OFF")
            )
            self.tracing = Tracing(
                self.runtime,
                endpoint=self.receiver.url,
                content=self.settings.get("content", False),
                metrics=self.settings.get("metrics", False),
            )
        return self.runtime, self.tracing

    def close(self) -> None:
        """Let the program end."""
        self._parts.close()
        self.runtime = self.tracing = None

    def ask(self, text: str, session: str | None = None) -> None:
        self.answer = self.open()[0].ask(text, session=session)

    def spans(self) -> list[Span]:
        """Return what the collector has, once all that has ended is there."""
        runtime, tracing = self.open()
        wait_until(lambda: not [one for one in runtime.agents.list() if one.turn_id])
        tracing.wait_for()
        return self.receiver.spans()

    def traces(self) -> list[Span]:
        return [span for span in self.spans() if span.name.startswith("invoke_agent")]


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.4")
    monkeypatch.setattr("reenact.projections.runner.PAUSES", (0.01, 0.05))
    with receiving() as receiver, ExitStack() as parts:
        yield Case(tmp_path, receiver, parts)


@given("a collector of OpenTelemetry")
@given("an agent whose turns are sent to it")
def prepared(case: Case) -> None:
    assert case.receiver.requests == 0


@given(parsers.parse("the {what} is wanted, too"))
@given(parsers.parse("{what} are wanted, too"))
def wanted(case: Case, what: str) -> None:
    case.settings[what] = True


@given("the collector is down")
def down(case: Case) -> None:
    case.receiver.status = 503


@when("the collector is up again")
def up(case: Case) -> None:
    case.receiver.status = 200


@given(parsers.parse('I have asked "{text}"'))
@when(parsers.parse('I ask "{text}"'))
def ask(case: Case, text: str) -> None:
    case.ask(text)


@when("Bob approves the mail")
def approve(case: Case) -> None:
    assert case.answer is not None
    (pending,) = case.answer.pending
    assert isinstance(pending, PendingCall)
    case.open()[0].agents.approve(pending, by="Bob")


@when(parsers.parse('I branch off and ask "{text}" there'))
def branch(case: Case, text: str) -> None:
    assert case.answer is not None
    branched = case.open()[0].sessions.branch(case.answer.session_id)
    case.ask(text, session=branched.id)


@when("the program ends and is started again")
def restart(case: Case) -> None:
    case.close()
    case.open()


@when("the log is sent to another collector")
def send_elsewhere(case: Case, tmp_path: Path) -> None:
    with receiving() as other:
        Tracing(case.open()[0], endpoint=other.url, state=log_at(tmp_path / "other.db")).wait_for()
        case.other = other.spans()


@then(parsers.parse('the collector should have a trace with "{root}", and below it'))
def one_trace(case: Case, root: str, datatable: list[list[str]]) -> None:
    *below, last = case.spans()
    assert last.name.split()[0] == root
    assert [[span.name.split()[0]] for span in below] == datatable
    assert {(span.trace_id, span.parent_span_id) for span in below} == {(last.trace_id, last.span_id)}


@then(parsers.parse("the collector should have {count:d} traces, the second linked to the first"))
def linked(case: Case, count: int) -> None:
    first, second = case.traces()
    assert len({first.trace_id, second.trace_id}) == count
    assert [link.span_id for link in second.links] == [first.span_id]


@then("it should see how long Bob was waited for")
def waited(case: Case) -> None:
    (wait,) = (span for span in case.spans() if span.name == "approval mail")
    told = attributes(wait.attributes)
    assert told["reenact.approval.by"] == "Bob"
    assert told["reenact.approval.waited_s"] == pytest.approx(
        (wait.end_time_unix_nano - wait.start_time_unix_nano) / 1e9
    )


@then("the trace should say that the model is overloaded")
def failed(case: Case) -> None:
    assert {attributes(span.attributes)["error.type"] for span in case.spans()} == {"overloaded_error"}


@then(parsers.parse('the collector should not see the word "{word}"'))
def unseen(case: Case, word: str) -> None:
    assert case.spans()
    assert word.encode() not in b"".join(span.SerializeToString() for span in case.spans())


@then(parsers.parse('the collector should see the word "{word}"'))
def seen(case: Case, word: str) -> None:
    assert word.encode() in b"".join(span.SerializeToString() for span in case.spans())


@then("I should have an answer")
def answered(case: Case) -> None:
    assert case.answer is not None
    assert case.answer.text == "Here you are"


@then(parsers.parse("the collector should have {count:d} trace"))
def counted(case: Case, count: int) -> None:
    wait_until(lambda: len(case.receiver.names()) == 4)
    assert len(case.traces()) == count


@then(parsers.parse("the collector should have {count:d} traces, and no span twice"))
def no_span_twice(case: Case, count: int) -> None:
    assert len(case.traces()) == count
    assert len({span.span_id for span in case.spans()}) == len(case.spans())


@then("that one should have the very same spans")
def same(case: Case) -> None:
    assert [one.SerializeToString(deterministic=True) for one in case.other] == [
        one.SerializeToString(deterministic=True) for one in case.spans()
    ]


@then(parsers.parse("the collector should know of {count:d} questions to the model, with {tokens:d} tokens of output"))
def used(case: Case, count: int, tokens: int) -> None:
    assert case.spans()
    metrics = case.receiver.last_metrics()
    (asked,) = metrics["gen_ai.client.operation.duration"].histogram.data_points
    output = [
        point.sum
        for point in metrics["gen_ai.client.token.usage"].histogram.data_points
        if attributes(point.attributes)["gen_ai.token.type"] == "output"
    ]
    assert (asked.count, output) == (count, [tokens])
