"""The errors of projections."""

from __future__ import annotations

from reenact.domain.errors import ConfigurationError, NotFoundError, StorageError


def error_text(error: BaseException) -> str:
    """Return the error as one line of storable text, even if its message cannot be produced."""
    try:
        words = f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - a broken message must not hide the error
        words = f"{type(error).__name__}, whose message cannot be read"
    return " ".join(words.split()).encode("utf-8", "backslashreplace").decode()


class ReadModelError(StorageError):
    """The projections cannot be read or written; the log is unharmed, and they can be rebuilt from it."""

    code = "read_model_error"


class ReadModelBehindError(ReadModelError, TimeoutError):
    """The projections did not reach the position in time."""

    code = "read_model_behind"

    def __init__(self, position: int, reached: int) -> None:
        super().__init__(f"the projections are at position {reached} of the log and did not reach {position} in time")
        self.position = position
        self.reached = reached


class QueryTooLongError(ReadModelError, TimeoutError):
    """A query to the tables exceeded the time allowed to readers; ask for less."""

    code = "query_too_long"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the question was ended after {seconds:g} seconds; ask for less")
        self.seconds = seconds


class ProjectionFailedError(ReadModelError):
    """An event of the log cannot be projected; the projection stays at the event before it."""

    code = "projection_failed"

    def __init__(self, position: int, stream: str, event_type: str, reason: str, projection: str | None = None) -> None:
        by = "" if projection is None else f" by {projection!r}"
        super().__init__(f"the {event_type} at position {position} ({stream}) cannot be projected{by}: {reason}")
        self.position = position
        self.stream = stream
        self.event_type = event_type
        self.reason = reason
        self.projection = projection

    def again(self) -> ProjectionFailedError:
        """Return a new error for the next caller: an exception that is raised twice collects both tracebacks."""
        return ProjectionFailedError(self.position, self.stream, self.event_type, self.reason, self.projection)


class ProjectionReplacedError(ReadModelError):
    """Another process has replaced these tables by those of another version; open the projections again."""

    code = "projection_replaced"

    def __init__(self, projection: str) -> None:
        super().__init__(
            f"another process has put tables of another version of {projection!r} in place; open the projections again"
        )
        self.projection = projection

    def again(self) -> ProjectionReplacedError:
        """Return a new error for the next caller."""
        return ProjectionReplacedError(self.projection)


class ProjectionNotReadyError(ReadModelError):
    """The tables on disk are of another version; those of this version are being built; wait for a position first."""

    code = "projection_not_ready"

    def __init__(self, projection: str, found: int, wanted: int) -> None:
        super().__init__(
            f"the tables of {projection!r} are of version {found}, and of another form than those of version {wanted}, "
            "which are being made; wait_for a position, or ask again later"
        )
        self.projection = projection
        self.found = found
        self.wanted = wanted


class ProjectionsLockedError(ReadModelError):
    """Another process or runtime keeps the projections in this directory."""

    code = "projections_locked"

    def __init__(self, path: str) -> None:
        super().__init__(f"the projections in {path} are kept by another process, or by another part of this one")
        self.path = path


class ProjectionMistakeError(ConfigurationError):
    """A projection's class is not valid; the message names what to change."""

    code = "projection_mistake"


class ProjectionNotFoundError(NotFoundError):
    """No projection has this name."""

    code = "projection_not_found"
    kind = "projection"
