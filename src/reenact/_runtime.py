"""Opens a runtime: connects the log, the read model, the feed and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

import msgspec

from reenact._lazy import resolve_types
from reenact._location import LogFile, LogLocation, location_of
from reenact.actors.envelopes import derived
from reenact.actors.environment.api import ConfiguredProvider, EnvironmentFactory, LLMConfig, LLMProvider
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.retention import Retention, retention_of
from reenact.actors.ids import TimeOrderedIds
from reenact.actors.journal.api import Publication, Synchronous
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.lock import StreamLocks
from reenact.actors.journal.opening import private_directory
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.vault import Vault
from reenact.actors.kernel.timetable import microseconds
from reenact.actors.runtime import LocalRuntime, Settings
from reenact.actors.session.actor import SessionActor
from reenact.actors.session.ports import Recovery
from reenact.domain.errors import ConfigurationError
from reenact.domain.history.stored import STORED
from reenact.domain.image import Image
from reenact.domain.loop.ledger import Price, prices_of
from reenact.domain.messages import instant
from reenact.domain.policy.judge import Policies
from reenact.projections.read_model.opening import check_place, open_read_model
from reenact.projections.runner import Runner
from reenact.projections.views.projections import Projections

if TYPE_CHECKING:
    from reenact.actors.journal.key_ring import KeyRing
    from reenact.actors.sharding.node import Node
    from reenact.client.dialing import Reconnect
    from reenact.client.runtime import RemoteRuntime
    from reenact.projections.views.declared import Projection

Clock: TypeAlias = Callable[[], int]
Ids: TypeAlias = Callable[[str], str]


class OpenLog(msgspec.Struct, frozen=True):
    """The open log of a runtime, for other code that follows it.

    `is_leader` returns whether this process is to follow it; None: it always is. `on_close` registers a function to
    call when the log has got its last event, and before it is closed.
    """

    location: LogLocation
    journal: StoredJournal
    is_leader: Callable[[], bool] | None
    on_close: Callable[[Callable[[], None]], None]


class Runtime(LocalRuntime):
    """Containers, sessions and agents on one log.

    Use it as a context manager, or `close` it. A runtime that is open when the program ends is closed then, with
    `close(timeout=5)`, and a log message says so.
    """

    projections: Projections
    """The tables that follow the log: the runtime's own, named `reenact`, and the `projections` passed to `open`."""
    open_log: OpenLog
    """The log, for `Tracing`."""
    _is_shared: ClassVar[bool] = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        environment: EnvironmentFactory | None = None,
        llm: LLMConfig | None = None,
        llm_provider: LLMProvider | None = None,
        base_path: str | os.PathLike[str] | None = None,
        default_image: Image | None = None,
        tools: Sequence[object] = (),
        guards: Sequence[object] = (),
        policies: Policies | Mapping[str, object] | None = None,
        prices: Mapping[str, Price] | None = None,
        recovery: Recovery = "close",
        synchronous: Synchronous = "FULL",
        retention: Retention | None = None,
        projections: Sequence[Projection] = (),
        keys: KeyRing | None = None,
        clock: Clock = microseconds,
        ids: Ids | None = None,
    ) -> Self:
        """Open or create the log in a SQLite file or a PostgreSQL database, and start a runtime on it.

        Args:
            path: the file, or a URL `sqlite:///relative.db` or `sqlite:////absolute.db`. Beside it are `<path>.lock`
                and the read model's tables in `<path>.projections`, which may be deleted at any time. Or a URL
                `postgresql://…`, whose parameter `schema` names the schema of the log ("reenact" by default); the read
                model's tables are in schemas beside that one.
            environment: makes the environment of each agent, such as `MockEnvironmentFactory()`.
            llm: how to reach Claude; used when neither `environment` nor `llm_provider` is given.
            llm_provider: a model of your own, in the standard environment.
            base_path: the directory that agents work in.
            default_image: an image to register when the runtime opens; `ask` uses it when it is given no other.
            tools: the functions of the tools that images name; those of images registered in this runtime need not be
                given again, but what goes on when it opens (turns that are resumed, messages that are due) has only
                these and those of the `default_image`.
            guards: functions, plain or decorated with `@guard`, that images name in their `guards`; a guard that an
                image names and that is missing here refuses everything.
            policies: which calls people are asked about, for images that have no policies of their own.
            prices: what models cost, by their names; the costs of others count as unknown.
            recovery: what happens to turns that a crash cut short: `close` ends them as interrupted, with the partial
                answer; `resume` asks the model again, under the same turn id.
            synchronous: SQLite's setting. FULL: acknowledged events survive a loss of power. NORMAL: they survive a
                crash of the process. OFF: after a loss of power, neither the file's integrity nor the order of writes
                is guaranteed. In PostgreSQL, NORMAL and OFF may lose the last moments in a crash of the server.
            retention: how long deltas of finished turns, consumers that are gone and requests are kept; see `Retention`
                for the defaults.
            projections: tables of your own that follow the log, in `<path>.views/` or in schemas; see `Projection`.
            keys: encrypt what is written from now on, and decrypt what is encrypted; see `KeyRing`.
            clock: returns the time in microseconds since 1970-01-01 UTC.
            ids: makes a unique id from a prefix.

        Raises:
            LogEncryptedError: the log is encrypted, and there are no `keys`.
            KeyRingError: the keys cannot be used now, or are those of another log.
            LogLockedError: another runtime, here or in another process, is writing the log.
            LogTooNewError: a newer version of Reenact has written it.
            LogUnreachableError, LogAccessError: the database server cannot be reached, or refuses access.
            LogUnusableError: it is not a log, is that of other actors, is damaged, or cannot be opened here.
            StorageFullError: there is no space to create the log.
            ConfigurationError: the settings contradict each other, or the URL is of a kind that is not supported.
            MissingExtraError: the extra `postgresql` is not installed.
            ProjectionMistakeError: the definition of a projection is wrong.
        """
        _check_model(environment, llm, llm_provider)
        if recovery not in ("close", "resume"):
            raise ConfigurationError(f"recovery must be 'close' or 'resume', not {recovery!r}")
        if synchronous not in ("FULL", "NORMAL", "OFF"):
            raise ConfigurationError(f"synchronous must be 'FULL', 'NORMAL' or 'OFF', not {synchronous!r}")
        return cls._put_together(
            location_of(path, keys),
            Settings(
                environment=environment or _factory(llm, llm_provider),
                llm=_config(llm, llm_provider),
                base_path=base_path,
                tools=tools,
                guards=guards,
                policies=policies,
                prices=prices_of({} if prices is None else prices),
                recovery=recovery,
                clock=clock,
                new_id=ids or TimeOrderedIds(clock),
            ),
            default_image=default_image,
            synchronous=synchronous,
            retention=retention,
            projections=projections,
        )

    @classmethod
    def in_memory(
        cls,
        *,
        environment: EnvironmentFactory | None = None,
        llm: LLMConfig | None = None,
        llm_provider: LLMProvider | None = None,
        base_path: str | os.PathLike[str] | None = None,
        default_image: Image | None = None,
        tools: Sequence[object] = (),
        guards: Sequence[object] = (),
        policies: Policies | Mapping[str, object] | None = None,
        prices: Mapping[str, Price] | None = None,
        retention: Retention | None = None,
        projections: Sequence[Projection] = (),
        clock: Clock = microseconds,
        ids: Ids | None = None,
    ) -> Self:
        """Open a runtime whose log is deleted when it is closed: for tests and experiments.

        The log is of the same kind as that of `open`, in a directory of its own, which is in memory where the system
        supports that.
        """
        undo = ExitStack()
        try:
            location = LogFile(private_directory(undo) / "log.db")
            location.let_go = undo.close
            runtime = cls.open(
                location,
                environment=environment,
                llm=llm,
                llm_provider=llm_provider,
                base_path=base_path,
                default_image=default_image,
                tools=tools,
                guards=guards,
                policies=policies,
                prices=prices,
                synchronous="OFF",
                retention=retention,
                projections=projections,
                clock=clock,
                ids=ids,
            )
        except BaseException:
            undo.close()
            raise
        runtime._at_exit.name = "the runtime in memory"  # noqa: SLF001 - a runtime of this class
        return runtime

    @staticmethod
    def connect(
        url: str | Sequence[str],
        *,
        token: str | None = None,
        client_id: str | None = None,
        timeout: float | None = 30.0,
        heartbeat: float = 10.0,
        reconnect: Reconnect | None = None,
    ) -> RemoteRuntime:
        """Connect to a runtime that a server (`reenact serve`) has open, and return the same facades for it.

        A lost connection is restored, after a time that grows with each failure; a request that has no answer then is
        sent again, and carried out once. Close the returned runtime, or use it as a context manager.

        Args:
            url: `http://host:port` or `https://…`, or the WebSocket at `ws://host:port/ws` or `wss://…/ws`. Of several
                servers on one log, given as a list, one that answers is used, and another one when it is gone. Or
                `ray://head:10001`, or `ray://head:10001/name`: the hosts that `reenact.ray.start` has started on Ray.
            token: a token of the server; several servers must share it. Ray knows the token of its hosts.
            client_id: the name under which `events.subscribe` acknowledges, unless it is given another.
            timeout: seconds that the connection, and then each call of a facade, may take; None means no limit.
            heartbeat: seconds between two pings, and from a ping until the connection is closed if it is not answered.
            reconnect: how long to wait before reconnecting.

        Raises:
            AuthenticationError: the server does not accept the token.
            ProtocolError: the server uses another version of the protocol, or is not a Reenact server.
            ServerUnreachableError: nothing has answered in time, or with a redirect, which is not followed.
            ConfigurationError: the address is not valid.
            MissingExtraError: the extra `client`, or for Ray the extra `ray`, is not installed.
        """
        from reenact.client.runtime import RemoteRuntime  # noqa: PLC0415 - when it is needed

        return RemoteRuntime.connect(
            url, token=token, client_id=client_id, timeout=timeout, heartbeat=heartbeat, reconnect=reconnect
        )

    @classmethod
    def _put_together(
        cls,
        location: LogLocation,
        settings: Settings,
        *,
        default_image: Image | None,
        synchronous: Synchronous,
        retention: Retention | None,
        projections: Sequence[Projection],
    ) -> Self:
        policy = retention_of(retention)
        _check_clock(settings.clock)
        check_place(location.url)
        with ExitStack() as undo, ExitStack() as opening:
            node, locks = _joined(location, is_shared=cls._is_shared)
            if locks is not None:  # opening waits for other processes that are opening the log
                undo.callback(locks.close)
                opening.enter_context(locks.opening())

            def publish(publications: Iterable[Publication]) -> None:
                feed.publish(publications)

            journal = location.open(
                codec(),
                listener=publish,
                synchronous=synchronous,
                closed=True,
                locks=locks,
                fence=None if node is None else node.region,
            )
            undo.callback(journal.close)
            journal.check_finished()
            feed = Feed(journal, new_id=settings.new_id, now=settings.clock)
            undo.callback(feed.close)
            if node is not None:
                node.follow(journal, feed)
                undo.callback(node.close)
            is_leader = None if node is None else node.region.is_leader
            kept = open_read_model(location.url, journal, is_leader, journal.codec.vault)
            model, runner = kept.model, kept.runner
            undo.callback(model.close)
            undo.callback(runner.close)
            undo.callback(kept.close)
            journal.watch(runner.notify)
            views = Projections.open_beside(location.projections, journal, projections, (kept,), is_leader=is_leader)
            undo.callback(views.close)

            def end() -> None:
                model.close()
                if locks is not None:
                    locks.close()
                location.let_go()

            runtime = cls(
                settings=settings,
                journal=journal,
                locks=locks if node is None else None,
                node=node,
                model=model,
                follower=_Follower(runner, views),
                feed=feed,
                retention=policy,
                let_go=end,
            )
            runtime.projections = views
            runtime.open_log = OpenLog(location, journal, is_leader, views.on_close)
            runtime._at_exit.name = f"the runtime on {location.name}"
            undo.pop_all()
        try:
            if isinstance(default_image, Image) and default_image.id is not None:  # turns that go on need its functions
                registry = runtime._ports.registry
                registry.add(default_image.id, registry.with_specs(default_image))
            runtime.recover()
            if default_image is not None:
                runtime.default_image = runtime.images.register(default_image).id
        except BaseException:
            runtime.close()
            raise
        return runtime


