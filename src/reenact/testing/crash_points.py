"""The points at which a process may be killed, and the guarantees at each."""

from __future__ import annotations

from enum import Enum

import msgspec

OUTCOME = "tool-result"
"""The event in a session's stream that records the outcome of a tool's call."""

_NOTHING = "nothing of the command"
_UNSENT = (
    "It is as if the command had never been sent: its sender got no reply, and can send it again. Earlier durable data "
    "is unchanged, and an unfinished turn is ended or resumed, as the runtime is configured."
)
_UNKNOWN = (
    "The outcome is unknown. A resumed turn runs an idempotent tool once more, with the same key. Any other tool is "
    "not run again, and the model is told that the outcome is unknown; with `close`, so are idempotent ones."
)
_COUNTS = (
    "The command counts, although its sender got no reply: a request that is sent again under its id is answered, but "
    "not carried out again. Subscribers get what was not published, under its cursors."
)
_KEPT = (
    "What was acknowledged is durable: accepted messages wait or are answered; creations, deletions, decisions and "
    "acknowledgements stay."
)
_BEHIND = "The next opening applies the missing events before it returns, so that the tables agree with the log."


class CrashPoint(Enum):
    """A point at which a process may be killed: `ends` says when, `durable` what the log has then, `promised` the rest.

    What is appended, committed and published is a step of an actor, some deltas of an answer, an acknowledgement of a
    consumer, or a row that replaces compacted ones: every kind of write.
    """

    BEFORE_APPEND = (
        "between command and append: the events of a command are decided, and about to be handed to the journal",
        _NOTHING,
        _UNSENT,
    )
    BEFORE_COMMIT = (
        "between append and commit: the journal's writer has begun a transaction, but written nothing yet",
        _NOTHING,
        _UNSENT,
    )
    IN_COMMIT = (
        "in the commit: every row is written, and the transaction is about to be committed",
        _NOTHING,
        _UNSENT,
    )
    AFTER_COMMIT = (
        "between commit and publish: the transaction is durable, but not published",
        "the whole transaction: events, feed, snapshots, timers, answers to requests",
        _COUNTS,
    )
    AFTER_PUBLISH = (
        "between publish and reply: subscribers may have the events, but the sender of the command has no reply yet",
        "the whole transaction",
        "As above; every event that a subscriber has received is in the log, unchanged, under the same cursor.",
    )
    AFTER_REPLY = (
        "after the reply: the program was promised something, and has reported it (`Reporter.say`)",
        "all that was promised",
        _KEPT,
    )
    BEFORE_EFFECT = (
        "before the effect: the start of the tool is recorded, and it is about to run",
        "the intent (`tool-started`)",
        _UNKNOWN,
    )
    AFTER_EFFECT = (
        "after the effect: the tool has run, but its outcome was not reported",
        "the intent; the effect itself, outside",
        _UNKNOWN,
    )
    BEFORE_OUTCOME = (
        "before the append of the outcome: the tool's outcome is about to be handed to the journal",
        "the intent; the effect itself, outside",
        _UNKNOWN,
    )
    AFTER_OUTCOME = (
        "after the commit of the outcome: the tool's outcome is durable, but not published",
        "the intent and the outcome (`tool-result`)",
        "The tool is not run again. The model is told the outcome, by the resumed turn or when it is asked next.",
    )
    BEFORE_PROJECTION = (
        "before the projection: the read model has begun a transaction to apply events",
        "the events, without their rows in the tables",
        _BEHIND,
    )
    IN_PROJECTION = (
        "in the projection: rows and position are written, and the transaction is about to be committed",
        "the events, without their rows in the tables",
        _BEHIND,
    )
    AFTER_PROJECTION = (
        "after the projection: the tables have the events, but nobody has read them",
        "the events, and their rows together with the position",
        "No event is applied twice.",
    )

    def __init__(self, ends: str, durable: str, promised: str) -> None:
        self.ends = ends
        self.durable = durable
        self.promised = promised
        self.__doc__ = f"Killed {ends}.\n\nDurable: {durable}.\n\n{promised}"

    def __repr__(self) -> str:
        return f"<CrashPoint {self.name}>"


class Crash(msgspec.Struct, frozen=True):
    """A crash: the process is killed when it reaches the point for the `nth` time.

    `of` counts only what has this name: the stored name of an event for points around appends and commits, the name of
    a tool or function for those around effects. For points around outcomes it is the event with the outcome,
    `tool-result` by default.

    Raises:
        TypeError: `point` is not a `CrashPoint`.
        ValueError: `nth` is below one.
    """

    point: CrashPoint
    nth: int = 1
    of: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.point, CrashPoint):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"a crash is at a CrashPoint, such as CrashPoint.AFTER_COMMIT, not at {self.point!r}")
        if self.nth < 1:
            raise ValueError(f"a point is reached for the first time, or later: nth is {self.nth!r}, and not below 1")

    @property
    def counted(self) -> str | None:
        """The name that is counted, or None if all are."""
        is_outcome = self.point in {CrashPoint.BEFORE_OUTCOME, CrashPoint.AFTER_OUTCOME}
        return OUTCOME if self.of is None and is_outcome else self.of

    def __str__(self) -> str:
        of = "" if self.of is None else f" of {self.of}"
        return f"{self.point.name}{of}, time {self.nth}"
