"""A journal that fails when a test wants it to: full, slow, overtaken by another writer, crashed, or torn."""

from __future__ import annotations

import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial, wraps
from pathlib import Path
from queue import SimpleQueue
from typing import Concatenate, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar

from reenact.actors.journal.api import (
    Append,
    ChainedJournal,
    Committed,
    Done,
    FeedJournal,
    Journal,
    Mark,
    Outcome,
    Recorded,
)
from reenact.actors.journal.codec import EventCodec
from reenact.domain.errors import ConflictError, StorageError, StorageFullError

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def torn_copy(log: str | os.PathLike[str], directory: str | os.PathLike[str], *, lose: int = 0) -> Path:
    """Copy an open log into a new directory as a crash would leave it, without the last bytes that were written.

    The last `lose` bytes of its write-ahead log are missing (with 0, all of it is there: only the process has ended).
    When opened, the copy holds whole transactions, from the first one on. The log must not be written meanwhile.

    Raises:
        FileExistsError: the directory exists already.
        ValueError: `lose` is below zero.
    """
    if lose < 0:
        raise ValueError(f"a write cannot lose {lose} bytes")
    path, target = Path(log), Path(directory)
    target.mkdir(parents=True)
    copy = target / path.name
    shutil.copyfile(path, copy)
    ahead = Path(f"{path}-wal")
    if ahead.exists():
        copied = Path(shutil.copyfile(ahead, f"{copy}-wal"))
        os.truncate(copied, max(0, copied.stat().st_size - lose))
    return copy


def _forwarded(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[FaultyJournal, P], R]:
    """Return a method that calls the wrapped journal's method of this name, or raises a TypeError if that has none."""
    name = method.__name__

    @wraps(method)
    def call(self: FaultyJournal, /, *args: P.args, **kwargs: P.kwargs) -> R:
        behind: Callable[P, R] | None = getattr(self.journal, name, None)
        if behind is None:
            raise TypeError(f"{type(self.journal).__name__} has no {name}")
        return behind(*args, **kwargs)

    return call


