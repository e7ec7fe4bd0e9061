"""`Tracing` sends the turns of a runtime while it runs, whatever becomes of the collector, and goes on where it was."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reenact import (
    AsyncRuntime,
    ConfigurationError,
    Image,
    InvalidInputError,
    ProjectionsLockedError,
    ReadModelBehindError,
    Runtime,
    RuntimeClosedError,
)
from reenact.domain.plain import made
from reenact.testing import MockEnvironmentFactory, wait_until
from reenact.tracing import CollectorRefusedError, CollectorUnreachableError, Tracing, sending
from tests.logs import log_at
from tests.started.forked import Forked
from tests.tracing.conftest import TOOLS
from tests.tracing.receiver import Receiver, receiving

IMAGE = Image(id="clerk", model="claude-clerk", tools=TOOLS)
A_TURN = ["chat claude-clerk", "invoke_agent clerk"]


def opened(log: str, mock: MockEnvironmentFactory) -> Runtime:
    return Runtime.open(log, environment=mock, default_image=IMAGE, synchronous="OFF")


def in_bytes(receiver: Receiver) -> list[bytes]:
    return sorted(span.SerializeToString(deterministic=True) for span in receiver.spans())


def test_a_turn_is_sent_when_it_has_ended(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        tracing.wait_for()

        assert receiver.names() == A_TURN
        assert tracing.status().lag == 0


@pytest.mark.sqlite_only("on a server other nodes go on, or the next one does")
def test_it_is_closed_with_the_runtime_which_waits_for_the_last_turn(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver
) -> None:
    with opened(log, mock) as runtime:
        tracing = Tracing(runtime, endpoint=receiver.url)
        runtime.ask("Hello")

    assert receiver.names() == A_TURN
    with pytest.raises(RuntimeClosedError):
        tracing.wait_for(1 << 40)


@pytest.mark.parametrize("timeout", [None, math.inf, 1e12])
def test_one_can_wait_as_long_as_it_takes(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, timeout: float | None
) -> None:
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        tracing.wait_for(timeout=timeout)

        assert receiver.names() == A_TURN


@pytest.mark.parametrize("timeout", [0, -1.0, -math.inf])
def test_a_time_that_is_over_is_not_waited_for(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, timeout: float
) -> None:
    with (
        opened(log, mock) as runtime,
        Tracing(runtime, endpoint=receiver.url) as tracing,
        pytest.raises(ReadModelBehindError),
    ):
        tracing.wait_for(1 << 40, timeout)


@pytest.mark.parametrize(("position", "timeout"), [("1", 1), (1.5, 1), (None, "1"), (None, math.nan), (None, True)])
def test_waiting_for_what_is_no_position_or_no_time_is_refused(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, position: int | None, timeout: float
) -> None:
    with (
        opened(log, mock) as runtime,
        Tracing(runtime, endpoint=receiver.url) as tracing,
        pytest.raises(InvalidInputError, match=r"`position` must be a position|a timeout must be a number"),
    ):
        tracing.wait_for(position, timeout)


def test_it_goes_on_where_it_was(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    for _ in range(2):
        with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url):
            runtime.ask("Hello")

    assert receiver.names() == A_TURN * 2
    assert len({span.span_id for span in receiver.spans()}) == 4


def test_sent_twice_the_spans_are_the_same(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, tmp_path: Path
) -> None:
    other = log_at(tmp_path / "other.db") if log.startswith("postgresql") else str(tmp_path / "other")
    with opened(log, mock) as runtime, receiving() as second:
        Tracing(runtime, endpoint=receiver.url, content=True).wait_for()
        runtime.ask("Find plums")
        Tracing(runtime, endpoint=second.url, content=True, state=other).wait_for()
        wait_until(lambda: len(receiver.spans()) == 4)

        assert in_bytes(second) == in_bytes(receiver)


@pytest.mark.sqlite_only("on a server they share the work")
def test_of_two_that_remember_at_one_place_the_second_is_refused(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver
) -> None:
    with opened(log, mock) as runtime:
        Tracing(runtime, endpoint=receiver.url)

        with pytest.raises(ProjectionsLockedError):
            Tracing(runtime, endpoint=receiver.url)


def test_a_collector_that_is_down_is_tried_again_and_the_runtime_goes_on(
    log: str, mock: MockEnvironmentFactory
) -> None:
    with receiving() as gone:
        port = gone.port
    with opened(log, mock) as runtime:
        tracing = Tracing(runtime, endpoint=f"http://127.0.0.1:{port}")
        for _ in range(3):
            assert runtime.ask("Hello").text == "Here you are"
        failure = wait_until(lambda: tracing.failure)
        assert isinstance(failure, CollectorUnreachableError)
        assert str(port) in str(failure)
        assert tracing.status().health == "troubled"

        with receiving(port) as back:
            wait_until(lambda: back.names() == A_TURN * 3)
            wait_until(lambda: tracing.status().health == "running")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_collector_that_cannot_take_anything_now_is_tried_again(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        failure = wait_until(lambda: tracing.failure)
        assert isinstance(failure, CollectorUnreachableError)
        assert f"answers {status}" in str(failure)

        receiver.status = 200

        wait_until(lambda: receiver.names() == A_TURN)


@pytest.mark.parametrize(("status", "hint"), [(401, "HEADERS"), (403, "HEADERS"), (404, "OTLP"), (400, "too large")])
def test_what_a_collector_refuses_is_not_tried_again_before_somebody_says_so(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, status: int, hint: str
) -> None:
    receiver.status = status
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        wait_until(lambda: tracing.status().health == "stopped")
        for _ in range(2):
            with pytest.raises(CollectorRefusedError, match=hint) as caught:
                tracing.wait_for()
            assert (caught.value.status, receiver.requests) == (status, 1)
        assert runtime.ask("Hello").text == "Here you are"

        receiver.status = 200
        tracing.retry()

        wait_until(lambda: receiver.names() == A_TURN * 2)


def test_a_redirect_is_not_followed(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    receiver.status = 302
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")

        with pytest.raises(CollectorRefusedError, match="302"):
            tracing.wait_for()


def test_a_collector_that_does_not_answer_holds_nobody_up(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    receiver.is_open.clear()
    with opened(log, mock) as runtime:
        Tracing(runtime, endpoint=receiver.url)
        for _ in range(3):
            assert runtime.ask("Hello").text == "Here you are"
        began = time.monotonic()

    assert time.monotonic() - began < 30  # and not a minute
    receiver.is_open.set()
    with opened(log, mock) as runtime, receiving() as other:
        Tracing(runtime, endpoint=other.url).wait_for()
        ids = {span.span_id for one in (receiver, other) for span in one.spans()}
        assert len(ids) == 2 * 3


def test_what_a_collector_leaves_out_is_warned_of(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=2, error_message="too \x1b[2Jold")
    receiver.body = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        tracing.wait_for()

    (warning,) = {one.getMessage() for one in caplog.records if one.name == "reenact.tracing"}
    assert warning.endswith(r"has left out 2: too \u001b[2Jold")
    assert caplog.records[0].levelno == logging.WARNING


def test_an_answer_that_is_none_is_no_failure(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    receiver.body = b"<html>taken"
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        tracing.wait_for()

        assert receiver.names() == A_TURN


def test_headers_and_names_are_those_of_the_environment(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic abc")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "clerks")
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=f"{receiver.url}/v1/traces") as tracing:
        runtime.ask("Hello")
        tracing.wait_for()

    named = {one.value.string_value for one in receiver.traces[0].resource_spans[0].resource.attributes}
    assert "clerks" in named
    assert {name.lower(): value for name, value in receiver.headers[0].items()}["authorization"] == "Basic abc"


@pytest.mark.parametrize("said", ["SPAN_ONLY", "span_and_event", "true"])
def test_content_is_wanted_by_the_environment_too(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", said)
    with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url) as tracing:
        runtime.ask("Hello")
        tracing.wait_for()

        assert b"Here you are" in receiver.traces[0].SerializeToString()


class Unwilling(SpanExporter):
    """Takes nothing at first, in one way or the other."""

    def __init__(self, *ways: Exception | SpanExportResult) -> None:
        self.ways = list(ways)
        self.names: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.ways:
            way = self.ways.pop(0)
            if isinstance(way, Exception):
                raise way
            return way
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS


def test_an_exporter_of_one_s_own_may_fail_in_any_way_and_is_tried_again(
    log: str, mock: MockEnvironmentFactory
) -> None:
    exporter = Unwilling(ValueError("no disk"), SpanExportResult.FAILURE, KeyError("x"))
    with opened(log, mock) as runtime:
        Tracing(runtime, exporter=exporter)
        runtime.ask("Hello")

        wait_until(lambda: exporter.names == A_TURN)
    assert exporter.ways == []


def test_an_exporter_that_cannot_be_shut_down_keeps_no_runtime_from_closing(
    log: str, mock: MockEnvironmentFactory, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(Unwilling):
        def shutdown(self) -> None:
            raise ValueError("not now")

    with opened(log, mock) as runtime:
        Tracing(runtime, exporter=Stubborn()).wait_for()

    assert "an exporter for the collector Stubborn could not be shut down" in caplog.text
    with opened(log, mock) as runtime:  # nothing is left that has the state
        Tracing(runtime, exporter=Unwilling())


class Measured(MetricExporter):
    """Has what it was given last."""

    def __init__(self) -> None:
        super().__init__()
        self.last: MetricsData | None = None

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0, **kwargs: object) -> MetricExportResult:
        self.last = metrics_data
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 0, **kwargs: object) -> None:
        pass


def test_metrics_may_go_elsewhere_than_spans(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    for where in ("endpoint", "exporter"):
        measured = Measured()
        with opened(log, mock) as runtime:
            if where == "endpoint":
                tracing = Tracing(runtime, endpoint=receiver.url, metrics=measured)
            else:
                tracing = Tracing(runtime, exporter=InMemorySpanExporter(), metrics=measured)
            runtime.ask("Hello")
            tracing.wait_for()
        assert measured.last is not None
        assert "invoke_agent.duration" in measured.last.to_json()
    assert receiver.metrics == []


def test_metrics_go_on_where_they_were(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    for _ in range(2):
        with opened(log, mock) as runtime, Tracing(runtime, endpoint=receiver.url, metrics=True):
            runtime.ask("Hello")

    first, last = (
        next(
            point
            for metric in request.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.histogram.data_points
            if metric.name == "gen_ai.invoke_agent.duration"
        )
        for request in (receiver.metrics[0], receiver.metrics[-1])
    )
    assert last.count == 2
    assert last.start_time_unix_nano == first.start_time_unix_nano


@pytest.mark.sqlite_only("on a server other nodes go on, or the next one does")
def test_a_runtime_for_asyncio_is_traced_too(log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> None:
    async def talk() -> None:
        async with AsyncRuntime.open(log, environment=mock, default_image=IMAGE) as runtime:
            await asyncio.to_thread(Tracing, runtime, endpoint=receiver.url)
            await runtime.ask("Hello")

    asyncio.run(talk())

    assert receiver.names() == A_TURN


def test_there_is_one_collector_at_an_address(mock: MockEnvironmentFactory) -> None:
    exporter = InMemorySpanExporter()
    with Runtime.in_memory(environment=mock) as runtime:
        for given, what in (
            ({}, "either the endpoint"),
            ({"endpoint": "http://a", "exporter": exporter}, "either the endpoint"),
            ({"exporter": exporter, "metrics": True}, "metrics, too"),
            ({"endpoint": "localhost:4318"}, "http://localhost:4318"),
            ({"endpoint": "http://user:secret@:x/"}, "http://localhost:4318"),
        ):
            with pytest.raises(ConfigurationError, match=what) as caught:
                made(Tracing, runtime, **given)
            assert "secret" not in str(caught.value)
        with pytest.raises(ConfigurationError, match="runtime of this process"):
            made(Tracing, object(), exporter=exporter)


def test_a_process_that_is_killed_while_it_sends_goes_on_and_loses_nothing(
    log: str, mock: MockEnvironmentFactory, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 12
    with opened(log, mock) as runtime:
        for _ in range(turns):
            runtime.ask("Find plums", session=None)
    state = log_at(tmp_path / "state.db") if log.startswith("postgresql") else str(tmp_path / "state")
    with Forked(["tests.tracing.child", log, receiver.url, state]) as child:
        wait_until(lambda: len(receiver.traces) >= 3)
        receiver.is_open.clear()  # it is in the midst of sending, and does not know what has become of it
        had = len(receiver.traces)
        child.kill()
    receiver.is_open.set()
    assert 0 < len({span.span_id for span in receiver.spans()}) < 4 * turns

    monkeypatch.setattr(sending, "BATCH", 7)
    with opened(log, mock) as runtime:
        Tracing(runtime, endpoint=receiver.url, state=state).wait_for()

    times = Counter(span.span_id for span in receiver.spans())
    assert len(times) == 4 * turns
    assert sum(times.values()) <= 4 * turns + 2 * 7  # what was under way may come twice
    assert had < len(receiver.traces)
