"""A running program at its terminal: one thread reads its output, writes its input and notices its end."""

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

from reenact.terminal.session.display import Display, Updates
from reenact.terminal.session.ending import KILL, ProcessTree
from reenact.terminal.session.pty import Pair
from reenact.terminal.session.recording import Recording
from reenact.terminal.session.spawning import ExitStatus, Process, returncode
from reenact.terminal.session.transcript import Transcript
from reenact.terminal.session.waiting import Changes
from reenact.testing.clock import polled


@dataclass(eq=False)
class Outgoing:
    """Bytes to send, and how many of them have been sent."""

    data: bytes
    sent: int = 0

    @property
    def is_sent(self) -> bool:
        """Whether all of the bytes have been sent."""
        return self.sent == len(self.data)


class Outbox:
    """A thread-safe queue of bytes to write."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[Outgoing] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, outgoing: Outgoing) -> None:
        """Append it to the queue, unless it is empty."""
        with self._lock:
            if outgoing.data:
                self._waiting.append(outgoing)

    def discard(self, outgoing: Outgoing) -> None:
        """Discard the part that has not been written."""
        with self._lock:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)

    def write_with(self, write: Callable[[memoryview], int]) -> bytes:
        """Write as much as possible; return the bytes that were written."""
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
    """Wakes a thread that polls `descriptor`, which is readable after a call of `wake`."""

    def __init__(self) -> None:
        self.descriptor, self._end = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._end, False)
        self._lock = threading.RLock()
        self._is_open = True

    def wake(self) -> None:
        """Wake the thread, now or when it polls next."""
        with self._lock:
            if self._is_open:
                try:
                    os.write(self._end, b"!")
                except BlockingIOError:
                    return  # the pipe is full: the thread will wake in any case

    def clear(self) -> None:
        """Consume all wake-ups."""
        os.read(self.descriptor, 65_536)

    def close(self) -> None:
        """Close both ends. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self.descriptor)
                os.close(self._end)


QUIET = 0.1
"""Seconds of silence after which the output is complete, once the program has ended and others still use its terminal.
"""
LONGEST_REMAINDER = 2.0
"""Maximum number of seconds for which output of those others is read."""
_POLL_INTERVAL = 0.01
"""Interval in seconds at which the process is polled if the kernel does not announce its end."""
_RETRY = 0.05
"""Interval in seconds of attempts to write, in case the kernel does not announce that there is room, and of checks
whether an update of the screen is late.
"""
_JOIN_TIMEOUT = 5.0
_REAP_TIMEOUT = 1.0
_numbers = itertools.count(1)


