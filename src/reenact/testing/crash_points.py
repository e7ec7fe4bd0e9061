"""The points at which a process may be killed, and the guarantees at each."""

from __future__ import annotations

from enum import Enum

import msgspec

OUTCOME = "tool-result"
"""The event in a session's stream that records the outcome of a tool's call."""

_NOTHING = "nothing of the command"
_UNSENT = (
    "It is as if the command had never been sent: whoever sent it had no reply, and may send it again. What was "
    "durable before is untouched, and an unfinished turn is ended or resumed, as the runtime is configured."
)
_UNKNOWN = (
    "Nobody knows what the effect was. A resumed turn runs an idempotent tool once more, with the same key; of any "
    "other the model is told that its outcome is not known, and it is not run again. `close` tells the model so of "
    "both."
)
_COUNTS = (
    "The command counts, although whoever sent it had no reply: a request that is sent again under its id is answered, "
    "and not carried out again. Subscribers hear what was not published, under the cursors it has."
)
_KEPT = (
    "What was acknowledged is there: messages that were accepted wait or are answered; what was created, deleted, "
    "decided or acknowledged stays so."
)
_BEHIND = "The next opening takes in what is missing, before it returns: the tables are what the log says."


class CrashPoint(Enum):
    """A point at which a process may be killed: `ends` says when, `durable` what the log has then, `promised` the rest.

    What is appended, committed and published is a step of an actor, some deltas of an answer, an acknowledgement of a
    consumer, or a row that replaces compacted ones: every kind of write.
    """

    BEFORE_APPEND = (
        "between command and append: what follows from a command is decided, and about to be handed to the journal",
        _NOTHING,
        _UNSENT,
    )
    BEFORE_COMMIT = (
        "between append and commit: the journal's writer has begun a transaction, and written nothing yet",
        _NOTHING,
        _UNSENT,
    )
    IN_COMMIT = (
        "in the commit: every row is written, and the transaction is about to be ended",
        _NOTHING,
        _UNSENT,
    )
    AFTER_COMMIT = (
        "between commit and publish: the transaction is durable, and nobody has heard of it",
        "all of the transaction: events, feed, snapshots, timers, remembered requests",
        _COUNTS,
    )
    AFTER_PUBLISH = (
        "between publish and reply: subscribers may have heard of it, and whoever sent the command has no reply yet",
        "all of the transaction",
        "As above; what a subscriber has heard is in the log, under the same cursor, and says the same.",
    )
    AFTER_REPLY = (
        "behind the reply: the program was promised something, and has passed that on (`Reporter.say`)",
        "all that was promised",
        _KEPT,
    )
    BEFORE_EFFECT = (
        "before the effect: that the tool is started is recorded, and it is about to run",
        "the intent (`tool-started`)",
        _UNKNOWN,
    )
    AFTER_EFFECT = (
        "behind the effect: the tool has run, and nobody was told what came of it",
        "the intent; the effect, out in the world",
        _UNKNOWN,
    )
    BEFORE_OUTCOME = (
        "before the append of the outcome: what came of the tool is about to be handed to the journal",
        "the intent; the effect, out in the world",
        _UNKNOWN,
    )
    AFTER_OUTCOME = (
        "behind the commit of the outcome: what came of the tool is durable, and nobody has heard of it",
        "the intent and the outcome (`tool-result`)",
        "The tool is not run again. The model is told the outcome, by the resumed turn or when it is asked next.",
    )
    BEFORE_PROJECTION = (
        "before the projection: the read model has begun a transaction to take events in",
        "the events; nothing of them in the tables",
        _BEHIND,
    )
    IN_PROJECTION = (
        "in the projection: rows and position are written, and the transaction is about to be ended",
        "the events; nothing of them in the tables",
        _BEHIND,
    )
    AFTER_PROJECTION = (
        "behind the projection: the tables have the events, and nobody has read them",
        "the events, and their rows together with the position",
        "No event is taken in twice.",
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
