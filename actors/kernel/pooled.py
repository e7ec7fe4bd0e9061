"""Actors with pykka's semantics that share a few threads instead of each having its own."""

# Modules of the kernel call each other's private methods: the public names of an actor belong to the user.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar
from uuid import uuid4

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from reenact.actors.kernel.context import ActorHost
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.letters import DeadLetters
from reenact.actors.kernel.mailbox import STOP, Envelope, Mailbox
from reenact.actors.kernel.pool import Place, WorkerPool, default_pool, here, refuse_on_loop
from reenact.actors.kernel.supervision import Restarts, Supervision, shown
from reenact.domain.errors import DeadlockError

SLICE = 64
"""How many messages an actor handles before other actors get their turn."""

PYKKAS_OWN = frozenset({type(STOP), ProxyCall, ProxyGetAttr, ProxySetAttr})

_KERNEL = "reenact.actors.kernel."
_RESERVED = frozenset({"ask_to_leave", "begin", "go", "restart_now", "touched"})
"""Names of an actor that other modules of the kernel call or read."""
_OWN_STATE = ("_begun", "_supervised_failure", "_departed", "_keeper", "_letters", "_over")
"""Attributes that an actor gets when it starts to run; its constructor must not have set them."""

_log = logging.getLogger("pykka")
_lazy_creation_lock = threading.Lock()  # protects what is created lazily, since few actors need it

A = TypeVar("A", bound="PooledActor")


class StopFlag(threading.Event):
    """An event that costs little more than a bool until a thread waits for it or sets it."""

    _flag = False

    def __init__(self) -> None:  # the condition is created on first access
        pass

    def set(self) -> None:
        """Set the flag and wake the waiting threads."""
        # A waiting thread creates the condition before it reads the flag, so at least one of the two sees the other.
        self._flag = True
        if "_cond" in self.__dict__:
            super().set()

    def __getattr__(self, name: str) -> threading.Condition:
        """Create the condition on which the base class waits."""
        if name != "_cond":
            raise AttributeError(name)
        condition: threading.Condition = self.__dict__.setdefault(name, threading.Condition(threading.Lock()))
        return condition


