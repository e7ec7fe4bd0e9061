"""What can go wrong in a step, and how it is told in an event."""

from __future__ import annotations

from reenact.domain.errors import InvalidInputError, ReenactError
from reenact.domain.loop.values import Fields


class NoModelError(ReenactError):
    """A model is to be called, and neither the agent nor the configuration has one."""

    code = "no_model"

    def __init__(self) -> None:
        super().__init__("LLM provider is required: give the agent or the configuration a `model_runtime`")


class ToolNotFoundError(ReenactError, LookupError):
    """A tool was called that the agent does not have."""

    code = "tool_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Tool not found: {name}")
        self.name = name


class ExecutorNotFoundError(ReenactError, LookupError):
    """An instruction has a type that nobody executes; add an executor of that name to the agent."""

    code = "executor_not_found"

    def __init__(self, type: str) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"No executor found for instruction type: {type}")
        self.type = type


class InvalidInstructionError(InvalidInputError):
    """What a runner returned is not an instruction."""

    code = "invalid_instruction"


class InvalidToolCallError(InvalidInputError):
    """A call has no id or no name, or its arguments are not an object of JSON."""

    code = "invalid_tool_call"


class InvalidChunkError(InvalidInputError):
    """What a model yielded is not a chunk of an answer."""

    code = "invalid_chunk"


class InvalidOutcomeError(InvalidInputError):
    """What an executor returned is not `(events, new_state)`."""

    code = "invalid_outcome"


class InvalidStateError(InvalidInputError):
    """What was handed in as a state is none."""

    code = "invalid_state"


class WaitingForHumanError(ReenactError):
    """The conversation waits for a person; it goes on with an approval, a rejection or an answer."""

    code = "waiting_for_human"


class StillInterruptedError(ReenactError):
    """The conversation is interrupted; it goes on with `resume`."""

    code = "interrupted"


class NotResumableError(ReenactError):
    """The conversation cannot be resumed: it is not interrupted, or was interrupted for good."""

    code = "not_resumable"


class ToolTimeoutError(ReenactError, TimeoutError):
    """A tool took longer than it may; what it did until then is done."""

    code = "tool_timeout"

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name} did not return within {seconds:g} seconds")
        self.name = name
        self.seconds = seconds


class ErrorInfo(Fields, frozen=True, eq=False, dict=True):
    """What went wrong: the name of the exception's class, and its message."""

    type: str
    message: str

    @property
    def exception(self) -> BaseException | None:
        """The exception itself, as long as the process lives that it was raised in; it is not stored."""
        found = vars(self).get("exception")
        return found if isinstance(found, BaseException) else None

    def __str__(self) -> str:
        return self.message


def info_of(error: BaseException) -> ErrorInfo:
    """Return what is told of an exception, also of one that cannot speak for itself."""
    try:
        message = str(error)
        message.encode()
    except Exception:  # noqa: BLE001 - an exception may be anybody's, and so may its text
        message = ""
    info = ErrorInfo(type(error).__name__, message or type(error).__name__)
    vars(info)["exception"] = error
    return info
