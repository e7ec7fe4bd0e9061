"""An OpenTelemetry collector, and the conversion of spans and histograms to the SDK's types."""

from __future__ import annotations

import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Protocol, Self
from urllib.parse import SplitResult, urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from reenact._version import version
from reenact.domain.errors import ConfigurationError
from reenact.domain.legible import display_safe
from reenact.projections.errors import error_text
from reenact.projections.log import Row
from reenact.tracing.metrics import INSTRUMENTS, Sums
from reenact.tracing.sending import CollectorRefusedError, CollectorUnreachableError
from reenact.tracing.spans import Context, Span, Value, brief, clean

MOST_SPANS = 512
"""The most spans that are sent at once."""
MOST_TEXT = 2_000_000
"""Characters of attributes that are sent at once, unless one span has more."""
_TRACES, _METRICS = "/v1/traces", "/v1/metrics"
_PASSING = frozenset({408, 429})
"""Client error statuses after which a request is to be repeated."""
_REFUSING = range(300, 500)
_MOST_CHARACTERS = 200
_log = logging.getLogger("reenact.tracing")


class LastResponse:
    """Records a server's answers: the status of the last one, 0 if there was none."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.status = 0

    def session(self) -> requests.Session:
        """Return a session whose answers are recorded."""
        session = requests.Session()
        session.hooks["response"].append(self._record)
        return session

    def _record(self, response: requests.Response, **_: object) -> None:
        self.status = response.status_code
        if response.status_code == requests.codes.ok and response.content:
            self._warn_of_rejections(response.content)

    def _warn_of_rejections(self, content: bytes) -> None:
        """Log a warning if the server has accepted only a part; the rest must not be sent again."""
        try:  # the answer for metrics has the same form
            part = ExportTraceServiceResponse.FromString(content).partial_success
        except Exception:  # noqa: BLE001 - an answer of another form reports no rejection
            return
        if part.rejected_spans:
            why = display_safe(part.error_message[:_MOST_CHARACTERS])
            _log.warning("the collector %s has left out %d: %s", self._name, part.rejected_spans, why)


class _TakesMetrics(Protocol):
    """The methods of a `MetricExporter` that are used, with types."""

    def export(self, metrics_data: MetricsData, /) -> MetricExportResult: ...

    def shutdown(self) -> None: ...


class Collector:
    """Takes spans and histograms. Used by one thread at a time, except for `close`."""

    def __init__(
        self,
        spans: SpanExporter,
        metrics: MetricExporter | None = None,
        name: str = "",
        last_response: LastResponse | None = None,
    ) -> None:
        """Set exporters, which are shut down with the collector; `last_response`, if given, records their answers."""
        self._spans = spans
        self._metrics: _TakesMetrics | None = metrics
        self.name = name or type(spans).__name__
        self._last_response = last_response or LastResponse(self.name)
        self._resource: Resource | None = None
        self.sent = 0
        """The number of spans that were accepted."""
        self._scope = InstrumentationScope("reenact", version())

    @classmethod
    def at(cls, endpoint: str, *, metrics: bool | MetricExporter) -> Self:
        """Return the collector at an address of OTLP over HTTP, such as `http://localhost:4318`.

        Metrics are sent there, too, if `metrics` is True, or to an exporter for them. Further settings come from
        variables such as OTEL_EXPORTER_OTLP_HEADERS.

        Raises:
            ConfigurationError: the address is not valid.
        """
        address = _address(endpoint)
        name = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
        base = address.path.removesuffix(_TRACES)
        last_response = LastResponse(name)
        spans = OTLPSpanExporter(address._replace(path=base + _TRACES).geturl(), session=last_response.session())
        if isinstance(metrics, bool):
            url = address._replace(path=base + _METRICS).geturl()
            return cls(
                spans,
                OTLPMetricExporter(url, session=last_response.session()) if metrics else None,
                name,
                last_response,
            )
        return cls(spans, metrics, name, last_response)

    def send(self, spans: Sequence[Span], sums: Sums, beginning: Row, position: int) -> None:
        """Send spans, and the sums up to and including them; `beginning` is the log's first event.

        Raises:
            CollectorRefusedError: the collector accepts nothing, or not this, which comes after the position in the
                log.
            CollectorUnreachableError: the collector cannot accept anything now.
        """
        if not spans:
            return
        if self._resource is None:
            self._resource = _resource(beginning)
        for some in _split(spans):
            made = [_readable(one, self._resource, self._scope) for one in some]
            self._export(position, partial(self._spans.export, made), SpanExportResult.SUCCESS)
            self.sent += len(made)
        if self._metrics is not None and sums:
            data = _metrics(sums, beginning, self._resource, self._scope)
            self._export(position, partial(self._metrics.export, data), MetricExportResult.SUCCESS)

    def close(self) -> None:
        """Shut down the exporters; a transmission in progress is given up."""
        for exporter in (self._spans, self._metrics):
            try:
                if exporter is not None:
                    exporter.shutdown()
            except Exception:  # noqa: BLE001 - a user's own exporter may raise anything
                _log.exception("an exporter for the collector %s could not be shut down", self.name)

    def _export(self, position: int, export: Callable[[], object], success: object) -> None:
        """Send data, and raise unless the exporter reports success."""
        self._last_response.status = 0
        try:
            is_taken = export() is success
        except Exception as error:  # a user's exporter may raise anything
            raise CollectorUnreachableError(f"the collector {self.name} takes nothing: {error_text(error)}") from error
        status = self._last_response.status
        if status in _REFUSING and status not in _PASSING:
            raise CollectorRefusedError(self.name, status, position)
        if not is_taken:
            what = f"answers {status}" if status else "does not answer, or not in time"
            raise CollectorUnreachableError(f"the collector {self.name} {what}; nothing is lost: it is sent later")


def _address(endpoint: str) -> SplitResult:
    with suppress(ValueError):
        address = urlsplit(endpoint.strip().rstrip("/"))
        if address.scheme in ("http", "https") and address.hostname and address.port != 0:
            return address
    raise ConfigurationError(
        "a collector is at an address of OTLP over HTTP, such as http://localhost:4318, and not at "
        f"{display_safe(endpoint.rpartition('@')[2][:_MOST_CHARACTERS])!r}"
    )


def _split(spans: Sequence[Span]) -> Iterator[list[Span]]:
    part: list[Span] = []
    size = 0
    for span in spans:
        length = sum(len(value) for value in span.attributes.values() if isinstance(value, str))
        if part and (len(part) == MOST_SPANS or size + length > MOST_TEXT):
            yield part
            part, size = [], 0
        part.append(span)
        size += length
    yield part


def _resource(beginning: Row) -> Resource:
    """Return the sender: the log, whoever reads it; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may add to it."""
    identity = blake2b(f"{beginning.stream}\0{beginning.recorded_at}".encode(), digest_size=16).digest()
    own = Resource(
        {
            "service.name": "reenact",
            "service.version": version(),
            "service.instance.id": str(uuid.UUID(bytes=identity)),
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
        }
    )
    return own.merge(OTELResourceDetector().detect())


def _readable(span: Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    attributes = {name: _clean(value) for name, value in span.attributes.items()}
    status = Status(StatusCode.UNSET)
    if span.error is not None:
        attributes["error.type"] = brief(span.error)
        status = Status(StatusCode.ERROR, None if span.message is None else brief(span.message))
    return ReadableSpan(
        name=clean(span.name),
        context=_context(span.context),
        parent=None if span.parent is None else _context(span.parent),
        resource=resource,
        attributes=attributes,
        links=[Link(_context(link.context), dict(link.attributes)) for link in span.links],
        kind=SpanKind.CLIENT if span.kind == "chat" else SpanKind.INTERNAL,
        status=status,
        start_time=span.start * 1000,
        end_time=span.end * 1000,
        instrumentation_scope=scope,
    )


def _context(context: Context) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _clean(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(clean, value))
    return clean(value) if isinstance(value, str) else value


def _metrics(sums: Sums, beginning: Row, resource: Resource, scope: InstrumentationScope) -> MetricsData:
    """Return the sums since the beginning of the log, as of now."""
    now = time.time_ns()
    points: defaultdict[str, list[HistogramDataPoint]] = defaultdict(list)
    for (name, labels), found in sums.items():
        point = HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=beginning.recorded_at * 1000,
            time_unix_nano=now,
            count=found.count,
            sum=found.sum,
            bucket_counts=found.buckets,
            explicit_bounds=INSTRUMENTS[name].bounds,
            min=found.least,
            max=found.most,
        )
        points[name].append(point)
    metrics = [
        Metric(
            name,
            INSTRUMENTS[name].description,
            INSTRUMENTS[name].unit,
            Histogram(of_name, AggregationTemporality.CUMULATIVE),
        )
        for name, of_name in points.items()
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])
