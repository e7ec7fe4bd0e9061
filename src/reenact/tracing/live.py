"""`Tracing`: sends the spans of a runtime while it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from reenact._async_runtime import AsyncRuntime
from reenact._runtime import Runtime
from reenact.domain.errors import ConfigurationError, needing_extra
from reenact.domain.plain import LONGEST, check_position, seconds_of
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import ProjectionStatus
from reenact.projections.views.hosted import open_place
from reenact.tracing.sending import NAME, Sending

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

    from reenact.tracing.collector import Collector

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON = frozenset({"span_only", "span_and_event", "true"})


class Tracing:
    """Sends the turns of a runtime to a collector, as OpenTelemetry spans, while it runs; closed with the runtime.

    It follows the log on a thread of its own, and continues where it stopped the last time, at first with the log's
    first event. Its progress is stored beside the log. A failure of the collector does not affect the runtime.
    """

    def __init__(
        self,
        runtime: Runtime | AsyncRuntime,
        *,
        endpoint: str | None = None,
        exporter: SpanExporter | None = None,
        metrics: bool | MetricExporter = False,
        content: bool = False,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        """Begin to send.

        Args:
            runtime: the runtime whose turns are sent.
            endpoint: where a collector accepts OTLP over HTTP, such as `http://localhost:4318`; headers and the like
                come from the variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_HEADERS.
            exporter: an SDK exporter for another destination, in place of `endpoint`.
            metrics: whether metrics are sent to the collector, too; or an SDK exporter for them.
            content: whether messages, arguments and results are sent, too. The environment variable
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT enables this as well, with `SPAN_ONLY`, `SPAN_AND_EVENT`
                or
            `true`.
            state: a directory, or a `postgresql://` URL, for the progress, in place of the one beside the log: each of
                several collectors needs its own.

        Raises:
            ConfigurationError: there is not exactly one destination, or its address is not valid.
            MissingExtraError: the extra `otel` is not installed.
            ProjectionsLockedError: another sender uses this state.
            ReadModelError: the progress cannot be read or written.
        """
        if not isinstance(runtime, Runtime | AsyncRuntime):  # pyright: ignore[reportUnnecessaryIsInstance] - who calls may not be typed
            raise ConfigurationError("Tracing follows a log: give it a runtime of this process, where the log is")
        opened = runtime.open_log
        self._journal = opened.journal
        with ExitStack() as undo:
            collector = _collector(endpoint, exporter, metrics=metrics)
            undo.callback(collector.close)
            place = open_place(opened.location.tracing if state is None else state)
            undo.callback(place.close)
            self._sending = Sending(
                place.of(NAME),
                opened.journal,
                collector.send,
                content=content or is_content_wanted(os.environ),
                is_leader=opened.is_leader,
            )
            undo.callback(self._end)
            opened.journal.watch(self._sending.notify)
            self._sending.start()
            self._parts = undo.pop_all()
        opened.on_close(self.close)

    def __enter__(self) -> Self:
        """Return the tracing itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the tracing."""
        self.close()

    def wait_for(self, position: int | None = None, timeout: float | None = 30.0) -> None:
        """Return once the collector has all spans that end up to a position of the log, by default its present end.

        `timeout` is in seconds; None is no limit.

        Raises:
            InvalidInputError: that is no position, or no timeout.
            CollectorRefusedError: the collector accepts nothing, or not this.
            CollectorUnreachableError: the collector cannot accept anything now; it is tried again.
            ReadModelBehindError: it takes longer than `timeout` seconds.
            ReadModelError: the log cannot be read, or the position cannot be written.
            RuntimeClosedError: the tracing is closed.
        """
        seconds = seconds_of(timeout)
        goal = self._journal.head() if position is None else position
        check_position("position", goal)
        self._sending.wait_for(goal, LONGEST if seconds is None else seconds)

    def status(self) -> ProjectionStatus:
        """Return its status: how far it is behind the log, and the error that stops it, if any."""
        return self._sending.status(self._journal.head())

    @property
    def failure(self) -> ReadModelError | None:
        """Why nothing can be sent now, or ever again; None if there is no failure."""
        return self._sending.failure

    def retry(self) -> None:
        """Go on after the collector has refused something, when the cause has been removed."""
        self._sending.retry()

    def close(self) -> None:
        """Send the last spans, for at most a second, and end; the next run sends the rest. Idempotent."""
        self._parts.close()

    def _end(self) -> None:
        self._journal.unwatch(self._sending.notify)
        self._sending.close()


def is_content_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether the environment asks for messages, arguments and results on spans."""
    return environ.get(_CAPTURE, "").strip().casefold() in _ON


def _collector(endpoint: str | None, exporter: SpanExporter | None, *, metrics: bool | MetricExporter) -> Collector:
    with needing_extra("otel", "Tracing"):
        from reenact.tracing.collector import Collector  # noqa: PLC0415 - the extra
    if endpoint is not None and exporter is None:
        return Collector.at(endpoint, metrics=metrics)
    if exporter is None or endpoint is not None:
        raise ConfigurationError("give Tracing either the endpoint of a collector or an exporter")
    if metrics is True:
        raise ConfigurationError("give Tracing an exporter for metrics, too: it has one for spans only")
    return Collector(exporter, metrics or None)
