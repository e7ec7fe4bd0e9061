"""A runtime in this process: starts its parts in order and stops them in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

import msgspec

from reenact.actors.api.asking import Asking, LocalAsker
from reenact.actors.api.facades import Events
from reenact.actors.api.operations import LiveAgents, RuntimeOperations
from reenact.actors.api.reading import Follower, Log, ReadModel
from reenact.actors.api.requests import Requests
from reenact.actors.container import ContainerActor, ImageActor
from reenact.actors.environment.api import Environment, EnvironmentConfig, EnvironmentFactory, LLMConfig
from reenact.actors.environment.claude.models import DEFAULT_MODEL, context_window
from reenact.actors.environment.guards import GuardRegistry
from reenact.actors.environment.tools.outcome import error_text
from reenact.actors.environment.tools.toolbox import Toolbox, ToolRegistry
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.retention import Retention, Sweeper
from reenact.actors.journal.api import Journal, Link
from reenact.actors.journal.lock import StreamLocks
from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.event_loop import EventLoopThread
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.letters import DeadLetter
from reenact.actors.kernel.system import opened
from reenact.actors.loop.config import rules_here
from reenact.actors.session.actor import Reply, SessionActor, end_of_turn
from reenact.actors.session.ports import Nodes, Recovery
from reenact.domain.children import MAX_DEPTH, AgentTool, OfferedAgent
from reenact.domain.errors import (
    ConfigurationError,
    LogUnusableError,
    RuntimeClosedError,
    SessionLockedError,
    ShardMovedError,
    StorageError,
)
from reenact.domain.guards import GuardChecked
from reenact.domain.image import rules_of
from reenact.domain.loop.ledger import Price, price_of
from reenact.domain.loop.rules import Rules
from reenact.domain.operations.table import Response
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.reading import policies_of
from reenact.domain.session import child_turns as family
from reenact.domain.session.child_calls import depth_of
from reenact.domain.session.child_turns import WAKE
from reenact.domain.session.commands import BeginChild, BranchSession, ReportChild, SessionCommand, Stop
from reenact.domain.session.guarding import Question
from reenact.domain.session.state import Session
from reenact.domain.stream.events import Envelope

if TYPE_CHECKING:  # it needs an extra
    from reenact.actors.sharding.node import Node

logger = logging.getLogger("reenact.runtime")
SHORTEST = 0.25
LONGEST = 30.0
"""Seconds before a session that could not be recorded is tried again: the first time, and at most."""
LONGEST_FOR_KIN = 5.0
"""Seconds before a command to another session of the family is sent again, at most: a call or a person waits for it."""
IDLE = 120.0
"""Seconds after which an idle container, image or session without a live agent leaves memory."""
MOST_LIVE = 10_000
"""How many of them, including live agents, may be in memory before idle ones without an agent must leave."""


class Failures:
    """The sessions that could not be recorded, with the errors and the delays before the next try. Thread-safe."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[Exception, float]] = {}
        self._lock = threading.Lock()

    def add(self, session_id: str, error: Exception) -> float:
        """Record a failure; return the seconds to wait, which double with each failure."""
        with self._lock:
            _, delay = self._errors.pop(session_id, (error, SHORTEST))
            self._errors[session_id] = (error, min(2 * delay, LONGEST))
        return delay

    def error_of(self, session_id: str) -> Exception | None:
        """Return the last error of the session, or None."""
        with self._lock:
            error, _ = self._errors.get(session_id, (None, 0))
        return error

    def clear(self, session_id: str) -> None:
        """Remove the failures of a session."""
        if self._errors:
            with self._lock:
                self._errors.pop(session_id, None)

    def newest(self) -> StorageError | None:
        """Return the latest current error, or None."""
        with self._lock:
            errors = [error for error, _ in self._errors.values() if isinstance(error, StorageError)]
        return errors[-1] if errors else None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a runtime; see `Runtime.open`."""

    environment: EnvironmentFactory | None
    llm: LLMConfig | None
    base_path: str | os.PathLike[str] | None
    tools: Sequence[object]
    guards: Sequence[object]
    policies: Policies | Mapping[str, object] | None
    prices: Mapping[str, Price] | None
    recovery: Recovery
    clock: Callable[[], int]
    new_id: Callable[[str], str]


class _Ports:
    """The runtime's interface for session actors. `operations` and `requests` are set before the first one starts."""

    operations: RuntimeOperations
    requests: Requests

    def __init__(self, settings: Settings, journal: Log, locks: StreamLocks | None, node: Node | None) -> None:
        self._policies = None if settings.policies is None else policies_of(settings.policies)
        self._environment = settings.environment
        self._llm = settings.llm or LLMConfig()
        self._base_path = None if settings.base_path is None else os.fspath(settings.base_path)
        self._prices = settings.prices or {}
        self._unpriced: set[str | None] = set()
        self.recovery: Recovery = settings.recovery
        self.journal: Journal = journal
        self._log = journal
        self.locks = locks
        self.nodes: Nodes | None = None if node is None else node.region
        self.now = settings.clock
        self.new_id = settings.new_id
        self.failures = Failures()
        self._begins_again: set[str] = set()  # used on the event loop alone
        self._begin_delays: dict[str, float] = {}
        self.live = LiveAgents()
        self.registry = ToolRegistry(settings.tools)
        self.guards = GuardRegistry(settings.guards)
        self.outside = EventLoopThread()
        self.spawn = self.outside.spawn
        self.log_works = self.failures.clear
        self.agent_ends = self.live.remove
        self.system = ActorSystem(
            journal,
            clock=self.now,
            passivate_after=IDLE,
            max_live=MOST_LIVE,
            event_loop=self.outside,
            may_start=None if node is None else node.region.may_be_here,
            # A chat beside other processes must work for its own user, not on whatever waits in other sessions.
            wakes=locks is None and settings.environment is not None,
        )
        self.system.on_dead_letter(self._end_turn_of)

    def _end_turn_of(self, letter: DeadLetter) -> None:
        _, _, session_id = letter.recipient.partition("/")
        self.end_turn_of(session_id, letter.message, letter.reason)

    def end_turn_of(self, session_id: str, command: object, error: BaseException) -> None:
        end = end_of_turn(command, error, self.now())
        if end is not None:
            with contextlib.suppress(RuntimeClosedError):
                self.system.actor(SessionActor, session_id).tell(end)

    def make_environment(self, session: Session, agent_id: str) -> Environment:
        if self._environment is None:
            raise ConfigurationError(
                "no model is configured: open the runtime with environment=, llm_provider=, or llm=LLMConfig(api_key=…)"
            )
        image = self.operations.definition(session.image_id, session.image_revision)
        agents = image.agents if depth_of(session) < MAX_DEPTH else ()
        config = EnvironmentConfig(
            agent_id=agent_id,
            session_id=session.id or "",
            llm=self._llm,
            system=self.system,
            outside=self.outside,
            new_id=self.new_id,
            model=image.model or self._llm.model,
            max_tokens=image.max_tokens,
            system_prompt=image.system_prompt,
            cwd=self._base_path,
            mcp_servers=image.mcp_servers,
            tools=Toolbox(
                (
                    *self.registry.find(session.image_id, image),
                    *(one.spec_for_model() for one in agents),
                    *image.mcp_servers,
                ),
                policies=image.policies or self._policies,
            ),
            api_tools=image.api_tools,
            may_compress=image.compress_at != 0,
        )
        if image.cost_limit is not None:
            self._warn_if_unpriced(session.image_id, config.model)
        return self._environment.create(config)

    def _warn_if_unpriced(self, image_id: str | None, model: str | None) -> None:
        """Log once for an image that its cost limit does not count what its model costs."""
        is_priced = bool(self._prices) if model is None else price_of(self._prices, model) is not None
        if not is_priced and image_id not in self._unpriced:
            self._unpriced.add(image_id)
            told = (
                "the cost limit of image %r does not count its model, which has no price: "
                "Runtime.open(prices={%r: …}), or --price on the command line"
            )
            logger.warning(told, image_id, model or "the-model")

    def rules(self, session: Session) -> Rules:
        image = self.operations.definition(session.image_id, session.image_revision)
        if image.policies is None and self._policies is not None:
            image = msgspec.structs.replace(image, policies=self._policies)
        window = self._llm.context_window or context_window(image.model or self._llm.model or DEFAULT_MODEL)
        rules = rules_of(image, self._prices, window)
        if image.agents:
            rules = msgspec.structs.replace(rules, agents=tuple(map(self._offered_agent, image.agents)))
        return rules_here(rules, self._base_path)

    def _offered_agent(self, agent: AgentTool) -> OfferedAgent:
        return OfferedAgent(
            name=agent.name,
            image_id=agent.image_id,
            image_revision=self.operations.newest_revision(agent.image_id),
            detached=agent.detached,
            budget=agent.budget,
        )

    def ask_guards(
        self,
        asked: Sequence[Question],
        then: Callable[[tuple[GuardChecked, ...]], None],
        fail: Callable[[Exception], None],
    ) -> None:
        async def ask() -> None:
            then(await self.guards.ask(asked))

        def ended(asking: Future[None]) -> None:
            if asking.cancelled():
                fail(RuntimeClosedError("the runtime was closed while guards were asked"))

        self.outside.spawn(ask()).add_done_callback(ended)

    def newest_revision(self, image_id: str) -> int:
        return self.operations.newest_revision(image_id)

    def tell_kin(self, session_id: str, command: SessionCommand, back_to: str = "", delay: float = SHORTEST) -> None:
        begins_child = isinstance(command, BeginChild | BranchSession)

        def handle_reply(future: PooledFuture[Reply]) -> None:
            try:
                reply = future.get()
            except (RuntimeClosedError, SessionLockedError):
                pass  # the next process that locks the session or opens the log asks again
            except StorageError as error:
                if begins_child and isinstance(error, LogUnusableError):  # the history of its origin is damaged
                    self._handle_failed_kin(session_id, command, back_to, error)
                else:
                    self._handle_lost_kin(session_id, command, back_to, delay, error)
            except Exception as error:  # noqa: BLE001 - it is logged
                self._handle_failed_kin(session_id, command, back_to, error)
            else:
                if begins_child:
                    self._begin_delays.pop(back_to, None)
                if isinstance(reply, ReportChild):
                    self.tell_kin(back_to, reply)

        end_admission = None
        if self.nodes is not None and begins_child:  # its parent cannot leave first
            end_admission = self.nodes.admit(SessionActor.stream(session_id))
        with contextlib.suppress(RuntimeClosedError):
            future = self.system.actor(SessionActor, session_id).ask_future(command)
            future.add_done_callback(handle_reply)
            if end_admission is not None:
                future.add_done_callback(lambda _: end_admission())

    def _handle_lost_kin(
        self, session_id: str, command: SessionCommand, back_to: str, delay: float, error: StorageError
    ) -> None:
        """Send the command again, since the log has failed, unless another node or process does."""
        if isinstance(error, ShardMovedError) and not self._is_here(session_id):
            return
        with contextlib.suppress(RuntimeClosedError):
            if isinstance(command, BeginChild | BranchSession):
                self.outside.spawn(self._begin_again(back_to))
            else:
                self.outside.spawn(self._tell_again(session_id, command, back_to, delay))

    def _handle_failed_kin(self, session_id: str, command: SessionCommand, back_to: str, error: Exception) -> None:
        """End what waits for the effect of the command: the call of a child that cannot begin, or a turn."""
        logger.error("session %s could not be sent %s", session_id, type(command).__name__, exc_info=error)
        if isinstance(command, BeginChild | BranchSession):
            self.tell_kin(back_to, family.not_begun(session_id, error_text(error), self.now()))
        else:
            self.end_turn_of(session_id, command, error)

    async def _tell_again(self, session_id: str, command: SessionCommand, back_to: str, delay: float) -> None:
        await asyncio.sleep(delay)
        self.tell_kin(session_id, command, back_to, min(2 * delay, LONGEST_FOR_KIN))

    async def _begin_again(self, parent_id: str) -> None:
        """Have the parent begin its children again after a delay: those whose calls are not over by then."""
        if parent_id in self._begins_again:
            return
        self._begins_again.add(parent_id)
        delay = self._begin_delays.get(parent_id, SHORTEST)
        self._begin_delays[parent_id] = min(2 * delay, LONGEST)
        await asyncio.sleep(delay)
        self._begins_again.remove(parent_id)
        self.tell_kin(parent_id, WAKE)

    def session_at(self, session_id: str, position: int) -> tuple[Session, Link] | None:
        stream = SessionActor.stream(session_id)
        link = self._log.link_at(stream, position)
        if link is None:
            return None
        return SessionActor.replay(self._log.read_until(stream, link.version), self._log), link

    def mark_of(self, session_id: str, version: int) -> tuple[int, int, str]:
        stream = SessionActor.stream(session_id)
        link = self._log.link(stream, version)
        return version, self._log.feed_end(stream), "" if link is None else link.digest.hex()

    def request(self, type: str, data: Mapping[str, object], timeout: float) -> Envelope[Response]:  # noqa: A002
        return self.requests.request(type, data, timeout)

    def agent_lives(self, agent_id: str, session_id: str, responding: Callable[[], str | None]) -> None:
        self.live.add(agent_id, session_id, responding)
        if self.is_closing():  # it was being started
            stop = Stop(agent_id=agent_id, reason="shutdown", at=self.now())
            self.system.actor(SessionActor, session_id).tell(stop, here_and_now=True)

    def agent_is_known(self, agent_id: str) -> bool:
        return self.live.session_of(agent_id) is not None

    def is_closing(self) -> bool:
        return self.operations.stops_agents

    def log_fails(self, session_id: str, error: Exception) -> None:
        delay = self.failures.add(session_id, error)
        with contextlib.suppress(RuntimeClosedError):  # the next start reads the actual state
            self.outside.spawn(self._wake_after(session_id, delay))

    async def _wake_after(self, session_id: str, delay: float) -> None:
        await asyncio.sleep(delay)
        with contextlib.suppress(RuntimeClosedError):
            woken = self.system.actor(SessionActor, session_id).ask_future(WAKE)
            woken.add_done_callback(lambda future: self._handle_wake_reply(session_id, future.get))

    def _handle_wake_reply(self, session_id: str, wait: Callable[[], object]) -> None:
        try:
            wait()
        except RuntimeClosedError:
            pass  # the next start reads the actual state
        except ShardMovedError as error:
            if not self._is_here(session_id):
                self.failures.clear(session_id)  # the node to which it has moved handles it
            else:  # it belongs to this node, which cannot renew its lease
                self.log_fails(session_id, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            # A session that could be read but not recorded has reported that itself.
            if not isinstance(error, StorageError) or self.failures.error_of(session_id) is not error:
                self.log_fails(session_id, error)
        else:
            self.failures.clear(session_id)

    def _is_here(self, session_id: str) -> bool:
        """Return whether the session belongs to this node, even if the node cannot renew its lease at present."""
        return self.nodes is not None and self.nodes.epoch_of(SessionActor.stream(session_id)) is not None


class LocalRuntime(Asking):
    """A runtime in this process, built from given parts. `Runtime.open` creates the parts."""

    @opened("settings")
    def __init__(
        self,
        *,
        settings: Settings,
        journal: Log,
        locks: StreamLocks | None,
        node: Node | None,
        model: ReadModel,
        follower: Follower,
        feed: Feed,
        retention: Retention,
        let_go: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._follower = follower
        self.feed = feed
        """The sessions' events with cursors, as the server and `events` follow them."""
        self._environment = settings.environment
        self._let_go = let_go
        self._node = node
        ports = self._ports = _Ports(settings, journal, locks, node)
        self._system = ports.system
        self._do = RuntimeOperations(
            system=self._system,
            journal=journal,
            model=model,
            follower=follower,
            live=ports.live,
            registry=ports.registry,
            now=ports.now,
            new_id=ports.new_id,
            nodes=None if node is None else node.actors_of(self._system, journal, ports.new_id),
        )
        self._requests = Requests(self._do, feed)
        ports.operations, ports.requests = self._do, self._requests
        self._system.register(ContainerActor, ContainerActor)
        self._system.register(ImageActor, ImageActor)
        self._system.register(SessionActor, lambda context: SessionActor(context, ports))  # timers wake it from here on
        self._sweeper = Sweeper(
            feed, self._system.timetable, retention, ports.now, None if node is None else node.region.may_start
        )
        self._closing = threading.RLock()  # a signal's handler, or a factory's `dispose`, may close it once more
        self._closed = False
        self._at_exit = self._system._at_exit  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # one for both
        self._at_exit.name, self._at_exit.close = "a runtime", self.close
        self.events = Events(feed, self._sweeper.sweep, self._do.check_open)
        super().__init__(self._requests, self.events.stream, LocalAsker(self, self._do, self._requests, feed))

    @property
    def failure(self) -> StorageError | None:
        """The error because of which turns cannot be recorded at present, or None.

        A turn that cannot be recorded is not published. It is tried again, after a quarter of a second and then at
        growing intervals, until it succeeds; then it ends as failed, and queued messages are taken up.
        """
        return self._ports.failures.newest()

    @property
    def position(self) -> int:
        """The position of the last durable event in the log."""
        return self._journal.head()

    @property
    def lag(self) -> int:
        """The number of events that the read model has not applied yet."""
        return self._follower.lag

    def check_ready(self, timeout: float) -> None:
        """Return if turns can be recorded and, within `timeout` seconds, the read model catches up with the log.

        Raises:
            RuntimeClosedError: the runtime is closed.
            StorageError: the log cannot be written or read.
            ReadModelError: the read model cannot be brought up to date, or not within this time.
        """
        self._do.check_open()
        if self.failure is not None:
            raise self.failure
        if self._node is not None:
            self._node.check_ready()
        self._follower.wait_for(self._journal.head(), timeout)

    def recover(self) -> None:
        """Resume or end unfinished work; on a node, in its shards, now and whenever it takes over more."""
        if self._node is None:
            self._do.recover()
        elif self._node.has_joined:
            self._do.recover(self._node.region.may_start)
        else:
            self._node.join(self._system, self._do.recover)

    def request(self, type: str, data: Mapping[str, object], timeout: float | None = 30) -> Envelope[Response]:  # noqa: A002
        """Carry out a request of the command protocol; return its response, which is published as well.

        `data` has the parameters of the facade's method by name; the result is in `.data.result`. `timeout` is in
        seconds. A request that has its own `request_id` and changes something is carried out once: sent again, it gets
        the same response.

        Raises:
            UnknownCommandError: there is no such request; see `reenact.events.REQUESTS`.
            InvalidInputError: the data does not fit the request.
            RequestReusedError: another request had its `request_id`.
            SessionForgottenError: it was carried out for a session that was forgotten since.
            RequestTimeoutError: no response came in time; the request may still take effect.
            ReenactError: what the facade's method raises.
        """
        return self._requests.request(type, data, timeout)

    def close(self, timeout: float | None = None) -> None:
        """End running turns as interrupted, stop the agents, and close all parts. Idempotent.

        Queued messages are kept; handlers are called with all events before this returns. After `timeout` seconds it
        returns in any case, and logs a warning that names what has not ended and is abandoned.
        """
        if self._at_exit.is_the_parents:
            return
        if timeout is not None:
            self._at_exit.close_within(timeout)
            return
        with self._closing:
            if self._closed:
                return
            self._closed = True
            with contextlib.ExitStack() as parts:  # each is closed, whatever another raises, in reverse order
                parts.callback(self._let_go)
                parts.callback(self._dispose_of_factory)
                parts.callback(self._journal.close)
                parts.callback(self._follower.close)
                parts.callback(setattr, self._do, "closed", True)  # noqa: FBT003 - the value to set
                parts.callback(self.feed.close)  # nothing is published after this; handlers may read until they return
                if self._node is not None:
                    parts.callback(self._node.close)  # what is written until then is written as the owner
                parts.callback(self._system.close)
                parts.callback(self._sweeper.close)
                parts.callback(self._ports.outside.close)
                self._do.closing = True
                if self._node is not None:
                    self._node.drain()
                self._system.timetable.close()  # what becomes due from now on comes when the log is opened next
                self._do.shut_down()

    def _dispose_of_factory(self) -> None:
        dispose = getattr(self._environment, "dispose", None)
        if callable(dispose):
            try:
                dispose()
            except Exception:
                logger.exception("the environment factory could not be disposed of")

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> NoReturn:
        self.close()
        raise TypeError("Runtime is entered by `with`; for `async with`, there is AsyncRuntime")

    async def __aexit__(self, *exc: object) -> None: ...

    def __exit__(self, *exc: object) -> None:
        self.close()
