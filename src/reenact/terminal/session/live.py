"""A running program at its terminal: one thread reads, writes and sees its end."""

from __future__ import annotations

import itertools
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from reenact.terminal.screen.recording import Recording
from reenact.terminal.session.display import Display
from reenact.terminal.session.ending import AT_ONCE, Family
from reenact.terminal.session.pty import Pair
from reenact.terminal.session.spawning import Process, returncode
from reenact.terminal.session.transcript import Transcript
from reenact.terminal.session.waiting import Changes, until
from reenact.terminal.status import ExitStatus

_REPLIES = 65_536
"""Bytes of replies that wait at most for a program that does not read; the terminal drops further ones."""


@dataclass(eq=False)
class Outgoing:
    """Bytes, and how many of them went."""

    data: bytes
    sent: int = 0
    is_reply: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether all of them went."""
        return self.sent == len(self.data)


class Outbox:
    """Any thread puts something in, one writes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[Outgoing] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, outgoing: Outgoing) -> None:
        """Have it written behind what waits already."""
        with self._lock:
            if outgoing.data:
                self._waiting.append(outgoing)

    def put_reply(self, reply: bytes) -> None:
        """Have a reply written, unless too many wait already: who asks without reading is not to fill the memory."""
        with self._lock:
            waiting = sum(len(each.data) for each in self._waiting if each.is_reply)
            if waiting + len(reply) <= _REPLIES:
                self.put(Outgoing(reply, is_reply=True))

    def take_back(self, outgoing: Outgoing) -> None:
        """Do not write what of it has not been written."""
        with self._lock:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)

    def write_with(self, write: Callable[[memoryview], int]) -> bytes:
        """Write what there is room for; return what went."""
        went = b""
        with self._lock:
            while self._waiting:
                first = self._waiting[0]
                count = write(memoryview(first.data)[first.sent :])
                went += first.data[first.sent : first.sent + count]
                first.sent += count
                if not first.is_sent:
                    break
                self._waiting.popleft()
        return went