def _written(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[FaultyJournal, P], R]:
    """Return a method that forwards a write as `_forwarded` does, unless a fault is due."""
    forward = _forwarded(method)

    @wraps(method)
    def call(self: FaultyJournal, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._writing():  # pyright: ignore[reportPrivateUsage] - it becomes a method
            return forward(self, *args, **kwargs)

    return call


PATIENCE = 60.0
"""Seconds to wait for something that should happen at once."""


class CrashedError(StorageError):
    """The process has crashed, as users of this journal see it."""

    code = "crashed"


class _Crash(Enum):
    BEFORE = auto()
    AFTER = auto()


class _Overtaken(NamedTuple):
    """Another writer has recorded these events first."""

    events: tuple[object, ...]


_Fault: TypeAlias = Exception | _Crash | _Overtaken


class _Held(NamedTuple):
    step: Append
    go: Callable[[], None]


class FaultyJournal:
    """Passes all calls on to a journal, with the faults that a test asks for.

    It keeps the contract of `Journal` in every fault: a refused step was not recorded, steps of one stream take effect
    in order, and after a refused one no step of its stream does until `recover`. Faults that are asked for one after
    the other happen to one write each, in this order. A write is an append, or another operation that makes something
    durable. Closing it closes the wrapped journal. It keeps the contracts of `FeedJournal` and `ChainedJournal` if the
    `journal` does; if not, each of their methods raises a TypeError.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._changed = threading.Condition()
        self._faults: deque[_Fault] = deque()
        self._fenced: dict[str, Exception] = {}
        self._held: deque[_Held] = deque()
        self._holds = False
        self._full = False
        self._crashed = False
        self._under_way = 0
        self._handed_over = 0
        self._written: list[Append] = []

    @property
    def planned(self) -> int:
        """How many faults that were asked for have not happened yet."""
        with self._changed:
            return len(self._faults)

    @property
    def written(self) -> tuple[Append, ...]:
        """The steps that have become durable, in their order, whether or not that was reported."""
        with self._changed:
            return tuple(self._written)

    # Faults.

    def fail_next(self, error: Exception) -> None:
        """Let the next write fail with this error.

        Raises:
            TypeError: it is not an exception, but for example its class.
        """
        if not isinstance(error, Exception):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f'a write fails with an exception, such as StorageError("broken"), not {error!r:.100}')
        self._plan(error)

    def conflict_next(self, *events: object) -> None:
        """Let another writer overtake the next append that has events; `events`, if given, are recorded before it."""
        self._plan(_Overtaken(events))

    def overtake(self, stream: str, *events: object) -> Outcome:
        """Let another writer append these events to the stream now, and return the outcome."""
        history = self.journal.read(stream)
        last = history[-1] if history else None
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        step = Append(stream, last.version if last else 0, last.recorded_at if last else 0, events)
        with self._changed:
            self._hand_over(step, outcomes.put)
        return outcomes.get(timeout=PATIENCE)

    def crash_before_next_append(self) -> None:
        """Crash before the next append, or other write, is written."""
        self._plan(_Crash.BEFORE)

    def crash_after_next_append(self) -> None:
        """Crash after the next append, or other write, is written and before that is reported."""
        self._plan(_Crash.AFTER)

    def disk_full(self) -> None:
        """Let every write fail for lack of space, until `space_again` is called."""
        with self._changed:
            self._full = True

    def space_again(self) -> None:
        """End `disk_full`."""
        with self._changed:
            self._full = False

    def calm(self) -> None:
        """End all faults: planned ones are cancelled, and held appends go on."""
        with self._changed:
            self._faults.clear()
            self._full = False
        self.release()

    # Slowness.

    def hold(self) -> None:
        """Be slow: hold every append until it is released."""
        with self._changed:
            self._holds = True

    def release(self, count: int | None = None) -> int:
        """Release this many held appends, the oldest first; by default release all, and hold none any more.

        Returns how many were released.
        """
        with self._changed:
            if count is None:
                self._holds = False
            going = [self._held.popleft() for _ in range(len(self._held) if count is None else count) if self._held]
            for held in going:
                held.go()
            self._changed.notify_all()
            return len(going)

    @property
    def holds(self) -> bool:
        """Whether appends are held."""
        return self._holds

    @property
    def held(self) -> tuple[Append, ...]:
        """The appends that are held, the oldest first."""
        with self._changed:
            return tuple(held.step for held in self._held)

    def wait_until_held(self, count: int = 1) -> None:
        """Wait until this many appends are held.

        Raises:
            AssertionError: there are fewer after the longest wait.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._held) >= count, timeout=PATIENCE):
                raise AssertionError(f"{len(self._held)} appends are held after {PATIENCE:g} seconds, not {count}")

    @property
    def under_way(self) -> int:
        """How many appends and acknowledgements have no outcome yet and are not held."""
        with self._changed:
            return self._under_way

    @property
    def handed_over(self) -> int:
        """How many appends there were, whatever their outcomes."""
        with self._changed:
            return self._handed_over

    def wait_until_settled(self) -> None:
        """Wait until the outcome of every append and acknowledgement that is not held has been reported.

        Raises:
            AssertionError: one is still missing.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._under_way == 0, timeout=PATIENCE):
                raise AssertionError(f"{self._under_way} appends have no outcome after {PATIENCE:g} seconds")

    # Crashes.

    def crash(self) -> None:
        """Crash: pending and later writes fail with a `CrashedError`.

        For users of the journal its process has ended; nothing they do has an effect any more. It can be closed
        normally, and its successor begins after `come_back`.
        """
        with self._changed:
            self._crashed = True
            lost, self._held = list(self._held), deque()
            for held in lost:
                held.go()

    @property
    def crashed(self) -> bool:
        """Whether it has crashed, and has not come back."""
        return self._crashed

    def come_back(self) -> None:
        """Serve the next process, after a crash, with what was written before; planned faults are cancelled."""
        self.wait_until_settled()
        with self._changed:
            self._crashed = False
        self.calm()

    def torn_write(self, directory: str | os.PathLike[str], *, lose: int) -> Path:
        """Copy the SQLite log as a loss of power may leave it, `lose` bytes short; see `torn_copy`.

        Raises:
            TypeError: the journal has no file.
        """
        path: str | None = getattr(self.journal, "path", None)
        if path is None:
            raise TypeError(f"{type(self.journal).__name__} keeps no file that could be torn")
        return torn_copy(path, directory, lose=lose)

    # The methods of a journal.

    @property
    def codec(self) -> EventCodec | None:
        """The codec of the wrapped journal, if it has one; for `ActorSystem(codec=...)`."""
        codec: EventCodec | None = getattr(self.journal, "codec", None)
        return codec

    read = _forwarded(Journal.read)
    read_all = _forwarded(Journal.read_all)
    read_feed = _forwarded(Journal.read_feed)
    read_feed_backwards = _forwarded(Journal.read_feed_backwards)
    snapshot = _forwarded(Journal.snapshot)
    snapshots = _forwarded(Journal.snapshots)
    delete_snapshots = _forwarded(Journal.delete_snapshots)
    due = _forwarded(Journal.due)
    next_due = _forwarded(Journal.next_due)
    head = _forwarded(Journal.head)
    feed_end = _forwarded(FeedJournal.feed_end)
    _acknowledge = _forwarded(FeedJournal.acknowledge)
    mark = _forwarded(FeedJournal.mark)
    marks = _forwarded(FeedJournal.marks)
    forget_marks = _written(FeedJournal.forget_marks)
    remembered = _forwarded(FeedJournal.remembered)
    forget_requests = _written(FeedJournal.forget_requests)
    replace_feed = _written(FeedJournal.replace_feed)
    stale_feeds = _forwarded(FeedJournal.stale_feeds)
    link = _forwarded(ChainedJournal.link)
    link_at = _forwarded(ChainedJournal.link_at)
    read_until = _forwarded(ChainedJournal.read_until)

    def append(self, step: Append, done: Done) -> None:
        """Make the step durable, unless a fault is due."""
        with self._changed:
            if self._crashed:
                raise _crashed()
            self._handed_over += 1
            if self._holds:
                self._held.append(_Held(step, partial(self._begin, step, done)))
                self._changed.notify_all()
            else:
                self._begin(step, done)

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        """Wait for pending steps, and accept steps of the stream again.

        Raises:
            CrashedError: it has crashed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._crashed or all(held.step.stream != stream for held in self._held))
            if self._crashed:
                raise _crashed()
        recorded = self.journal.recover(stream, after=after)
        with self._changed:
            self._fenced.pop(stream, None)
        return recorded

    def acknowledge(self, marks: Sequence[Mark], done: Done) -> None:
        """Record the positions of consumers, unless a fault is due.

        Raises:
            CrashedError: it has crashed.
        """
        with self._changed:
            error, crashes = self._next_of_a_write()
            # A failing write is replaced by an empty one, so that the outcome is reported on the right thread.
            write = partial(self._acknowledge, marks if error is None else ())
            self._pass_on(write, partial(self._report_outcome, None, done, error, crashes))

    def close(self) -> None:
        """Release the held appends, and close the journal."""
        self.release()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # The handling of an append; the lock is held, so that steps keep their order.

    def _plan(self, fault: _Fault) -> None:
        with self._changed:
            self._faults.append(fault)

    def _begin(self, step: Append, done: Done) -> None:
        error = self._refusal(step)
        if error is not None:
            self._fenced.setdefault(step.stream, error)
            # A failing step is replaced by an empty one, so that its outcome is reported in order and on the right
            # thread.
            self._hand_over(Append(step.stream, None, step.recorded_at), done, error)
            return
        fault = self._next_fault(has_events=bool(step.events))
        if fault is _Crash.BEFORE:
            self.crash()
            self._begin(step, done)
        elif fault is _Crash.AFTER:
            self._hand_over(step, done, crashes=True)
        elif isinstance(fault, _Overtaken) and fault.events:
            self._hand_over(Append(step.stream, step.after, step.recorded_at, fault.events), lambda _: None)
            self._hand_over(step, done)
        elif fault is not None:
            self._fenced[step.stream] = _conflict(step) if isinstance(fault, _Overtaken) else fault
            self._hand_over(Append(step.stream, None, step.recorded_at), done, self._fenced[step.stream])
        else:
            self._hand_over(step, done)

    def _refusal(self, step: Append) -> Exception | None:
        """Return the error because of which the step cannot be recorded now, or None."""
        if self._crashed:
            return _crashed()
        earlier = self._fenced.get(step.stream)
        if isinstance(earlier, ConflictError):
            return ConflictError(earlier.stream, earlier.expected, earlier.actual)
        if earlier is not None:
            return StorageError(f"not recorded, because an earlier step of its stream was not: {earlier}")
        if self._full:
            return _no_space()
        return None

    def _next_fault(self, *, has_events: bool) -> _Fault | None:
        if not self._faults or (isinstance(self._faults[0], _Overtaken) and not has_events):
            return None
        return self._faults.popleft()

    def _next_of_a_write(self) -> tuple[Exception | None, bool]:
        """Return the error of a write that is not an append, and whether to crash after it.

        Raises:
            CrashedError: it has crashed.
        """
        if self._crashed:
            raise _crashed()
        if self._full:
            return _no_space(), False
        fault = self._next_fault(has_events=False)
        if fault is _Crash.BEFORE:
            self.crash()
            raise _crashed()
        return (fault, False) if isinstance(fault, Exception) else (None, fault is _Crash.AFTER)

    @contextmanager
    def _writing(self) -> Generator[None]:
        with self._changed:
            error, crashes = self._next_of_a_write()
        if error is not None:
            raise error
        yield
        if crashes:
            self.crash()
        if self._crashed:
            raise _crashed()

    def _hand_over(self, step: Append, done: Done, error: Exception | None = None, *, crashes: bool = False) -> None:
        self._pass_on(partial(self.journal.append, step), partial(self._report_outcome, step, done, error, crashes))

    def _pass_on(self, write: Callable[[Done], None], done: Done) -> None:
        self._under_way += 1
        try:
            write(done)
        except BaseException:
            self._under_way -= 1
            raise

    def _report_outcome(
        self,
        step: Append | None,
        done: Done,
        error: Exception | None,
        crashes: bool,  # noqa: FBT001 - a fact of the write
        outcome: Outcome,
    ) -> None:
        with self._changed:
            if step is not None and isinstance(outcome, Committed) and error is None:
                self._written.append(step)
            if crashes:
                self.crash()
            if self._crashed:
                error = _crashed()
        done(outcome if error is None else error)
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()


def _crashed() -> CrashedError:
    return CrashedError("the process has crashed")


def _no_space() -> StorageFullError:
    return StorageFullError("no space is left for the log; free some and try again")


def _conflict(step: Append) -> ConflictError:
    after = step.after or 0
    return ConflictError(step.stream, after, after + 1)
