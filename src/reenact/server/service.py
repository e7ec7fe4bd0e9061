"""The state that the parts of a server share; it carries out the requests of clients on threads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any, Final, TypeVar

from reenact.actors.envelopes import enveloped
from reenact.actors.journal.api import Entry
from reenact.actors.kernel.timetable import microseconds
from reenact.actors.requests import context_of
from reenact.actors.runtime import LocalRuntime
from reenact.domain.commands import RESPONSES, CommandError, Response, refusal_of
from reenact.domain.errors import ReenactError, RuntimeClosedError
from reenact.domain.events import Envelope
from reenact.domain.image_travel import check_from_afar
from reenact.server.access import Access
from reenact.server.answers import LARGE, READS
from reenact.server.limits import Counts, Limits, Unread

T = TypeVar("T")
R = TypeVar("R")
INTERNAL: Final = CommandError(
    code="internal_error", message="something unexpected happened; the server's log has more"
)
OK: Final = "ok"
LARGE_AT_ONCE: Final = 2
"""Large answers, of all clients, that are made at the same time."""
_log: Final = logging.getLogger("reenact.server")


@dataclass
class Service:
    """A runtime, who may use it, and how much of it; carries out what clients ask for. Used on one event loop."""

    runtime: LocalRuntime
    access: Access
    limits: Limits
    allow_programs: bool
    _closed = False

    def __post_init__(self) -> None:
        self.name = f"reenact {_version()}"
        """What the server calls itself, with its version."""
        self.counts = Counts()
        self.unread = Unread()
        self.ends = asyncio.Event()
        """Set when the server ends: each connection is to be closed."""
        self.since = time.time()
        """When the server was made, in seconds since 1970-01-01 UTC."""
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="reenact-server")

    async def ask(
        self,
        type_: str,
        data: Mapping[str, object],
        request_id: str,
        timeout: float | None,  # noqa: ASYNC109 - that of the request, for whoever carries it out
        encode: Callable[[Envelope[Response]], T],
    ) -> T:
        """Carry out a request of the command protocol; return what `encode` makes of its response.

        Raises:
            UnknownCommandError: there is no such request, so that it has no response.
        """
        wait = self.limits.longest_request if timeout is None else min(max(timeout, 0.0), self.limits.longest_request)
        self.counts.in_progress += 1
        code = "abandoned"
        try:
            work = partial(self._carry_out, type_, {**data}, request_id, wait, encode)
            code, answer = await (self.read(work, large=type_ in LARGE) if type_ in READS else self.call(work))
        except ReenactError as error:
            code = error.code
            raise
        finally:
            self.counts.in_progress -= 1
            self.counts.requests[type_ if type_ in RESPONSES else "unknown", code] += 1
        return answer

    async def read(self, work: Callable[[], T], *, large: bool = True) -> T:
        """Return what the function returns, which is called when not too many answers are unread."""
        async with self._large if large else nullcontext():
            await self.unread.room()
            return await self.call(work)

    async def call(self, work: Callable[[], T]) -> T:
        """Return what the function returns, which may wait; it is called even if nobody waits for it any more."""
        if self._closed:
            raise RuntimeClosedError("the server is ending")
        # Not `run_in_executor`: its future, when it is cancelled, takes the work back as long as it has not begun.
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                tell(outcome.set_exception, error)
            else:
                tell(outcome.set_result, result)

        def tell(act: Callable[[R], object], value: R) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: outcome.done() or act(value))

        self._pool.submit(run)
        return await outcome

    def close(self) -> None:
        """Take nothing more; what has not begun is left."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _carry_out(
        self,
        type_: str,
        data: dict[str, object],
        request_id: str,
        timeout: float,
        encode: Callable[[Envelope[Response]], T],
    ) -> tuple[str, T]:
        data["request_id"] = request_id
        try:
            check_from_afar(type_, data, allow_programs=self.allow_programs)
            answer = self.runtime.request(type_, data, timeout)
        except ReenactError as error:
            if type_ not in RESPONSES:
                raise
            answer = _refusal(RESPONSES[type_], data, refusal_of(error))
        except Exception:
            _log.exception("a request %r could not be carried out", type_)
            if type_ not in RESPONSES:
                raise
            answer = _refusal(RESPONSES[type_], data, INTERNAL)
        error_ = answer.data.error
        return (OK if error_ is None else error_.code), encode(answer)


def _refusal(kind: type[Response], data: Mapping[str, object], error: CommandError) -> Envelope[Response]:
    response = kind(request_id=str(data["request_id"]), error=error)
    context = context_of(data, response.request_id)
    refusal: Envelope[Any] = enveloped(Entry(kind.event_type, microseconds(), response), context, None, None, str)
    return refusal


def _version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("reenact")
    return "from a checkout"
