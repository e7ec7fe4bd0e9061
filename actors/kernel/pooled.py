"""Actors with pykka's semantics that share a few threads instead of having one each."""

# The parts of the kernel call each other's private methods: what is public there is the user's.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from reenact.actors.kernel.context import Surroundings
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.letters import DeadLetters
from reenact.actors.kernel.mailbox import STOP, Envelope, Mailbox
from reenact.actors.kernel.pool import Place, WorkerPool, default_pool, here, refuse_on_loop
from reenact.actors.kernel.supervision import Restarts, Supervision, shown
from reenact.domain.errors import DeadlockError

SLICE = 64
"""Messages that an actor handles before others get their turn."""

PYKKAS_OWN = frozenset({type(STOP), ProxyCall, ProxyGetAttr, ProxySetAttr})

_KERNEL = "reenact.actors.kernel."
_RESERVED = frozenset({"ask_to_leave", "begin", "go", "hurry", "touched"})
"""What the parts of the kernel call, or look at, in an actor."""
_OWN_STATE = ("_begun", "_broke", "_departed", "_keeper", "_letters", "_over")
"""What an actor has from the moment on at which it goes to work; its constructor must not have set it."""

_log = logging.getLogger("pykka")
_chance = random.Random()  # noqa: S311 - a urn is no secret
os.register_at_fork(after_in_child=_chance.seed)
_making = threading.Lock()  # what few actors need is made when it is first looked for

A = TypeVar("A", bound="PooledActor")


class StopFlag(threading.Event):
    """An event that is hardly more than a bool until somebody waits for it or sets it."""

    _flag = False

    def __init__(self) -> None:  # the condition is made when it is first looked for
        pass

    def set(self) -> None:
        """Set the flag, and wake whoever waits."""
        # Whoever waits has made the condition before it looks at the flag, so one of both sees.
        self._flag = True
        if "_cond" in self.__dict__:
            super().set()

    def __getattr__(self, name: str) -> threading.Condition:
        """Make the condition on which the base class waits."""
        if name != "_cond":
            raise AttributeError(name)
        condition: threading.Condition = self.__dict__.setdefault(name, threading.Condition(threading.Lock()))
        return condition