class Live:
    """The program and its terminal, served by a thread.

    Attributes:
        status: the exit status of the program, if it is known.
        is_lost: whether it has ended, but another part of this process reaped it, so that its status is unknown.
        failure: the exception that ended the thread.
        last_arrival: when output was last processed, on the monotonic clock.
        is_processing: whether output is being processed, or an update of the screen has begun and not ended.
    """

    def __init__(
        self,
        *,
        pair: Pair,
        waker: Waker,
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
        self.is_processing = False
        self.failure: Exception | None = None
        self.owner = os.getpid()
        self.last_arrival = time.monotonic()
        self._pair = pair
        self._recording = recording
        self._status_lock = threading.RLock()
        self._outbox = Outbox()
        self._updates = Updates()
        self._tree = ProcessTree(process.pid, mark, self.has_ended, pair.foreground, pair.terminal_id)
        self._is_stopping = False
        self._waker = waker
        self._thread = threading.Thread(target=self._run, name=f"reenact-terminal-{next(_numbers)}", daemon=True)

    def begin(self) -> None:
        """Start the thread, which closes the terminal when the program has ended."""
        self._thread.start()

    def has_ended(self) -> bool:
        """Return whether the program has ended; poll it if that is not known yet."""
        if self.is_foreign:
            return self.status is not None or self.is_lost  # a fork cannot wait for children of its parent
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
        """Whether this process is a fork of the one that started the program."""
        return self.owner != os.getpid()

    def send(self, outgoing: Outgoing) -> None:
        """Queue the bytes: write what is possible now, and let the thread write the rest."""
        self._outbox.put(outgoing)
        self._write_now()

    def discard(self, outgoing: Outgoing) -> None:
        """Discard the part that has not been written."""
        self._outbox.discard(outgoing)

    def signal(self, number: signal.Signals) -> None:
        """Send the signal to the process group, unless the program has ended."""
        with self._status_lock, suppress(ProcessLookupError):
            if not self.has_ended():
                os.killpg(self.process.pid, number)

    def resize(self, cols: int, rows: int) -> None:
        """Change the size of the screen and the terminal; the kernel notifies the program, and so does a report."""
        with self.display.locked():  # so that the recording has the order of the screen
            report = self.display.resize(cols, rows)
            self._recording.add_resize(self._recording.elapsed(), cols, rows)
            self._pair.resize(cols, rows)
        self._outbox.put(Outgoing(report))
        self._write_now()
        self.changes.announce()

    def end(self) -> None:
        """End the program with all its descendants, and read their last output."""
        self._tree.end()
        self._join()

    def kill_all(self) -> None:
        """Kill all of them at once; callable on any thread."""
        self._tree.end(KILL)
        self.close()

    def close(self) -> None:
        """Stop the thread, and release all resources but the display. Idempotent."""
        self._is_stopping = True
        self._waker.wake()
        self._join()
        polled(self.has_ended, _REAP_TIMEOUT)
        if not self._thread.is_alive():
            self._release()

    def _release(self) -> None:
        self._pair.close()
        self._waker.close()

    def _join(self) -> None:
        # The garbage collector may call this on the thread itself, which then finishes by itself.
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_TIMEOUT)

    def _run(self) -> None:
        try:
            self._serve()
            self._process(self._updates.rest())
        except Exception as error:  # noqa: BLE001 - any error of the engine is reported to the waiting callers
            self.failure = error
        finally:
            self.transcript.complete()
            self._release()
            if self.status is not None:
                self._recording.add_exit(self._recording.elapsed(), self.status)
            self.changes.announce(over=True)

    def _serve(self) -> None:
        ending = _pidfd(self.process.pid)
        try:
            is_connected = self._serve_until_it_ends(ending)
        finally:
            if ending is not None:
                os.close(ending)
        self._pair.release()
        if is_connected and self._read_remaining_output():
            self._tree.record_members()

    def _serve_until_it_ends(self, ending: int | None) -> bool:
        """Serve the terminal until the program ends; return whether there may be more output."""
        poll = select.poll()
        poll.register(self._waker.descriptor, select.POLLIN)
        if ending is not None:
            poll.register(ending, select.POLLIN)
        is_connected = True
        while not self._is_stopping:
            if is_connected:
                poll.register(self._pair.ours, select.POLLIN | (select.POLLOUT if self._outbox else 0))
            is_expecting = bool(self._outbox) or self._updates.is_open
            patience = _POLL_INTERVAL if ending is None else _RETRY if is_expecting else None
            ready = dict(poll.poll(None if patience is None else patience * 1000))
            if self._waker.descriptor in ready:
                self._waker.clear()
            if is_connected and not self._read():
                is_connected = False  # otherwise the hang-up is reported again and again
                poll.unregister(self._pair.ours)
            if is_connected and self._outbox:
                self._write()
            if ending is None or ending in ready:
                if self.has_ended():
                    break
                if ending is not None:
                    # The parent that started the program does not see its end yet.
                    poll.unregister(ending)
                    ending = None
        return is_connected

    def _read_remaining_output(self) -> bool:
        """Read until nobody has the terminal open, or it is silent; return whether anybody still has it open."""
        poll = select.poll()
        poll.register(self._pair.ours, select.POLLIN)
        poll.register(self._waker.descriptor, select.POLLIN)
        latest = time.monotonic() + LONGEST_REMAINDER
        while not self._is_stopping and time.monotonic() < latest:
            ready = dict(poll.poll(QUIET * 1000))
            if self._waker.descriptor in ready:
                self._waker.clear()
            if not ready or not self._read():
                return not ready
        return True

    def _read(self) -> bool:
        data = self._pair.read()
        if finished := self._updates.finished(data or b"", time.monotonic()):
            self._process(finished)
        self.is_processing = self._updates.is_open
        return data is not None

    def _process(self, data: bytes) -> None:
        self.is_processing = True
        arrived = self._recording.elapsed()

        def record(data: bytes) -> None:
            self._recording.add_output(arrived, data)  # first: who finds a text in the output finds it here, too
            self.transcript.add(data)

        try:
            self._outbox.put(Outgoing(self.display.feed(data, record)))
        finally:
            self.last_arrival = time.monotonic()
            self.is_processing = False
        self.changes.announce()

    def _write_now(self) -> None:
        with suppress(OSError):  # the thread gets the same error and reports it
            self._write()
        if self._outbox:
            self._waker.wake()

    def _write(self) -> None:
        with self._recording.lock:  # so that the echo is recorded after the input
            went = self._outbox.write_with(self._pair.write)
            if went:
                self._recording.add_input(self._recording.elapsed(), went)
        if went:
            self.changes.announce()


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if the kernel has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an older kernel, a sandbox, or already gone
        return None
