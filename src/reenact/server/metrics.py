"""Writes the metrics of a server in Prometheus' text format 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from reenact.domain.errors import ReenactError
from reenact.server.service import Service

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})

Labels = Mapping[str, str]
K = TypeVar("K", int, str)


@dataclass(frozen=True)
class Metric:
    """One family: its name, what it means, and its samples. A counter's name ends with `_total`, a gauge's does not."""

    name: str
    help: str
    samples: Iterable[tuple[Labels, float]] = ()


def written(metrics: Iterable[Metric]) -> str:
    """Return the metrics as text."""
    lines: list[str] = []
    for metric in metrics:
        type_ = "counter" if metric.name.endswith("_total") else "gauge"
        lines += (f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}", f"# TYPE {metric.name} {type_}")
        lines += (f"{metric.name}{_labels(labels)} {_value(value)}" for labels, value in metric.samples)
    return "".join(f"{line}\n" for line in lines)


def exposition(service: Service) -> str:
    """Return the numbers of the server and its runtime. It reads, and may wait for the log."""
    return written((*_of_server(service), *_of_runtime(service)))


def _of_server(service: Service) -> Iterable[Metric]:
    counts = service.counts
    yield _one("reenact_start_time_seconds", "When the server began, since 1970-01-01 UTC.", service.since)
    yield _one("reenact_connections", "WebSockets that are open.", counts.connected)
    yield _one("reenact_connections_total", "WebSockets that were opened.", counts.connections)
    yield _one("reenact_subscriptions", "Subscriptions that stand.", counts.subscriptions)
    yield _one("reenact_requests_in_progress", "Requests that are being carried out.", counts.in_progress)
    yield _one("reenact_unread_bytes", "Bytes of answers that clients have not read.", service.unread.size)
    yield _one("reenact_events_sent_total", "Events sent over WebSockets.", counts.events)
    yield _one("reenact_received_bytes_total", "Bytes of messages from WebSockets.", counts.received)
    yield _one("reenact_sent_bytes_total", "Bytes of messages to WebSockets.", counts.sent)
    yield Metric(
        "reenact_requests_total",
        "Requests of the command protocol that were answered, by type and the code of the outcome.",
        [({"type": type_, "code": code}, number) for (type_, code), number in sorted(counts.requests.items())],
    )
    yield _each("reenact_http_responses_total", "HTTP responses, by status.", "status", counts.http)
    refused = "Frames that were not accepted, by the code that says why."
    yield _each("reenact_refused_frames_total", refused, "code", counts.refused)
    closed = "WebSockets that the server closed, by the code of the close frame."
    yield _each("reenact_closed_total", closed, "code", counts.closed)


def _of_runtime(service: Service) -> Iterable[Metric]:
    runtime = service.runtime
    yield _one("reenact_failing", "Whether turns cannot be recorded.", runtime.failure is not None)
    try:
        position, lag, agents = runtime.position, runtime.lag, len(runtime.agents.list())
    except ReenactError:  # nothing is known of what cannot be read
        return
    yield _one("reenact_log_position", "The position of the last event of the log.", position)
    yield _one("reenact_projection_lag", "Events that the read model has yet to take in.", lag)
    yield _one("reenact_live_agents", "Agents that are live.", agents)


def _one(name: str, help_: str, value: float) -> Metric:
    return Metric(name, help_, [({}, value)])


def _each(name: str, help_: str, label: str, numbers: Mapping[K, int]) -> Metric:
    """Return a counter with a sample for each key."""
    return Metric(name, help_, [({label: str(key)}, number) for key, number in sorted(numbers.items())])


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