class PooledRef(pykka.ActorRef[A]):
    """A reference to a pooled actor."""

    _urn: str | None = None
    _stopped: StopFlag | None = None
    _is_over: bool = False

    def __init__(self, actor: A, mailbox: Mailbox) -> None:  # pykka's own would have the actor make everything
        self._actor_weakref = weakref.ref(actor)
        self.actor_class = type(actor)
        self._mailbox = mailbox

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # pykka never sets it
        """A name that no other actor has."""
        urn = self._urn
        if urn is None:
            with _making:
                urn = self._urn = self._urn or _new_urn()
        return urn

    @property
    # Typed for our own envelopes: only we put anything into it.
    def actor_inbox(self) -> Mailbox:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where messages to the actor wait."""
        return self._mailbox

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        """Set when the actor has stopped."""
        stopped = self._stopped
        if stopped is None:
            with _making:
                stopped = self._stopped = self._stopped or StopFlag()
            # Whoever ends the actor says so before it looks for the flag, so one of both sets it.
            if self._is_over:
                stopped.set()
        return stopped

    def is_alive(self) -> bool:
        """Tell whether the actor has not stopped yet."""
        return not self._is_over

    def end(self) -> None:
        """Hear that the actor has stopped."""
        self._is_over = True
        if self._stopped is not None:
            self._stopped.set()

    def tell(self, message: object) -> None:
        """Send the message.

        Raises:
            ActorDeadError: the actor has stopped.
        """
        if not self._mailbox.offer(Envelope(message)):
            raise pykka.ActorDeadError(f"{self} not found")

    def ask(self, message: object, *, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ANN401 - pykka's
        """Send the message, and return the reply, or its future if `block` is False.

        Asked by another pooled actor, an idle one replies right here, without a change of threads.

        Raises:
            DeadlockError: `block` is true on an event loop on which actors run.
        """
        if block:
            refuse_on_loop()
        future: PooledFuture[object] = PooledFuture()
        envelope = Envelope(message, future)
        handled = block and timeout is None and self._mailbox.handled_here(envelope)
        if not (handled or self._mailbox.offer(envelope)):
            future.fail(pykka.ActorDeadError(f"{self} not found"))
        return future.get(timeout=timeout) if block else future

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ANN401 - pykka's own signature
        """Stop the actor once it has handled what was sent before; without a wait, if it waits to be started again.

        Raises:
            DeadlockError: it would wait, without a timeout, for itself; in an actor, call `self.stop()`.
        """
        if block and timeout is None and any(self._mailbox is mailbox for mailbox in here.running):
            raise DeadlockError("an actor that waits for its own end waits for ever; let it call self.stop()")
        stopped = super().stop(block=False)
        actor = self._actor_weakref()
        if actor is not None:
            actor.hurry()
        return stopped.get(timeout=timeout) if block else stopped


class _Succession(threading.local):
    """Whose place the next actor takes that is made on the current thread."""

    predecessor: PooledActor | None = None


_succession = _Succession()


class PooledActor(pykka.Actor):
    """An actor that occupies a thread only while it handles a message.

    It behaves as a `pykka.ThreadingActor` does, if it is started with `start`. Started on a pool or by a system, it is
    not in pykka's registry, and what is not an `Exception` (`SystemExit`, for instance) stops this actor and no other.

    Either way it has no thread of its own, and may run on the thread of whoever asks it: what belongs
    to a thread, like a `sqlite3` connection, a `threading.local`, a re-entrant lock or an `asyncio` loop, does not
    belong in it. Waiting for the reply of a pooled actor is fine; code that blocks otherwise, or waits for a
    `ThreadingActor`, keeps one of the few workers, and belongs on a `ThreadingActor` itself.
    """

    mailbox_limit: ClassVar[int | None] = None
    """How many messages may wait; whoever sends one more gets a `MailboxFullError`."""

    supervision: ClassVar[Supervision | None] = None
    """How an actor that a system has started is cared for when it fails. None: it ends, as pykka's do.

    Started again, it is a new instance, made with the same arguments, behind the same reference: it is alive all the
    time, and messages wait meanwhile, but the one that it failed at is gone. Of the hooks, the failed instance has
    `on_failure` called as ever and no `on_stop`; the new one has `on_start`.
    """

    _begun: bool = False
    _over: bool = False
    _keeper: Keeper | None = None
    _letters: DeadLetters | None = None
    _broke: Exception | None = None
    _registered: bool = False
    _departed: bool = False
    _mailbox: Mailbox
    # pykka's own name for it; None until somebody asks for it.
    _actor_ref: PooledRef[Any] | None = None  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a subclass that overrides, by an accident of names, what an actor runs on."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(_KERNEL):
            return
        for name in sorted({name for base in cls.__mro__ if _is_kernel(base) for name in _own_names(base)}):
            owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
            if name in vars(owner) and not _is_kernel(owner) and not owner.__module__.startswith("pykka."):
                raise TypeError(f"{owner.__name__}.{name} is a name that the kernel uses itself; choose another")

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self._assemble(self._create_actor_inbox())

    def _assemble(self, mailbox: Mailbox) -> None:
        # Instead of what pykka's constructor does: what few actors need is made when it is first looked for.
        predecessor = _succession.predecessor
        if predecessor is not None and type(predecessor) is type(self):
            _succession.predecessor = None
            self._inherit(predecessor)
            return
        self._mailbox = mailbox

    @property
    def actor_ref(self) -> PooledRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride] - what pykka's is of
        """The reference to this actor."""
        ref = self._actor_ref
        if ref is None:
            with _making:
                ref = self._actor_ref = self._actor_ref or PooledRef(self, self._mailbox)
            if self._departed:
                ref.end()
        return ref

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # pykka never sets it
        """A name that no other actor has."""
        return self.actor_ref.actor_urn

    @property
    def actor_inbox(self) -> Mailbox:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # see below
        """Where messages to this actor wait."""
        return self._mailbox

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        """Set when this actor has stopped."""
        return self.actor_ref.actor_stopped

    @staticmethod
    def _default_place() -> Place:
        return default_pool()

    @classmethod
    def start(  # pyright: ignore[reportIncompatibleMethodOverride]  # it is pykka's own, to the letter
        cls,
        *args: object,
        **kwargs: object,
    ) -> pykka.ActorRef[Self]:
        """Start an actor on the pool, or the event loop, of the process, and enter it in pykka's registry."""
        actor = cls(*args, **kwargs)
        actor._registered = True
        pykka.ActorRegistry.register(actor.actor_ref)
        actor.go(cls._default_place())
        return actor.actor_ref

    @classmethod
    def start_on(cls, pool: WorkerPool, /, *args: object, **kwargs: object) -> pykka.ActorRef[Self]:
        """Start an actor on this pool; the other arguments are the constructor's."""
        actor = cls(*args, **kwargs)
        actor.go(pool)
        return actor.actor_ref

    def go(self, pool: Place, keeper: Keeper | None = None, letters: DeadLetters | None = None) -> None:
        """Go to work on the pool."""
        # Looked at one by one: `vars` would give each actor a dictionary of its own, and so would take memory.
        has_state = self._begun is not False or self._over is not False or self._departed is not False
        if has_state or not (self._broke is None and self._keeper is None and self._letters is None):
            name = next(name for name in _OWN_STATE if getattr(self, name) is not getattr(PooledActor, name))
            raise TypeError(f"{type(self).__name__}.{name} is a name that the kernel uses itself; choose another")
        # The class stands in for what an actor does not have: with more of its own, each would take more memory.
        if keeper is not None:
            self._keeper = keeper
        if letters is not None:
            self._letters = letters
        _log.debug("Starting %s", self)
        pool.enter(self)
        self._mailbox.open(pool, self)
        self._start_actor_loop()

    def hurry(self) -> None:
        """Wait no longer for the time of the next start, if that is what the actor does."""
        if self._keeper is not None:
            self._keeper.hurry()

    def _inherit(self, predecessor: PooledActor) -> None:
        # The reference is shared by whoever has it; the actor behind it is another one now.
        self._mailbox = predecessor._mailbox
        self._keeper = predecessor._keeper
        self._letters = predecessor._letters
        self._actor_ref = predecessor.actor_ref  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        self._take_reference()

    def _take_reference(self) -> None:
        # What pykka's proxies look through.
        self.actor_ref._actor_weakref = weakref.ref(self)

    @classmethod
    # Typed for our own envelopes: only our references reach it.
    def _create_actor_inbox(cls) -> Mailbox:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return Mailbox(cls.mailbox_limit)

    @staticmethod
    def _create_future() -> PooledFuture[Any]:
        return PooledFuture()

    def _start_actor_loop(self) -> None:
        if type(self).on_start is PooledActor.on_start:
            self._begun = True
            self._mailbox.let_go()
        else:
            self._mailbox.again()

    def _turn(self, envelope: Envelope | None) -> None:
        if not self._begun:
            self._begin()
        if envelope is not None:
            self._handle(envelope)
        else:
            for _ in range(SLICE):
                if self._over:
                    break
                envelope = self._mailbox.next()
                if envelope is None or self._handle(envelope):
                    return
        if self._over:
            self._bury()
        else:
            self._mailbox.let_go()

    def _begin(self) -> None:
        self._begun = True
        try:
            self.on_start()
        except Exception:  # noqa: BLE001 - whatever it is, it is this actor's failure
            self._handle_failure(*sys.exc_info())
        except BaseException as error:  # noqa: BLE001 - likewise
            self._end(error)

    def _handle(self, envelope: Envelope) -> bool:
        """Handle the message; return True if that goes on, and the mailbox stays held meanwhile."""
        message, reply_to = envelope.message, envelope.reply_to
        try:
            response = self._handle_receive(message) if type(message) in PYKKAS_OWN else self.on_receive(message)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._raised(envelope, error)
        else:
            if reply_to is not None:
                reply_to.set(response)
        return False

    def _raised(self, envelope: Envelope, error: BaseException) -> None:
        """Take up what handling the message has raised: an exception is the asker's, or else this actor's failure."""
        message, reply_to = envelope.message, envelope.reply_to
        if isinstance(error, Exception):
            if reply_to is None:
                self._report_lost(message, error)
                self._fail()
            else:
                _log.info("Exception returned from %s to caller:", self, exc_info=True)
                reply_to.set_exception()
            return
        self._end(error)
        dead = pykka.ActorDeadError(f"{self} stopped before it could reply: {shown(error)}")
        if reply_to is None:
            self._report_lost(message, dead)
        else:
            reply_to.fail(dead)

    def _fail(self) -> None:
        self._handle_failure(*sys.exc_info())
        try:
            self.on_failure(*sys.exc_info())
        except BaseException:  # noqa: BLE001 - a failure in the face of failure is logged and no more
            self._handle_failure(*sys.exc_info())

    def _end(self, error: BaseException) -> None:
        if not self._registered:
            _log.debug("%r in %s. Stopping it.", error, self)
            self._stop()
            return
        _log.debug("%r in %s. Stopping all actors.", error, self)
        self._stop()
        # pykka waits for each of them; but one that asks this one may be further up on this very thread.
        pykka.ActorRegistry.stop_all(block=False)

    def _stop(self) -> None:
        self._leave()
        _log.debug("Stopped %s", self)
        try:
            self.on_stop()
        except BaseException:  # noqa: BLE001 - logged, as pykka does; it ends in any case
            self._handle_failure(*sys.exc_info())

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _log.error("Unhandled exception in %s:", self, exc_info=exception_value)
        if self._broke is not None:
            return  # it is over already
        if self._keeper is not None and isinstance(exception_value, Exception) and not self._over:
            self._broke = exception_value
            self._over = True
        else:
            self._leave()

    def _leave(self) -> None:
        self._mailbox.shut()
        self._depart()

    def _depart(self) -> None:
        if self._registered:
            pykka.ActorRegistry.unregister(self.actor_ref)
        self._over = True
        self._departed = True
        if self._actor_ref is not None:
            self._actor_ref.end()
        self._mailbox.pool.leave(self)

    def _bury(self) -> None:
        if self._keeper is not None and self._broke is not None:
            self._keeper.take_care(self._broke)
        else:
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        for envelope in self._mailbox.drain():
            dead = pykka.ActorDeadError(f"{self.actor_ref} stopped before handling the message")
            dead.__cause__ = self._broke
            if envelope.reply_to is None:
                if not envelope.stops:
                    self._report_lost(envelope.message, dead)
            elif envelope.stops:
                envelope.reply_to.set(None)
            else:
                envelope.reply_to.fail(dead)

    def _report_lost(self, message: object, reason: BaseException) -> None:
        if self._letters is not None:
            self._letters.put(str(self), message, reason)


