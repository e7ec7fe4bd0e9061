"""The command `trace`: exports the turns in the log to a collector, once or while the log is written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing

import msgspec
import typer

from reenact.cli.commands.log import pause
from reenact.cli.commands.sessions import log_named, reading
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TraceOptions
from reenact.cli.settings.environment import read_variable
from reenact.domain.errors import SessionNotFoundError, needing_extra
from reenact.domain.plain import can_be_id
from reenact.projections.errors import ReadModelError
from reenact.projections.log import stream_of
from reenact.projections.runner import PERMANENT_ERRORS
from reenact.projections.views.hosted import LOOK, open_place
from reenact.tracing.live import is_content_wanted
from reenact.tracing.sending import NAME, Sending


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent, up to which position of the log."""

    collector: str
    spans: int
    position: int


def trace(options: TraceOptions, console: Console) -> None:
    """Send the turns that have ended, and with `follow` those that end later.

    Raises:
        CollectorRefusedError: the collector refuses the spans.
        CollectorUnreachableError: the collector cannot be reached, and `follow` is not set.
        ConfigurationError: the collector's address is invalid.
        MissingExtraError: the extra `otel` is not installed.
        ProjectionsLockedError: another process sends from the same state.
        SessionNotFoundError: there is no such session in the log.
    """
    with needing_extra("otel", "`reenact trace`"):
        from reenact.tracing.collector import Collector  # noqa: PLC0415 - the extra
    endpoint = options.otlp or read_variable(console.environ, "OTEL_EXPORTER_OTLP_ENDPOINT")
    if endpoint is None:
        raise typer.TyperException("--otlp says where the collector is, such as http://localhost:4318")
    if options.metrics and options.session is not None:
        raise typer.TyperException("--metrics are sums over all of the log; give no --session with them")
    with ExitStack() as parts, reading(options.database, console) as journal:
        stream = None if options.session is None else stream_of(options.session)
        if stream is not None and not (can_be_id(stream) and journal.find(stream=stream, limit=1)):
            raise SessionNotFoundError(options.session or "")
        collector = Collector.at(endpoint, metrics=options.metrics)
        parts.callback(collector.close)
        state = options.state
        if state is None and options.follow and stream is None:
            state = log_named(options.database, console).tracing
        place = open_place(state or parts.enter_context(tempfile.TemporaryDirectory(prefix="reenact-trace-")))
        parts.enter_context(closing(place))
        content = options.content or is_content_wanted(console.environ)
        sending = Sending(place.of(NAME), journal, collector.send, content=content, stream=stream, look=LOOK)
        parts.enter_context(closing(sending))
        if options.follow:
            console.say(f"sending to {collector.name} until Ctrl+C")
            _follow(sending, console.say)
        sending.catch_up()
        head = journal.head()
        traced = Traced(collector=collector.name, spans=collector.sent, position=sending.status(head).position)
        spans = "1 span" if traced.spans == 1 else f"{traced.spans:,} spans"
        console.show(traced, options.output_format, f"{spans} sent to {traced.collector}")


def _follow(sending: Sending, say: Callable[[str], object]) -> None:
    """Send until the process is interrupted or the collector refuses something; report temporary failures once."""
    said: ReadModelError | None = None
    sending.start()
    while True:
        failure = sending.failure
        if isinstance(failure, PERMANENT_ERRORS):
            raise failure.again() from failure
        if failure is not None and said is None:
            say(f"{failure}; trying again")
        said = failure
        pause(LOOK)