class SharedRuntime(Runtime):
    """A runtime that shares its log with other processes, if they are of this kind, too.

    A session is open in one of them at a time: from the first command sent to it until its agent has stopped, or the
    process has ended. The others raise `SessionLockedError`. Subscribers receive only the events of their own process.
    """

    _is_shared = True

    def is_open_elsewhere(self, session_id: str) -> bool:
        """Return whether another process has the session open."""
        locks = self._ports.locks
        return locks is not None and locks.owner_of(SessionActor.stream(session_id)) is not None


class _Follower:
    """The runtime's own tables, as the runtime waits for them; closing it closes the user's tables, too."""

    def __init__(self, runner: Runner, views: Projections) -> None:
        self._runner = runner
        self._views = views
        self.wait_for = runner.wait_for

    @property
    def lag(self) -> int:
        return self._runner.lag

    def close(self) -> None:
        self._views.close()


def _check_clock(clock: object) -> None:
    if not callable(clock):
        raise ConfigurationError(f"clock must be a function that returns the time, not {clock!r:.100}")
    now: object = clock()
    if type(now) is not int:
        raise ConfigurationError(
            f"the clock returned {now!r}; it tells the time as an int, microseconds since 1970-01-01 UTC"
        )
    try:
        instant(now)
    except OverflowError:  # a log with such times could not be read
        raise ConfigurationError(
            f"the clock returned {now}, which is after the year 9999 or before the year 1; it tells the time in "
            "microseconds since 1970-01-01 UTC, such as time.time_ns() // 1000"
        ) from None


