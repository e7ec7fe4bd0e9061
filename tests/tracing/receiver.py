"""A collector on loopback: takes OTLP over HTTP, and has what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Receiver:
    """What a collector was sent. `status` and `body` are what it answers with; what it does not take, it has not."""

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        self.body = b""
        self.requests = 0
        self.headers: list[dict[str, str]] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.is_open = threading.Event()
        """While it is not set, nothing is answered."""
        self.is_open.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.is_open.wait(60)
                status = receiver.take(self.path, dict(self.headers.items()), sent)
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(receiver.body)))
                if status in range(300, 400):
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its base class
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def take(self, path: str, headers: dict[str, str], sent: bytes) -> int:
        self.requests += 1
        self.headers.append(headers)
        if self.status != 200:
            return self.status
        if path.endswith("/v1/traces"):
            self.traces.append(ExportTraceServiceRequest.FromString(sent))
        elif path.endswith("/v1/metrics"):
            self.metrics.append(ExportMetricsServiceRequest.FromString(sent))
        else:
            return 404
        return 200

    def close(self) -> None:
        self.is_open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[Span]:
        """The spans, in the order in which they came."""
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def names(self) -> list[str]:
        return [span.name for span in self.spans()]

    def last_metrics(self) -> dict[str, Metric]:
        """The metrics of the last request, by their names."""
        (resource,) = self.metrics[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}


@contextmanager
def receiving(port: int = 0) -> Generator[Receiver]:
    """Run a collector, by default on any port that is free."""
    receiver = Receiver(port)
    try:
        yield receiver
    finally:
        receiver.close()


def attributes(values: Iterable[KeyValue]) -> dict[str, object]:
    """Return attributes as Python has them."""
    return {one.key: _value(one.value) for one in values}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(one) for one in value.array_value.values)
    return getattr(value, kind or "string_value")