class Keeper:
    """Cares for one supervised actor: starts it again with what it was made of, behind the same reference."""

    # The actor that has failed lives on, with its mailbox held, until another one has taken its place or it ends for
    # good. So whoever calls `take_care` or `_turn` has the mailbox, and they are called one at a time.

    def __init__(self, household: Surroundings, actor: PooledActor, make: Callable[[], pykka.Actor]) -> None:
        """Care for the actor as its class says; `make` makes another one like it."""
        self.actor = actor
        self._household = household
        self._make = make
        self._restarts = Restarts(actor.supervision or Supervision(), type(actor).__qualname__)

    def hurry(self) -> None:
        """Wait no longer for the time of the next start, if that is what the actor does."""
        self._restarts.hurry()

    def take_care(self, failure: Exception) -> None:
        """Start the actor, which has failed, again after a while, or let it end."""
        failed, household, mailbox = self.actor, self._household, self.actor._mailbox
        end = self._restarts.again(
            failure,
            str(failed),
            household.timetable,
            self._start_again,
            rests=household._rests,
            awaits_stop=mailbox.awaits_stop,
        )
        if end is not None:
            failed._leave()
            failed._refuse_rest()
            household._failed(failed.actor_ref, end.error, escalates=end.escalates)

    def _start_again(self) -> None:
        mailbox = self.actor._mailbox
        mailbox.open(mailbox.pool, self)
        mailbox.again()

    def _turn(self, _envelope: Envelope | None) -> None:
        failed = self.actor
        try:
            actor = self._successor(failed)
        except BaseException as error:  # noqa: BLE001 - its constructor is the user's
            failed._take_reference()
            if isinstance(error, Exception):
                failure = error
            else:
                failure = pykka.ActorDeadError(f"{failed} stops before it takes its first message")
                failure.__cause__ = error
            self.take_care(failure)
            return
        self.actor = actor
        actor._inherit(failed)
        pool = actor._mailbox.pool
        pool.enter(actor)
        pool.leave(failed)
        actor._mailbox.open(pool, actor)
        actor._turn(None)

    def _successor(self, failed: PooledActor) -> PooledActor:
        _succession.predecessor = failed  # the next actor of the class inherits from it, from its constructor on
        try:
            actor = self._make()
        finally:
            _succession.predecessor = None
        if not isinstance(actor, PooledActor):
            raise TypeError(f"{actor} cannot take the place of {failed}; it is not a pooled actor")
        return actor


def _is_kernel(kind: type) -> bool:
    return kind.__module__.startswith(_KERNEL)


def _own_names(kind: type) -> set[str]:
    """Return the names in a class of the kernel that a subclass cannot have for itself."""
    names = {*vars(kind), *vars(kind).get("__annotations__", ())} - {"_abc_impl"}  # which every abstract class has
    return {name for name in names if name in _RESERVED or (name.startswith("_") and not name.startswith("__"))}


def _new_urn() -> str:
    # As `uuid.uuid4().urn`, which takes three times as long; it is no secret. Whoever
    # seeds the numbers of the process gets them undisturbed, and actors with names of their own.
    digits = f"{_chance.getrandbits(128):032x}"
    return f"urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
