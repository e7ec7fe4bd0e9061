"""Writes the metrics of a server in Prometheus' text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from reenact.domain.errors import ReenactError
from reenact.server.service import Service

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

K = TypeVar("K", int, str)


def exposition(service: Service) -> str:
    """Return the numbers of the server and its runtime. It reads, and may wait for the log."""
    return "".join((*_of_server(service), *_of_runtime(service)))


def _of_server(service: Service) -> Iterable[str]:
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
    yield _family(
        "reenact_requests_total",
        "Requests of the command protocol that were answered, by type and the code of the outcome.",
        [(f'{{type="{type_}",code="{code}"}}', number) for (type_, code), number in sorted(counts.requests.items())],
    )
    yield _each("reenact_http_responses_total", "HTTP responses, by status.", "status", counts.http)
    refused = "Frames that were not accepted, by the code that says why."
    yield _each("reenact_refused_frames_total", refused, "code", counts.refused)
    closed = "WebSockets that the server closed, by the code of the close frame."
    yield _each("reenact_closed_total", closed, "code", counts.closed)


def _of_runtime(service: Service) -> Iterable[str]:
    runtime = service.runtime
    yield _one("reenact_failing", "Whether turns cannot be recorded.", runtime.failure is not None)
    try:
        position, lag, agents = runtime.position, runtime.lag, len(runtime.agents.list())
    except ReenactError:  # nothing is known of what cannot be read
        return
    yield _one("reenact_log_position", "The position of the last event of the log.", position)
    yield _one("reenact_projection_lag", "Events that the read model has yet to take in.", lag)
    yield _one("reenact_live_agents", "Agents that are live.", agents)


def _one(name: str, help_: str, value: float) -> str:
    return _family(name, help_, [("", value)])


def _each(name: str, help_: str, label: str, numbers: Mapping[K, int]) -> str:
    """Return a counter with a sample for each key."""
    return _family(name, help_, [(f'{{{label}="{key}"}}', number) for key, number in sorted(numbers.items())])


def _family(name: str, help_: str, samples: Iterable[tuple[str, float]]) -> str:
    """Return the samples of a family, behind their labels. A counter's name ends with `_total`, a gauge's does not.

    Names, labels and codes are ours: nothing in them needs an escape.
    """
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = (f"{name}{labels} {value:.16g}" for labels, value in samples)
    return "\n".join((f"# HELP {name} {help_}", f"# TYPE {name} {kind}", *lines, ""))
