"""The errors of sending to a collector."""

from __future__ import annotations

from reenact.domain.errors import ConfigurationError, ServerUnreachableError
from reenact.projections.errors import ProjectionFailedError, ReadModelError


class CollectorUnreachableError(ReadModelError, ServerUnreachableError):
    """The collector does not answer, or cannot accept anything now; nothing is lost, and it is tried again."""

    code = "collector_unreachable"


class CollectorRefusedError(ProjectionFailedError, ConfigurationError):
    """The collector rejects the kind of data, the credentials, or the address; `status` is the HTTP status.

    Nothing is lost: the rejected data begins at the position, and is sent when the cause is removed.
    """

    code = "collector_refused"

    def __init__(self, collector: str, status: int, position: int = 0) -> None:
        super().__init__(position, "", "", f"{collector} answers {status}")
        hint = _HINTS.get(status, "is it an address for OTLP over HTTP, and is what is sent not too large for it?")
        self.args = (f"the collector {collector} refuses what it is sent, with HTTP status {status}: {hint}",)
        self.reason = str(self.args[0])
        self.collector = collector
        self.status = status

    def again(self) -> CollectorRefusedError:
        """Return a new error of the same content, for the next caller."""
        return CollectorRefusedError(self.collector, self.status, self.position)


_HINTS = {
    401: "it wants credentials; OTEL_EXPORTER_OTLP_HEADERS has them",
    403: "the credentials in OTEL_EXPORTER_OTLP_HEADERS may not do this",
    404: "nothing takes this there; is it an address for OTLP over HTTP, and for metrics, if these are sent?",
}
