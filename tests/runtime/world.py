"""A world that a test steps: a model that answers when it is told to, and tools that come to their end when told.

The world outlives processes: it remembers what ran, and with which key, and whether the log knew of it by then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from reenact import EnvironmentConfig, Image, Runtime
from reenact.actors.environment.api import OnEvent
from reenact.actors.environment.model import ModelEnvironment
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.tool import tool
from reenact.domain.loop.asking import ask_user
from reenact.domain.loop.events import ToolApproved, ToolResult, ToolStarted
from reenact.domain.messages import Said
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session.state import Session, for_model
from reenact.testing import wait_until
from tests.domain.stream.grammar import Grammar
from tests.runtime.witness import PATIENCE, check_decisions, fold, heard_of, journal_of, live_sessions

IDEMPOTENT = {"fetch", "sweep"}
ASKED = {"risky", "once"}
DENIED = "forbidden"
UNKNOWN = "nowhere"
POLICIES = Policies(tools={"risky": Policy("required"), "once": Policy("first")}, deny=(DENIED,))


class ToolError(Exception):
    """What a tool may raise."""


class Ran(msgspec.Struct, frozen=True):
    """One run of a tool: of which call, with what, and how many starts of it the log held when it began."""

    session_id: str
    call_id: str
    name: str
    n: int
    key: str
    starts: int


class Running:
    """A run that has not come to its end. `finish` ends it; what is cancelled has ended."""

    def __init__(self, ran: Ran, *, is_async: bool) -> None:
        self.ran = ran
        self.is_async = is_async
        self._told = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: asyncio.Future[None] | None = None
        self._outcome: object = None

    def finish(self, outcome: object) -> None:
        """Let the tool return this, or raise it if it is an exception."""
        self._outcome = outcome
        self._told.set()
        if self._loop is not None and self._done is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, self._done)

    def wait(self) -> object:
        """Return the outcome when it is known."""
        self._told.wait()
        return self._result()

    async def come(self) -> object:
        """Do the same for a coroutine."""
        self._loop = asyncio.get_running_loop()
        self._done = self._loop.create_future()
        if not self._told.is_set():
            await self._done
        return self._result()

    def _result(self) -> object:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    @staticmethod
    def _settle(done: asyncio.Future[None]) -> None:
        if not done.done():
            done.set_result(None)


class Question:
    """What a model has been asked and has not answered to the end."""

    def __init__(self, messages: Sequence[Said], on_event: OnEvent, answered: Callable[[], None]) -> None:
        self.messages = messages
        self._on_event = on_event
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def say(self, *events: tuple[str, Mapping[str, Any]], ends: bool = True, error: Exception | None = None) -> None:
        """Report the events; then return, or raise the error, unless the answer goes on."""

        def say() -> None:
            for type_, data in events:
                self._on_event({"type": type_, "data": dict(data)})
            if error is not None and not self.ended.done():
                self.ended.set_exception(error)
            elif ends and not self.ended.done():
                self.ended.set_result(None)

        if ends:
            self._answered()
        self._loop.call_soon_threadsafe(say)


class World:
    """Makes environments whose models and tools wait for the test."""

    def __init__(self) -> None:
        self.questions: dict[str, Question] = {}
        self.running: list[Running] = []
        self.runs: list[Ran] = []
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._starts_of: Callable[[str, str], int] = lambda _session, _call: 0

    def serve(self, runtime: Runtime) -> None:
        """Look up in this runtime's log what a tool that begins to run should find there."""
        journal = journal_of(runtime)

        def starts_of(session_id: str, call_id: str) -> int:
            history = journal.read(f"session/{session_id}")
            return sum(isinstance(one.event, ToolStarted) and one.event.id == call_id for one in history)

        self._starts_of = starts_of

    def image(self) -> Image:
        """Return an agent that has all tools, functions included."""
        return Image(id="i", tools=(*self.tools(), ask_user), policies=POLICIES, max_steps=8)

    def tools(self) -> tuple[Any, ...]:
        """Return the functions, idempotent or not, that block a thread or that await."""

        async def fetch(n: int, context: ToolContext) -> object:
            return await self._awaits("fetch", n, context)

        async def pay(n: int, context: ToolContext) -> object:
            return await self._awaits("pay", n, context)

        async def risky(n: int, context: ToolContext) -> object:
            return await self._awaits("risky", n, context)

        async def once(n: int, context: ToolContext) -> object:
            return await self._awaits("once", n, context)

        async def forbidden(n: int, context: ToolContext) -> object:
            return await self._awaits(DENIED, n, context)

        def sweep(n: int, context: ToolContext) -> object:
            return self._begun("sweep", n, context, is_async=False).wait()

        def grind(n: int, context: ToolContext) -> object:
            return self._begun("grind", n, context, is_async=False).wait()

        functions = (fetch, pay, risky, once, forbidden, sweep, grind)
        return tuple(tool(one, idempotent=one.__name__ in IDEMPOTENT) for one in functions)

    def create(self, config: EnvironmentConfig) -> ModelEnvironment:
        """Return an environment around the world's model."""
        return ModelEnvironment("stepped", config, lambda: _Model(self, config.session_id))

    async def ask(self, session_id: str, messages: Sequence[Said], on_event: OnEvent) -> None:
        """Ask the test, and return when it has answered to the end."""

        def answered() -> None:
            with self._lock:
                if self.questions.get(session_id) is question:
                    del self.questions[session_id]

        question = Question(messages, on_event, answered)
        with self._lock:
            if session_id in self.questions:
                self.wrong.append(f"the model of {session_id} was asked while it answered")
            self.questions[session_id] = question
        try:
            await question.ended
        finally:
            answered()

    def runs_of(self, session_id: str) -> list[Running]:
        """Return what runs for the session."""
        with self._lock:
            return [one for one in self.running if one.ran.session_id == session_id]

    def release(self) -> None:
        """Let everything end that a process which is no more has left behind."""
        with self._lock:
            left, self.running = self.running, []
            self.questions.clear()
        for one in left:
            one.finish("too late")

    async def _awaits(self, name: str, n: int, context: ToolContext) -> object:
        running = self._begun(name, n, context, is_async=True)
        try:
            return await running.come()
        finally:
            with self._lock:
                if running in self.running:
                    self.running.remove(running)

    def _begun(self, name: str, n: int, context: ToolContext, *, is_async: bool) -> Running:
        starts = self._starts_of(context.session_id, context.call_id)
        ran = Ran(context.session_id, context.call_id, name, n, context.idempotency_key, starts)
        running = Running(ran, is_async=is_async)
        with self._lock:
            self.runs.append(ran)
            self.running.append(running)
            if not starts:
                self.wrong.append(f"{ran} began before its intent was durable")
        return running

    def finish(self, running: Running, outcome: object) -> None:
        """Let a run come to its end."""
        with self._lock:
            self.running.remove(running)
        running.finish(outcome)


