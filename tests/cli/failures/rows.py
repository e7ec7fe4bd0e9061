"""A row of the table: a failure, how it is made to happen, and what a caller sees of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from tests.cli.failures.stage import Running, Stage

ANYTHING: Final = "…"
"""Stands in what is said for words that are others each time."""
TRACEBACK: Final = "…errors.log says where; so does --debug"
ASKED: Final = ("-p", "Hello")

Level: TypeAlias = Literal["info", "warning", "error"]
Stream: TypeAlias = Literal["kept", "closed", "full", "unread"]
"""What becomes of what is printed: it is kept; the stream was closed; there is no space for it; nobody reads it."""


@dataclass(frozen=True)
class Said:
    """A message on standard error, and what may help, if that is said beside it."""

    level: Level
    message: str
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """How the command is started: the environment is that of somebody who has a key, changed by `variables`.

    What `before` names is done in its process first, and what is to happen `meanwhile` is done beside it.
    """

    arguments: tuple[str, ...] = ASKED
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    unset: tuple[str, ...] = ()
    stdin: bytes | None = b""
    out: Stream = "kept"
    err: Stream = "kept"
    before: tuple[str, ...] = ()
    meanwhile: Callable[[Running], None] | None = None
    apart: bool = False

    @property
    def needs_process(self) -> bool:
        """Whether it cannot happen inside of the tests' own process."""
        return bool(self.apart or self.before or self.unset or self.meanwhile) or (self.stdin, self.out, self.err) != (
            self.stdin or b"",
            "kept",
            "kept",
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """A failure; `happens` prepares it on a stage. Without a `type` there is none, and the command succeeds.

    `out` is standard output in the form of text. In the other forms there is an object, unless it is not `told`. It
    has the session's id if that had `begun`, and the turn's, with what there is of the answer, if one was `asked`.
    """

    what: str
    happens: Callable[[Stage], Call]
    code: int
    type: str | None = None
    says: tuple[Said, ...] = ()
    out: str = ""
    told: bool = True
    asked: bool = False
    begun: bool = False
    requests: int | None = None
    quotes: bool = False
    """Whether it says words of the stage's choice, which may be any."""
    after: Callable[[Stage], None] | None = None
    """What must be so afterwards."""

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Section:
    """Failures of one kind, under a heading of the page."""

    heading: str
    rows: tuple[Row, ...]


def error(message: str, hint: str | None = None) -> tuple[Said, ...]:
    """Return that one error is told of, and nothing else."""
    return (Said("error", message, hint),)


def misused(message: str) -> tuple[Said, ...]:
    """Return what is said of arguments that cannot be."""
    return (Said("error", message), Said("info", "see `reenact --help`"))


def asks(*arguments: str, **variables: str) -> Callable[[Stage], Call]:
    """Return what calls the command with these arguments behind the question."""
    return lambda stage: Call(arguments=(*ASKED, *arguments), variables=variables)


def calls(*arguments: str, **variables: str) -> Callable[[Stage], Call]:
    """Return what calls the command with these arguments alone."""
    return lambda stage: Call(arguments=arguments, variables=variables)