def _joined(location: LogLocation, *, is_shared: bool) -> tuple[Node | None, StreamLocks | None]:
    """Return the node to run as, and the locks of a log with several writers; None for what does not apply."""
    if is_shared:
        return None, location.lock_streams()
    return location.node() or (None, None)


def codec(vault: Vault | None = None) -> EventCodec:
    """Return the codec for the events of Reenact's own log; the vault, if any, holds its keys."""
    made = EventCodec([StoredForm(name, kind) for name, kind in STORED.items()], derived)
    made.vault = vault
    return made


def _check_model(environment: object, llm: object, provider: object) -> None:
    """Reject at once an environment or provider that cannot work, rather than at an agent's first message."""
    if environment is not None and provider is not None:
        raise ConfigurationError("give environment or llm_provider, not both")
    if llm is not None and not isinstance(llm, LLMConfig):
        raise _mistaken("llm", "an LLMConfig(api_key=…)", llm)
    if environment is not None and not _has(environment, "create"):
        meant = "; it is a provider: give it as llm_provider" if _has(environment, "provide") else ""
        raise _mistaken("environment", "an object with `create`, such as MockEnvironmentFactory()", environment, meant)
    if provider is not None and not _has(provider, "provide"):
        meant = "; it is a factory: give it as environment" if _has(provider, "create") else ""
        raise _mistaken("llm_provider", "an object with `provide`, such as OpenAIProvider(model=…)", provider, meant)


def _has(given: object, method: str) -> bool:
    return not isinstance(given, type) and callable(getattr(given, method, None))


def _mistaken(name: str, what: str, given: object, meant: str = "") -> ConfigurationError:
    if isinstance(given, type):
        return ConfigurationError(f"{name} must be an instance; write {given.__name__}()")
    return ConfigurationError(f"{name} must be {what}, not {type(given).__name__}{meant}")


def _config(llm: LLMConfig | None, provider: LLMProvider | None) -> LLMConfig | None:
    return provider.llm if llm is None and isinstance(provider, ConfiguredProvider) else llm


def _factory(llm: LLMConfig | None, provider: LLMProvider | None) -> EnvironmentFactory | None:
    if provider is not None:
        from reenact.actors.environment.model import ProviderEnvironmentFactory  # noqa: PLC0415 - when it is needed

        return ProviderEnvironmentFactory(provider)
    if llm is not None and llm.api_key:
        from reenact.actors.environment.claude.environment import ClaudeEnvironmentFactory  # noqa: PLC0415 - when it is needed

        return ClaudeEnvironmentFactory(llm)
    return None


resolve_types()
