"""The errors of a step, and their representation in events."""

from __future__ import annotations

from reenact.domain.errors import InvalidInputError, ReenactError
from reenact.domain.loop.values import Fields


class NoModelError(ReenactError):
    """A model is to be called, but neither the agent nor the configuration has one."""

    code = "no_model"

    def __init__(self) -> None:
        super().__init__("LLM provider is required: give the agent or the configuration a `model_runtime`")


class ToolNotFoundError(ReenactError, LookupError):
    """The agent has no tool with the name that was called."""

    code = "tool_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Tool not found: {name}")
        self.name = name


class ExecutorNotFoundError(ReenactError, LookupError):
    """No executor handles instructions of this type; add one of that name to the agent."""

    code = "executor_not_found"

    def __init__(self, type: str) -> None:  # noqa: A002 - the word users know it by
        super().__init__(f"No executor found for instruction type: {type}")
        self.type = type


class InvalidInstructionError(InvalidInputError):
    """A runner returned a value that is not an instruction."""

    code = "invalid_instruction"


class InvalidToolCallError(InvalidInputError):
    """A call has no id or no name, or its arguments are not an object of JSON."""

    code = "invalid_tool_call"


class InvalidChunkError(InvalidInputError):
    """A model yielded a value that is not a chunk of an answer."""

    code = "invalid_chunk"


class InvalidOutcomeError(InvalidInputError):
    """An executor returned a value that is not `(events, new_state)`."""

    code = "invalid_outcome"


class InvalidStateError(InvalidInputError):
    """A value given as a state is not one."""

    code = "invalid_state"


class WaitingForHumanError(ReenactError):
    """The conversation waits for a person; it continues after an approval, a rejection or an answer."""

    code = "waiting_for_human"


class StillInterruptedError(ReenactError):
    """The conversation is interrupted; it continues with `resume`."""

    code = "interrupted"


class NotResumableError(ReenactError):
    """The conversation cannot be resumed: it is not interrupted, or was interrupted permanently."""

    code = "not_resumable"


class ToolTimeoutError(ReenactError, TimeoutError):
    """A tool exceeded its timeout; the effects that it had until then remain."""

    code = "tool_timeout"

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name} did not return within {seconds:g} seconds")
        self.name = name
        self.seconds = seconds


class ErrorInfo(Fields, dict=True):
    """An error in an event: the name of the exception's class, and its message."""

    type: str
    message: str

    @property
    def exception(self) -> BaseException | None:
        """The exception itself, available only in the process in which it was raised; it is not stored."""
        found = vars(self).get("exception")
        return found if isinstance(found, BaseException) else None

    def __str__(self) -> str:
        return self.message


def info_of(error: BaseException) -> ErrorInfo:
    """Return the recorded form of an exception, also of one whose `__str__` fails."""
    try:
        message = str(error)
        message.encode()
    except Exception:  # noqa: BLE001 - a user's exception may raise anything in __str__
        message = ""
    info = ErrorInfo(type(error).__name__, message or type(error).__name__)
    vars(info)["exception"] = error
    return info
