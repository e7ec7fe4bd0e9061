"""Actors whose messages are handled on an asyncio event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import CoroutineType
from typing import Never, TypeGuard

from reenact.actors.kernel.event_loop import default_place
from reenact.actors.kernel.mailbox import Envelope
from reenact.actors.kernel.pool import Place
from reenact.actors.kernel.pooled import PYKKAS_OWN, PooledActor
from reenact.domain.errors import RuntimeClosedError


class EventLoopActor(PooledActor):
    """An actor for I/O-bound work: its `on_receive` may be a coroutine function, run on an asyncio event loop.

    It handles one message at a time: while `on_receive` awaits, other actors of the loop run, and its own later
    messages wait. The hooks are plain methods; they, and an `on_receive` that is a plain method, also run on the loop
    and must return soon. Otherwise it is a `PooledActor`. Send to other actors with `tell` or `ask_async`: a blocking
    `ask` would block all actors on the loop.
    """

    _task: asyncio.Task[None] | None = None

    @staticmethod
    def _default_place() -> Place:
        return default_place()

    def _turn(self, envelope: Envelope | None) -> None:
        if envelope is None:
            super()._turn(None)
        else:  # the sender has found the actor idle, but does not run on the event loop
            self._mailbox.admit(envelope)
            self._mailbox.again()

    def _handle(self, envelope: Envelope) -> bool:
        try:
            message = envelope.message
            response = self._handle_receive(message) if type(message) in PYKKAS_OWN else self.on_receive(message)
            if _is_coroutine(response):
                self._task = _running_loop(response).create_task(self._await(envelope, response))
                return True
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the loop
            self._handle_message_exception(envelope, error)
        else:
            if envelope.reply_to is not None:
                envelope.reply_to.set(response)
        return False

    async def _await(self, envelope: Envelope, work: Coroutine[object, Never, object]) -> None:
        try:
            response = await _result_of(work)
        except BaseException as error:  # noqa: BLE001 - as above
            self._handle_message_exception(envelope, error)
        else:
            if envelope.reply_to is not None:
                envelope.reply_to.set(response)
        self._task = None
        self._mailbox.again()


async def _result_of(work: Coroutine[object, Never, object]) -> object:
    """Await the coroutine; that something it awaits was cancelled is a failure, unless the actor's own task was."""
    try:
        return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("what the actor awaited was cancelled") from error


def _running_loop(work: Coroutine[object, Never, object]) -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        work.close()
        raise RuntimeClosedError("the event loop is closed; the actor can wait for nothing any more") from None


def _is_coroutine(response: object) -> TypeGuard[Coroutine[object, Never, object]]:
    return isinstance(response, CoroutineType)