class Waker:
    """Wakes a thread that waits for descriptors: `descriptor` can be read once it was called."""

    def __init__(self) -> None:
        self.descriptor, self._end = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._end, False)
        self._lock = threading.RLock()
        self._is_open = True

    def wake(self) -> None:
        """Wake the thread, now or when it waits next."""
        with self._lock:
            if self._is_open:
                try:
                    os.write(self._end, b"!")
                except BlockingIOError:
                    return  # it was called often enough

    def clear(self) -> None:
        """Take note of all calls."""
        os.read(self.descriptor, 65_536)

    def close(self) -> None:
        """Close both ends. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self.descriptor)
                os.close(self._end)


QUIET = 0.1
"""Seconds of silence after which nothing more is expected, when the program has ended and others have its terminal."""
LONGEST = 2.0
"""Seconds for which those others are heard at most."""
_GLANCE = 0.01
"""Seconds between two looks at a process whose end the kernel does not announce."""
_RETRY = 0.05
"""Seconds between two tries to write, should the kernel not say that there is room again."""
_LEAVE = 5.0
_REAP = 1.0
_numbers = itertools.count(1)


class Live:
    """The program, its terminal, and all that comes of it.

    Attributes:
        status: how the program has ended, as far as that is known.
        is_lost: whether it has ended, and its status was taken note of by others, who have told nobody.
        failure: what the thread has failed with.
        last_arrival: when something arrived last or was taken in, on the monotonic clock.
        is_taking: whether something that has arrived is being taken in.
    """

    def __init__(
        self,
        *,
        pair: Pair,
        process: Process,
        mark: str,
        transcript: Transcript,
        display: Display,
        recording: Recording,
    ) -> None:
        self.process = process
        self.transcript = transcript
        self.display = display
        self.changes = Changes()
        self.status: ExitStatus | None = None
        self.is_lost = False
        self.is_taking = False
        self.failure: Exception | None = None
        self.owner = os.getpid()
        self.last_arrival = time.monotonic()
        self._pair = pair
        self._recording = recording
        self._status_lock = threading.RLock()
        self._outbox = Outbox()
        self._family = Family(process.pid, mark, self.has_ended, pair.foreground, pair.place)
        self._is_stopping = False
        self._waker = Waker()
        self._thread = threading.Thread(target=self._run, name=f"reenact-terminal-{next(_numbers)}", daemon=True)

    def begin(self) -> None:
        """Start the thread; it closes the terminal when all is over."""
        self._thread.start()

    def has_ended(self) -> bool:
        """Whether the program has ended; look, if that is not known yet."""
        if self.is_foreign:
            return self.status is not None or self.is_lost  # a fork has no children of its parent's
        with self._status_lock:
            if self.status is None and not self.is_lost:
                try:
                    code = returncode(self.process)
                except ChildProcessError:
                    self.is_lost = True
                else:
                    self.status = None if code is None else ExitStatus.of(code)
            return self.status is not None or self.is_lost

    @property
    def is_foreign(self) -> bool:
        """Whether this is a fork of the process that the program belongs to."""
        return self.owner != os.getpid()

    def send(self, outgoing: Outgoing) -> None:
        """Have the bytes written, behind those that wait already: now as far as there is room, later by the thread."""
        self._outbox.put(outgoing)
        with suppress(OSError):  # the thread finds it, too, and says so
            self._write()
        if self._outbox:
            self._waker.wake()

    def take_back(self, outgoing: Outgoing) -> None:
        """Do not write what of them has not been written."""
        self._outbox.take_back(outgoing)

    def signal(self, number: signal.Signals) -> None:
        """Send the signal to the process group, unless the program has ended."""
        with self._status_lock, suppress(ProcessLookupError):
            if not self.has_ended():
                os.killpg(self.process.pid, number)

    def resize(self, cols: int, rows: int) -> None:
        """Give the screen and the terminal another size; the kernel tells the program."""
        self.display.resize(cols, rows)
        self._recording.add_resize(self._recording.elapsed(), cols, rows)
        self._pair.resize(cols, rows)
        self.changes.announce()

    def end(self) -> None:
        """End the program with all that it has started; what they say at last is heard."""
        self._family.end()
        self._join()

    def abandon(self) -> None:
        """End all of it at once, on whatever thread."""
        self._family.end(AT_ONCE)
        self.close()

    def close(self) -> None:
        """Stop the thread, and release what is held. Idempotent."""
        self._is_stopping = True
        self._waker.wake()
        self._join()
        until(self.has_ended, _REAP)
        if not self._thread.is_alive():
            self._release()
        self.display.close()

    def _release(self) -> None:
        self._pair.close()
        self._waker.close()

    def _join(self) -> None:
        # The garbage collector may have brought us here on the thread itself, which goes on to its end afterwards.
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_LEAVE)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - an engine may be anybody's; whoever waits is told
            self.failure = error
        finally:
            self.transcript.complete()
            self._release()
            if self.status is not None:
                self._recording.add_exit(self._recording.elapsed(), self.status)
            self.changes.announce(over=True)

    def _serve(self) -> None:
        ending = _descriptor_of(self.process.pid)
        try:
            is_connected = self._serve_until_it_ends(ending)
        finally:
            if ending is not None:
                os.close(ending)
        self._pair.release()
        if is_connected and self._hear_the_rest():
            self._family.remember()

    def _serve_until_it_ends(self, ending: int | None) -> bool:
        """Return whether there may be more to read."""
        poll = select.poll()
        poll.register(self._waker.descriptor, select.POLLIN)
        if ending is not None:
            poll.register(ending, select.POLLIN)
        is_connected = True
        while not self._is_stopping:
            if is_connected:
                poll.register(self._pair.ours, select.POLLIN | (select.POLLOUT if self._outbox else 0))
            patience = _GLANCE if ending is None else _RETRY if self._outbox else None
            ready = dict(poll.poll(None if patience is None else patience * 1000))
            if self._waker.descriptor in ready:
                self._waker.clear()
            if is_connected and not self._read():
                is_connected = False  # the kernel has hung up; that is told again and again
                poll.unregister(self._pair.ours)
            if is_connected and self._outbox:
                self._write()
            if ending is None or ending in ready:
                if self.has_ended():
                    break
                if ending is not None:
                    # Who started the program does not know of its end yet.
                    poll.unregister(ending)
                    ending = None
        return is_connected

    def _hear_the_rest(self) -> bool:
        """Read until nobody has the terminal, or those who still do say no more; return whether there are such."""
        poll = select.poll()
        poll.register(self._pair.ours, select.POLLIN)
        poll.register(self._waker.descriptor, select.POLLIN)
        latest = time.monotonic() + LONGEST
        while not self._is_stopping and time.monotonic() < latest:
            ready = dict(poll.poll(QUIET * 1000))
            if self._waker.descriptor in ready:
                self._waker.clear()
            if not ready or not self._read():
                return not ready
        return True

    def _read(self) -> bool:
        data = self._pair.read()
        if data:
            self._take(data)
        return data is not None

    def _take(self, data: bytes) -> None:
        self.last_arrival = time.monotonic()
        self.is_taking = True
        self._recording.add_output(self._recording.elapsed(), data)
        try:
            for reply in self.display.taken(data, self.transcript.add):
                if reply:
                    self._outbox.put_reply(reply)
                self.last_arrival = time.monotonic()
                self.changes.announce()
                if self._is_stopping:
                    break
        finally:
            self.is_taking = False
        self.changes.announce()

    def _write(self) -> None:
        with self._recording.lock:  # the echo is recorded behind it
            went = self._outbox.write_with(self._pair.write)
            if went:
                self._recording.add_input(self._recording.elapsed(), went)
        if went:
            self.changes.announce()


def _descriptor_of(pid: int) -> int | None:
    """Return a descriptor that can be read when the process has ended, where the kernel has such."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an older kernel, a sandbox, or already gone
        return None