class PooledRef(pykka.ActorRef[A]):
    """A reference to a pooled actor."""

    _urn: str | None = None
    _stopped: StopFlag | None = None
    _is_over: bool = False

    def __init__(self, actor: A, mailbox: Mailbox) -> None:  # pykka's own would make the actor create everything
        self._actor_weakref = weakref.ref(actor)
        self.actor_class = type(actor)
        self._mailbox = mailbox

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # pykka never sets it
        """A unique name of the actor."""
        urn = self._urn
        if urn is None:
            with _lazy_creation_lock:
                urn = self._urn = self._urn or uuid4().urn
        return urn

    @property
    # Typed for the kernel's own envelopes: only the kernel puts anything into it.
    def actor_inbox(self) -> Mailbox:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """The mailbox of the actor."""
        return self._mailbox

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        """Set when the actor has stopped."""
        stopped = self._stopped
        if stopped is None:
            with _lazy_creation_lock:
                stopped = self._stopped = self._stopped or StopFlag()
            # The thread that ends the actor sets `_is_over` before it looks for the flag, so at least one of both sets
            # it.
            if self._is_over:
                stopped.set()
        return stopped

    def is_alive(self) -> bool:
        """Return whether the actor has not stopped yet."""
        return not self._is_over

    def end(self) -> None:
        """Record that the actor has stopped."""
        self._is_over = True
        if self._stopped is not None:
            self._stopped.set()

    def tell(self, message: object) -> None:
        """Send the message without waiting for a reply.

        Raises:
            ActorDeadError: the actor has stopped.
        """
        if not self._mailbox.offer(Envelope(message)):
            raise pykka.ActorDeadError(f"{self} not found")

    def ask(self, message: object, *, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ANN401 - pykka's
        """Send the message, and return the reply, or its future if `block` is False.

        If another pooled actor asks, an idle actor handles the message on the current thread.

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
        """Stop the actor once it has handled all earlier messages; a backoff before a restart is cut short.

        Raises:
            DeadlockError: the actor would wait for itself, without a timeout; in an actor, call `self.stop()`.
        """
        if block and timeout is None and any(self._mailbox is mailbox for mailbox in here.running):
            raise DeadlockError("an actor that waits for its own end waits for ever; let it call self.stop()")
        stopped = super().stop(block=False)
        actor = self._actor_weakref()
        if actor is not None:
            actor.restart_now()
        return stopped.get(timeout=timeout) if block else stopped


class _Succession(threading.local):
    """The failed actor that the next actor created on the current thread replaces."""

    predecessor: PooledActor | None = None


_succession = _Succession()


class PooledActor(pykka.Actor):
    """An actor that occupies a thread only while it handles a message.

    It behaves like a `pykka.ThreadingActor` if it is started with `start`. Started on a pool or by a system, it is not
    in pykka's registry, and an exception that is not an `Exception` (`SystemExit`, for instance) stops only this actor.

    Either way it has no thread of its own, and may run on the thread of a caller of `ask`: it must not hold objects
    that belong to a thread, such as a `sqlite3` connection, a `threading.local`, a re-entrant lock or an `asyncio`
    loop. It may wait for the reply of a pooled actor; code that blocks in other ways, or waits for a `ThreadingActor`,
    occupies one of the few workers, and belongs in a `ThreadingActor` itself.
    """

    mailbox_limit: ClassVar[int | None] = None
    """How many messages may wait; the sender of one more gets a `MailboxFullError`."""

    supervision: ClassVar[Supervision | None] = None
    """How an actor that a system has started is supervised when it fails. None: it ends, as pykka's actors do.

    A restarted actor is a new instance, created with the same arguments, behind the same reference: the reference stays
    alive, and messages wait meanwhile, but the message at which it failed is lost. Of the hooks, `on_failure` is called
    on the failed instance but `on_stop` is not; `on_start` is called on the new one.
    """

    _begun: bool = False
    _over: bool = False
    _keeper: Keeper | None = None
    _letters: DeadLetters | None = None
    _supervised_failure: Exception | None = None
    _registered: bool = False
    _departed: bool = False
    _mailbox: Mailbox
    # pykka's own name for it; None until first accessed.
    _actor_ref: PooledRef[Any] | None = None  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Reject a subclass that accidentally overrides a name that the kernel uses."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(_KERNEL):
            return
        for name in sorted({name for base in cls.__mro__ if _is_kernel(base) for name in _reserved_names(base)}):
            owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
            if name in vars(owner) and not _is_kernel(owner) and not owner.__module__.startswith("pykka."):
                raise TypeError(f"{owner.__name__}.{name} is a name that the kernel uses itself; choose another")

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self._assemble(self._create_actor_inbox())

    def _assemble(self, mailbox: Mailbox) -> None:
        # Replaces pykka's constructor: what few actors need is created on first access.
        predecessor = _succession.predecessor
        if predecessor is not None and type(predecessor) is type(self):
            _succession.predecessor = None
            self._take_over_mailbox(predecessor)
            return
        self._mailbox = mailbox

    @property
    def actor_ref(self) -> PooledRef[Self]:  # pyright: ignore[reportIncompatibleMethodOverride] - what pykka's is of
        """The reference to this actor."""
        ref = self._actor_ref
        if ref is None:
            with _lazy_creation_lock:
                ref = self._actor_ref = self._actor_ref or PooledRef(self, self._mailbox)
            if self._departed:
                ref.end()
        return ref

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # pykka never sets it
        """A unique name of the actor."""
        return self.actor_ref.actor_urn

    @property
    def actor_inbox(self) -> Mailbox:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # see below
        """The mailbox of this actor."""
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
        """Start an actor on the default pool, or event loop, of the process, and register it with pykka."""
        actor = cls(*args, **kwargs)
        actor._registered = True
        pykka.ActorRegistry.register(actor.actor_ref)
        actor.go(cls._default_place())
        return actor.actor_ref

    @classmethod
    def start_on(cls, pool: WorkerPool, /, *args: object, **kwargs: object) -> pykka.ActorRef[Self]:
        """Start an actor on this pool; the other arguments go to its constructor."""
        actor = cls(*args, **kwargs)
        actor.go(pool)
        return actor.actor_ref

    def go(self, pool: Place, keeper: Keeper | None = None, letters: DeadLetters | None = None) -> None:
        """Start to run on the pool."""
        # Checked one by one: `vars` would create a dictionary for each actor, which takes memory.
        has_state = self._begun is not False or self._over is not False or self._departed is not False
        if has_state or not (self._supervised_failure is None and self._keeper is None and self._letters is None):
            name = next(name for name in _OWN_STATE if getattr(self, name) is not getattr(PooledActor, name))
            raise TypeError(f"{type(self).__name__}.{name} is a name that the kernel uses itself; choose another")
        # Class attributes hold the defaults: setting them on each instance would take more memory.
        if keeper is not None:
            self._keeper = keeper
        if letters is not None:
            self._letters = letters
        _log.debug("Starting %s", self)
        pool.enter(self)
        self._mailbox.open(pool, self)
        self._start_actor_loop()

    def restart_now(self) -> None:
        """Cut the backoff short if the actor is waiting to be restarted."""
        if self._keeper is not None:
            self._keeper.restart_now()

    def _take_over_mailbox(self, predecessor: PooledActor) -> None:
        # The reference is shared by all its holders, and now leads to the new actor.
        self._mailbox = predecessor._mailbox
        self._keeper = predecessor._keeper
        self._letters = predecessor._letters
        self._actor_ref = predecessor.actor_ref  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        self._redirect_reference()

    def _redirect_reference(self) -> None:
        # pykka's proxies read it.
        self.actor_ref._actor_weakref = weakref.ref(self)

    @classmethod
    # Typed for the kernel's own envelopes: only its references use it.
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
            self._restart_or_refuse_rest()
        else:
            self._mailbox.let_go()

    def _begin(self) -> None:
        self._begun = True
        try:
            self.on_start()
        except Exception:  # noqa: BLE001 - any exception is this actor's failure
            self._handle_failure(*sys.exc_info())
        except BaseException as error:  # noqa: BLE001 - likewise
            self._end(error)

    def _handle(self, envelope: Envelope) -> bool:
        """Handle the message; return True if handling continues and the mailbox stays held meanwhile."""
        message, reply_to = envelope.message, envelope.reply_to
        try:
            response = self._handle_receive(message) if type(message) in PYKKAS_OWN else self.on_receive(message)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._handle_message_exception(envelope, error)
        else:
            if reply_to is not None:
                reply_to.set(response)
        return False

    def _handle_message_exception(self, envelope: Envelope, error: BaseException) -> None:
        """Handle an exception from a message: reply with it, or, if no reply is expected, fail the actor."""
        message, reply_to = envelope.message, envelope.reply_to
        if isinstance(error, Exception):
            if reply_to is None:
                self._put_dead_letter(message, error)
                self._fail()
            else:
                _log.info("Exception returned from %s to caller:", self, exc_info=True)
                reply_to.set_exception()
            return
        self._end(error)
        dead = pykka.ActorDeadError(f"{self} stopped before it could reply: {shown(error)}")
        if reply_to is None:
            self._put_dead_letter(message, dead)
        else:
            reply_to.fail(dead)

    def _fail(self) -> None:
        self._handle_failure(*sys.exc_info())
        try:
            self.on_failure(*sys.exc_info())
        except BaseException:  # noqa: BLE001 - a failure while handling a failure is only logged
            self._handle_failure(*sys.exc_info())

    def _end(self, error: BaseException) -> None:
        if not self._registered:
            _log.debug("%r in %s. Stopping it.", error, self)
            self._stop()
            return
        _log.debug("%r in %s. Stopping all actors.", error, self)
        self._stop()
        # pykka waits for each of them; but an actor that asks this one may be further up this thread's stack.
        pykka.ActorRegistry.stop_all(block=False)

    def _stop(self) -> None:
        self._leave()
        _log.debug("Stopped %s", self)
        try:
            self.on_stop()
        except BaseException:  # noqa: BLE001 - logged, as pykka does; the actor ends in any case
            self._handle_failure(*sys.exc_info())

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _log.error("Unhandled exception in %s:", self, exc_info=exception_value)
        if self._supervised_failure is not None:
            return  # it has already ended
        if self._keeper is not None and isinstance(exception_value, Exception) and not self._over:
            self._supervised_failure = exception_value
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

    def _restart_or_refuse_rest(self) -> None:
        if self._keeper is not None and self._supervised_failure is not None:
            self._keeper.restart_or_end(self._supervised_failure)
        else:
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        for envelope in self._mailbox.drain():
            if envelope.stops:
                envelope.answer(None)
                continue
            dead = pykka.ActorDeadError(f"{self.actor_ref} stopped before handling the message")
            dead.__cause__ = self._supervised_failure
            if envelope.reply_to is None:
                self._put_dead_letter(envelope.message, dead)
            else:
                envelope.reply_to.fail(dead)

    def _put_dead_letter(self, message: object, reason: BaseException) -> None:
        if self._letters is not None:
            self._letters.put(str(self), message, reason)


class Keeper:
    """Supervises one actor: restarts it with its original arguments, behind the same reference."""

    # The failed actor is kept, with its mailbox held, until another has taken its place or it ends for good. So the
    # thread that calls `restart_or_end` or `_turn` holds the mailbox, and they run one at a time.

    def __init__(self, surroundings: ActorHost, actor: PooledActor, make: Callable[[], pykka.Actor]) -> None:
        """Supervise the actor as its class declares; `make` creates another one like it."""
        self.actor = actor
        self._surroundings = surroundings
        self._make = make
        self._restarts = Restarts(actor.supervision or Supervision(), type(actor).__qualname__)

    def restart_now(self) -> None:
        """Cut the backoff short if the actor is waiting to be restarted."""
        self._restarts.restart_now()

    def restart_or_end(self, failure: Exception) -> None:
        """Restart the failed actor after a backoff, or let it end."""
        failed, surroundings, mailbox = self.actor, self._surroundings, self.actor._mailbox
        end = self._restarts.again(
            failure,
            str(failed),
            surroundings.timetable,
            self._start_again,
            rests=surroundings._may_restart,
            awaits_stop=mailbox.awaits_stop,
        )
        if end is not None:
            parent = surroundings._family.parent(failed.actor_ref)  # before it is dead
            failed._leave()
            failed._refuse_rest()
            surroundings._report_ended(parent, failed.actor_ref, end.error, escalates=end.escalates)

    def _start_again(self) -> None:
        mailbox = self.actor._mailbox
        mailbox.open(mailbox.pool, self)
        mailbox.again()

    def _turn(self, _envelope: Envelope | None) -> None:
        failed = self.actor
        try:
            actor = self._create_successor(failed)
        except BaseException as error:  # noqa: BLE001 - a user's constructor
            failed._redirect_reference()
            if isinstance(error, Exception):
                failure = error
            else:
                failure = pykka.ActorDeadError(f"{failed} stops before it takes its first message")
                failure.__cause__ = error
            self.restart_or_end(failure)
            return
        self.actor = actor
        actor._take_over_mailbox(failed)
        pool = actor._mailbox.pool
        pool.enter(actor)
        pool.leave(failed)
        actor._mailbox.open(pool, actor)
        actor._turn(None)

    def _create_successor(self, failed: PooledActor) -> PooledActor:
        _succession.predecessor = failed  # the next actor of the class takes over its mailbox, from the constructor on
        try:
            actor = self._make()
        finally:
            _succession.predecessor = None
        if not isinstance(actor, PooledActor):
            raise TypeError(f"{actor} cannot take the place of {failed}; it is not a pooled actor")
        return actor


def _is_kernel(kind: type) -> bool:
    return kind.__module__.startswith(_KERNEL)


def _reserved_names(kind: type) -> set[str]:
    """Return the names of a kernel class that a subclass must not define."""
    names = {*vars(kind), *vars(kind).get("__annotations__", ())} - {"_abc_impl"}  # every abstract class has that one
    return {name for name in names if name in _RESERVED or (name.startswith("_") and not name.startswith("__"))}