class _Model:
    """Answers what the test has it answer."""

    def __init__(self, world: World, session_id: str) -> None:
        self._world = world
        self._session_id = session_id

    async def send_message(
        self,
        *,
        messages: Sequence[Said],
        system: str | None,
        model: str | None,
        max_tokens: int | None,
        tools: Sequence[Mapping[str, Any]],
        on_event: OnEvent,
    ) -> None:
        await self._world.ask(self._session_id, messages, on_event)

    def interrupt(self) -> None:
        """The cancellation of `send_message` ends the answer."""


# What must be so whenever nothing moves.


def settle(runtime: Runtime, world: World, *, but: str = "nothing moves") -> None:
    """Wait until the runtime waits for the model, for tools and for people, and for nothing else."""

    def quiet() -> bool:
        return all(_is_quiet(state, world) for state, _ in live_sessions(runtime).values())

    try:
        wait_until(quiet, PATIENCE, but)
    except AssertionError:
        told = {
            id_: (state.turn, state.round, state.queue, _expected(state))
            for id_, (state, _) in live_sessions(runtime).items()
        }
        raise AssertionError(
            f"{told}; asked: {[*world.questions]}; running: {[r.ran for r in world.running]}"
        ) from None


def _expected(state: Session) -> tuple[bool, set[str]]:
    """Return whether the model should be answering, and which calls should be running."""
    calls = {call.id for call in state.round.at("running")} if state.round is not None else set[str]()
    return state.turn is not None and state.round is None, calls


def _is_quiet(state: Session, world: World) -> bool:
    session_id = state.id or ""
    question = world.questions.get(session_id)
    asked, calls = _expected(state)
    if asked != (question is not None):
        return False
    if question is not None and list(question.messages) != list(for_model(state)):
        return False
    if state.agent is not None and state.turn is None and state.round is None and state.queue:
        return False
    if state.round is not None and (state.round.at("ready") or state.round.is_answered):
        return False
    runs = world.runs_of(session_id)
    lost = {one.ran.call_id for one in runs if one.is_async} - calls
    return not lost and calls <= {one.ran.call_id for one in runs}


def check_log(runtime: Runtime, *, resumed: Iterable[str] = ()) -> None:
    """Hold what the live actors believe against the log, and read what was heard by its grammar."""
    journal = journal_of(runtime)
    resumed = tuple(resumed)
    for session_id, (state, version) in live_sessions(runtime).items():
        assert state == fold(journal, session_id, until=version), session_id
        grammar = Grammar(resumed=resumed).read(heard_of(journal, session_id))
        assert (grammar.current.id if grammar.current else None) == (state.turn.id if state.turn else None)
        assert grammar.waiting == [queued.turn_id for queued in state.queue]
    check_decisions(journal)


def check_runs(runtime: Runtime, world: World) -> None:
    """Hold what ran against what the log says: nothing without its intent, nothing denied, nothing twice."""
    assert world.wrong == []
    journal = journal_of(runtime)
    by_session: dict[str, list[Ran]] = {}
    for ran in world.runs:
        by_session.setdefault(ran.session_id, []).append(ran)
    for session_id, runs in by_session.items():
        events = [one.event for one in journal.read(f"session/{session_id}")]
        starts = [event for event in events if isinstance(event, ToolStarted)]
        approved = {event.id for event in events if isinstance(event, ToolApproved)}
        results = [event.id for event in events if isinstance(event, ToolResult)]
        assert len(results) == len(set(results))
        for call_id in {ran.call_id for ran in runs}:
            of_call = [ran for ran in runs if ran.call_id == call_id]
            (name,) = {ran.name for ran in of_call}
            attempts = [start.attempt for start in starts if start.id == call_id]
            assert attempts == [*range(1, len(attempts) + 1)]
            assert len(of_call) <= len(attempts), of_call
            assert len({ran.key for ran in of_call}) == 1, of_call
            assert name in IDEMPOTENT or len(of_call) == 1, of_call
            assert name != DENIED, of_call
            assert name != "risky" or call_id in approved, of_call
