"""Why a collector was not given what it was to have."""

from __future__ import annotations

from reenact.domain.errors import ConfigurationError, ServerUnreachableError
from reenact.projections.errors import ProjectionFailedError, ReadModelError


class CollectorUnreachableError(ReadModelError, ServerUnreachableError):
    """The collector does not answer, or cannot take anything now; nothing is lost, and it is tried again."""

    code = "collector_unreachable"


class CollectorRefusedError(ProjectionFailedError, ConfigurationError):
    """The collector takes nothing of the kind, with these credentials, or at this address; `status` is HTTP's.

    Nothing is lost: what it was to be given begins at the position, and is sent once what is wrong is mended.
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
        """Return the error for the next one who asks."""
        return CollectorRefusedError(self.collector, self.status, self.position)


_HINTS = {
    401: "it wants credentials; OTEL_EXPORTER_OTLP_HEADERS has them",
    403: "the credentials in OTEL_EXPORTER_OTLP_HEADERS may not do this",
    404: "nothing takes this there; is it an address for OTLP over HTTP, and for metrics, if these are sent?",
}
