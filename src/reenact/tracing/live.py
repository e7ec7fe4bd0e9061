"""`Tracing`: sends the spans of a runtime while it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from reenact._async_runtime import AsyncRuntime
from reenact._runtime import Runtime
from reenact.domain.errors import ConfigurationError, needing_extra
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
    """Sends the turns of a runtime to a collector, as spans of OpenTelemetry, while it runs; closed with the runtime.

    It follows the log on a thread of its own, and begins where it was at the end of the last time, at first with the
    log's first event. What it remembers is kept beside the log. Whatever becomes of the collector, the runtime goes on.
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
            runtime: whose turns.
            endpoint: where a collector takes OTLP over HTTP, such as `http://localhost:4318`; headers and the like come
                from the variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_HEADERS.
            exporter: the SDK's exporter for something else, in place of `endpoint`.
            metrics: whether the collector is sent metrics, too; or the SDK's exporter for them.
            content: whether messages, arguments and results are sent, too. OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_
                CONTENT, if it is `SPAN_ONLY`, `SPAN_AND_EVENT` or `true`, says so as well.
            state: a directory, or a `postgresql://` URL, for what it remembers, in place of the one beside the log:
                whoever sends to two collectors needs two.

        Raises:
            ConfigurationError: there is no one collector, or it is at no such address.
            MissingExtraError: the extra `otel` is not installed.
            ProjectionsLockedError: somebody else sends from there.
            ReadModelError: what it remembers cannot be read or written.
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
                collector,
                content=content or is_content_wanted(os.environ),
                is_keeper=opened.is_keeper,
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
        """Close it."""
        self.close()

    def wait_for(self, position: int | None = None, timeout: float = 30.0) -> None:
        """Return once the collector has taken what has ended up to a position of the log, where that ends now if None.

        Raises:
            CollectorRefusedError: it takes nothing, or not this.
            CollectorUnreachableError: it cannot take anything now; it is tried again.
            ReadModelBehindError: it takes longer than `timeout` seconds.
            ReadModelError: the log cannot be read, or the position not be written.
            RuntimeClosedError: the tracing is closed.
        """
        self._sending.wait_for(self._journal.head() if position is None else position, timeout)

    def status(self) -> ProjectionStatus:
        """Return how it is: how far behind the log, and what keeps it from going on, if anything does."""
        return self._sending.status(self._journal.head())

    @property
    def failure(self) -> ReadModelError | None:
        """Why nothing can be sent now, or nothing more; None when all is well."""
        return self._sending.failure

    def retry(self) -> None:
        """Go on after the collector has refused something: what was wrong is mended."""
        self._sending.retry()

    def close(self) -> None:
        """Send the last spans, as long as a second suffices, and end; the next time sends the rest. Idempotent."""
        self._parts.close()

    def _end(self) -> None:
        self._journal.unwatch(self._sending.notify)
        self._sending.close()


def is_content_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether the environment wants messages, arguments and results on spans."""
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
