"""The numbers of a server, in Prometheus' text format 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from reenact.domain.errors import ReenactError
from reenact.server.service import Service

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """One family: its name, what it means, and its samples."""

    name: str
    help: str
    type: Literal["counter", "gauge"]
    samples: Iterable[tuple[Labels, float]] = field(default_factory=tuple)


def written(metrics: Iterable[Metric]) -> str:
    """Return the metrics as text."""
    lines: list[str] = []
    for metric in metrics:
        lines += (f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}", f"# TYPE {metric.name} {metric.type}")
        lines += (f"{metric.name}{_labels(labels)} {_value(value)}" for labels, value in metric.samples)
    return "".join(f"{line}\n" for line in lines)


def exposition(service: Service) -> str:
    """Return the numbers of the server and its runtime. It reads, and may wait for the log."""
    return written((*_of_server(service), *_of_runtime(service)))


def _of_server(service: Service) -> Iterable[Metric]:
    counts = service.counts
    yield _one("reenact_start_time_seconds", "When the server began, since 1970-01-01 UTC.", "gauge", service.since)
    yield _one("reenact_connections", "WebSockets that are open.", "gauge", counts.connected)
    yield _one("reenact_connections_total", "WebSockets that were opened.", "counter", counts.connections)
    yield _one("reenact_subscriptions", "Subscriptions that stand.", "gauge", counts.subscriptions)
    yield _one("reenact_requests_in_progress", "Requests that are being carried out.", "gauge", counts.in_progress)
    yield _one("reenact_unread_bytes", "Bytes of answers that clients have not read.", "gauge", service.unread.size)
    yield _one("reenact_events_sent_total", "Events sent over WebSockets.", "counter", counts.events)
    yield _one("reenact_received_bytes_total", "Bytes of messages from WebSockets.", "counter", counts.received)
    yield _one("reenact_sent_bytes_total", "Bytes of messages to WebSockets.", "counter", counts.sent)
    yield Metric(
        "reenact_requests_total",
        "Requests of the command protocol that were answered, by type and the code of the outcome.",
        "counter",
        [({"type": type_, "code": code}, number) for (type_, code), number in sorted(counts.requests.items())],
    )
    yield _each("reenact_http_responses_total", "HTTP responses, by status.", "status", counts.http)
    yield _each(
        "reenact_refused_frames_total",
        "Frames that were not accepted, by the code that says why.",
        "code",
        counts.refused,
    )
    yield _each(
        "reenact_closed_total",
        "WebSockets that the server closed, by the code of the close frame.",
        "code",
        counts.closed,
    )


def _of_runtime(service: Service) -> Iterable[Metric]:
    runtime = service.runtime
    yield _one("reenact_failing", "Whether turns cannot be recorded.", "gauge", runtime.failure is not None)
    try:
        numbers = runtime.position, runtime.lag, len(runtime.agents.list())
    except ReenactError:  # nothing is known of what cannot be read
        return
    position, lag, agents = numbers
    yield _one("reenact_log_position", "The position of the last event of the log.", "gauge", position)
    yield _one("reenact_projection_lag", "Events that the read model has yet to take in.", "gauge", lag)
    yield _one("reenact_live_agents", "Agents that are live.", "gauge", agents)


def _one(name: str, help_: str, type_: Literal["counter", "gauge"], value: float) -> Metric:
    return Metric(name, help_, type_, [({}, value)])


def _each(name: str, help_: str, label: str, numbers: Mapping[Any, int]) -> Metric:
    """Return a counter with a sample for each key."""
    return Metric(name, help_, "counter", [({label: str(key)}, number) for key, number in sorted(numbers.items())])


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
