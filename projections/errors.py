"""What a question to the projections may be answered with instead of rows."""

from __future__ import annotations

from reenact.domain.errors import StorageError


class ReadModelError(StorageError):
    """The projections cannot be read or written; the log is unharmed, and they can be made again from it."""

    code = "read_model_error"


class ReadModelBehindError(ReadModelError, TimeoutError):
    """The projections did not reach the position in time."""

    code = "read_model_behind"

    def __init__(self, position: int, reached: int) -> None:
        super().__init__(f"the projections are at position {reached} of the log and did not reach {position} in time")
        self.position = position
        self.reached = reached


class ProjectionFailedError(ReadModelError):
    """An event of the log cannot be projected; the projections stay where they were before it."""

    code = "projection_failed"

    def __init__(self, position: int, stream: str, event_type: str, reason: str) -> None:
        super().__init__(f"the {event_type} at position {position} ({stream}) cannot be projected: {reason}")
        self.position = position
        self.stream = stream
        self.event_type = event_type
        self.reason = reason

    def again(self) -> ProjectionFailedError:
        """Return the error for the next one who asks: an exception that is raised twice gathers both tracebacks."""
        return ProjectionFailedError(self.position, self.stream, self.event_type, self.reason)
