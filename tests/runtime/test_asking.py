"""`ask` returns the answer of its own turn, here and afar, awaited or not, whatever else happens meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact import (
    AgentNotFoundError,
    AgentStoppedError,
    Answer,
    AsyncRuntime,
    ContainerNotFoundError,
    Image,
    ImageBlock,
    ImageInfo,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    Policies,
    Policy,
    ReenactError,
    Runtime,
    RuntimeClosedError,
    SessionNotFoundError,
    StopDetails,
    TurnNotFoundError,
    TurnTimeoutError,
    tool,
)
from reenact._aio import Threads
from reenact.actors.environment.mock import MockEvent
from reenact.client.runtime import RemoteRuntime
from reenact.domain.messages import Said, TextBlock, ToolResultBlock
from reenact.events import Envelope
from reenact.server import Server
from reenact.testing import MockScenario, wait_until
from tests.examples import takes_long
from tests.logs import copy_log
from tests.runtime.conftest import Open, furnish
from tests.runtime.gated import HOLD, STOP, GatedFactory, text
from tests.runtime.witness import PATIENCE

AnyRuntime: TypeAlias = Runtime | RemoteRuntime
EACH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=10)
WRONG: Any = 7


@tool
def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


def echo(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Say what was asked, in pieces; behind the gate if the question says so."""
    question = conversation[-1].text
    yield text("<")
    if question.startswith("hold"):
        yield HOLD
    yield from map(text, question)
    yield text(">")
    yield STOP


def calling(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Ask for two calls of a tool, and end when they are answered."""
    if any(isinstance(block, ToolResultBlock) for block in conversation[-1].content):
        yield text("Done.")
        yield STOP
        return
    yield text("May I?")
    for to in ("ann", "bob"):
        yield MockEvent("tool_call", data={"id": to, "name": "send", "input": {"to": to}})
    yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


@pytest.fixture
def mock() -> GatedFactory:
    mock = GatedFactory()
    mock.scenarios.define_scenario("echo", echo)
    mock.scenarios.define_scenario("calling", calling)
    mock.set_scenario("echo")
    return mock


@pytest.fixture(params=["here", "afar"])
def asker(request: pytest.FixtureRequest, runtime: Runtime) -> Iterator[AnyRuntime]:
    """A runtime in this process, or one that is connected to it; with the sessions `a` and `b`."""
    for session_id in "ab":
        runtime.sessions.create("c", "i", session_id=session_id)
    if request.param == "here":
        yield runtime
    else:
        with Server(runtime) as server, Runtime.connect(server.url) as remote:
            yield remote


def in_background(call: Callable[[], Answer]) -> Future[Answer]:
    """Have a thread call it."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            future.set_exception(error)

    threading.Thread(target=run).start()
    return future


def queued(runtime: Runtime, session_id: str, count: int) -> None:
    """Return once so many messages of the session have been accepted, and the first asker follows it."""
    wait_until(lambda: len(runtime.sessions.turns(session_id)) == count and bool(runtime.feed.topics))


asks = st.lists(st.tuples(st.sampled_from("ab"), st.text("xyz", min_size=1, max_size=5)), min_size=1, max_size=12)


@EACH
@given(asks=asks, interrupted=st.booleans())
def test_each_has_the_whole_answer_to_its_own_question(
    asker: AnyRuntime,
    asks: list[tuple[str, str]],
    interrupted: bool,  # noqa: FBT001 - an example's
) -> None:
    with ThreadPoolExecutor(len(asks) + 1) as threads:
        answers = [threads.submit(asker.ask, question, session=session) for session, question in asks]
        if interrupted:
            for agent in asker.agents.list():
                asker.agents.interrupt(agent.id)

    for (session, question), future in zip(asks, answers, strict=True):
        answer = future.result()
        assert answer.session_id == session
        if not interrupted:
            assert answer.outcome == "completed"
        if answer.outcome == "completed":
            assert answer.text == f"<{question}>"
            assert answer.message is not None
            assert answer.message.turn_id == answer.turn_id
        else:
            assert f"<{question}>".startswith(answer.text)
        assert asker.turns.wait(answer.turn_id) == answer


@pytest.mark.parametrize(("stops", "answers"), [(2, 1), (3, 0)])
def test_the_next_agent_is_asked_if_one_stops_before_it_has_the_message(
    asker: AnyRuntime, monkeypatch: pytest.MonkeyPatch, stops: int, answers: int
) -> None:
    run, to_stop = asker.sessions.run, [*range(stops)]

    def run_and_stop(session_id: str) -> str:
        agent_id = run(session_id)
        if to_stop:
            to_stop.pop()
            asker.agents.destroy(agent_id)
        return agent_id

    monkeypatch.setattr(asker.sessions, "run", run_and_stop)

    with nullcontext() if answers else pytest.raises(AgentNotFoundError):
        asker.ask("x", session="a")

    assert len(asker.sessions.turns("a")) == answers


def test_live_agents_are_asked_on_the_loop_and_no_thread_is_needed(
    runtime: Runtime, mock: GatedFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [f"s{number}" for number in range(100)]
    agents = {id_: runtime.sessions.run(runtime.sessions.create("c", "i", session_id=id_).id) for id_ in sessions}

    def none(*_: object) -> None:
        raise AssertionError("a thread was asked for")

    async def story() -> list[Answer]:
        async with _Twin(runtime) as twin:
            with monkeypatch.context() as without_threads:
                without_threads.setattr(Threads, "call", none)
                await asyncio.gather(*(twin.agents.receive(agents[id_], "first") for id_ in sessions))
                asking = [asyncio.create_task(twin.ask("hold", session=id_)) for id_ in sessions]
                await asyncio.to_thread(wait_until, lambda: mock.gate.waiting == 100)
                mock.gate.open()
                return await asyncio.gather(*asking)

    answers = asyncio.run(asyncio.wait_for(story(), PATIENCE * 2))

    assert [(answer.session_id, answer.text) for answer in answers] == [(id_, "<hold>") for id_ in sessions]


@takes_long()
@pytest.mark.parametrize("afar", [False, True])
def test_a_hundred_wait_at_once_in_two_sessions_and_cost_no_thread_each(
    runtime: Runtime,
    mock: GatedFactory,
    afar: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    for session_id in "ab":
        runtime.sessions.create("c", "i", session_id=session_id)
    questions = [f"hold {number}" if number < 2 else f"question {number}" for number in range(100)]

    def all_wait() -> bool:
        return all(len(runtime.sessions.turns(session_id)) == 50 for session_id in "ab")

    async def story(opened: AbstractAsyncContextManager[Any]) -> list[Answer]:
        async with opened as twin:

            def ask(number: int) -> asyncio.Task[Answer]:
                return asyncio.create_task(twin.ask(questions[number], session="ab"[number % 2]))

            asking = [ask(number) for number in range(2)]
            await asyncio.to_thread(wait_until, lambda: mock.gate.waiting == 2)
            asking += [ask(number) for number in range(2, 100)]
            await asyncio.to_thread(wait_until, all_wait)
            calls = [twin.sessions.get("a") for _ in range(50)]  # they find threads although a hundred wait
            assert None not in await asyncio.gather(*calls)
            assert not any(task.done() for task in asking)
            mock.gate.open()
            return await asyncio.gather(*asking)

    if afar:
        with Server(runtime) as server:
            answers = asyncio.run(asyncio.wait_for(story(AsyncRuntime.connect(server.url)), PATIENCE * 2))
    else:
        answers = asyncio.run(asyncio.wait_for(story(_Twin(runtime)), PATIENCE * 2))

    assert [answer.text for answer in answers] == [f"<{question}>" for question in questions]
    assert len({answer.turn_id for answer in answers}) == 100


class _Twin(AbstractAsyncContextManager[AsyncRuntime]):
    """The asyncio twin of a runtime that is open already, and is closed by others."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def __aenter__(self) -> AsyncRuntime:
        from reenact._aio import Threads  # noqa: PLC0415 - private

        self._threads = Threads()
        return AsyncRuntime(self._runtime, self._threads)

    async def __aexit__(self, *exc: object) -> None:
        self._threads.close()


def test_a_turn_that_waits_for_people_returns_with_what_waits(runtime: Runtime, mock: GatedFactory) -> None:
    mock.set_scenario("calling")
    runtime.images.register(Image(id="clerk", tools=(send,), policies=Policies(tools={"send": Policy("required")})))

    asked = runtime.ask("Hi", image="clerk")

    assert (asked.outcome, asked.text) == ("waiting", "May I?")
    assert [call.id for call in asked.pending] == ["ann", "bob"]
    assert runtime.sessions.list(waiting=True) == [runtime.sessions.get(asked.session_id)]
    first = runtime.agents.approve(asked.pending[0])
    second = runtime.agents.approve(asked.pending[1]) or first
    assert second is not None
    done = runtime.turns.wait(second, PATIENCE)
    assert (done.outcome, done.text, done.pending) == ("completed", "Done.", ())
    assert runtime.sessions.list(waiting=True) == []


def test_a_refusal_is_told_with_its_explanation(runtime: Runtime, mock: GatedFactory) -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "This asks for an exploit."}
    for name, data in {"told": {"stop_details": why}, "untold": {}}.items():
        stop = MockEvent("message_stop", data={"stop_reason": "refusal", **data})
        mock.scenarios.define_scenario(name, MockScenario(name, (text("I"), stop)))

    mock.set_scenario("told")
    told = runtime.ask("Hi")
    mock.set_scenario("untold")
    untold = runtime.ask("Hi")

    assert told.refusal == StopDetails(category="cyber", explanation="This asks for an exploit.")
    assert untold.refusal == StopDetails()
    assert (told.stop_reason, told.outcome) == ("refusal", "completed")


def test_one_who_loses_patience_is_told_the_turn_which_goes_on(asker: AnyRuntime, mock: GatedFactory) -> None:
    with pytest.raises(TurnTimeoutError) as late:
        asker.ask("hold on", session="a", timeout=0)

    assert isinstance(late.value, TimeoutError)
    assert isinstance(late.value, ReenactError)
    with pytest.raises(TurnTimeoutError):
        asker.turns.wait(late.value.turn_id, 0)
    waiting = in_background(lambda: asker.turns.wait(late.value.turn_id))
    while not waiting.done():
        mock.gate.open()
    assert waiting.result().text == "<hold on>"


Ends: TypeAlias = Callable[[Runtime], object]


def destroys(runtime: Runtime) -> None:
    runtime.agents.destroy(runtime.agents.list()[0].id)


def deletes(runtime: Runtime) -> None:
    runtime.sessions.delete("a")


@pytest.mark.parametrize(
    ("ends", "running", "waiting"),
    [
        (destroys, "interrupted", AgentStoppedError),
        (deletes, "interrupted", "interrupted"),
        (Runtime.close, "interrupted", (AgentStoppedError, RuntimeClosedError)),
    ],
    ids=["destroyed", "deleted", "closed"],
)
def test_what_ends_the_agent_ends_the_waiting(
    runtime: Runtime, ends: Ends, running: str, waiting: str | type[ReenactError] | tuple[type[ReenactError], ...]
) -> None:
    runtime.sessions.create("c", "i", session_id="a")
    first = in_background(lambda: runtime.ask("hold", session="a"))
    queued(runtime, "a", 1)
    second = in_background(lambda: runtime.ask("next", session="a"))
    queued(runtime, "a", 2)

    ends(runtime)

    assert first.result(PATIENCE).outcome == running
    if isinstance(waiting, str):
        assert second.result(PATIENCE).outcome == waiting
    else:
        with pytest.raises(waiting):
            second.result(PATIENCE)


def test_a_message_that_stayed_queued_is_answered_when_the_session_runs_again(
    asker: AnyRuntime, runtime: Runtime
) -> None:
    first = in_background(lambda: asker.ask("hold", session="a"))
    queued(runtime, "a", 1)
    second = in_background(lambda: asker.ask("next", session="a"))
    queued(runtime, "a", 2)
    runtime.agents.destroy(runtime.agents.list()[0].id)
    with pytest.raises(AgentStoppedError) as stopped:
        second.result(PATIENCE)

    later = in_background(lambda: asker.turns.wait(stopped.value.turn_id))
    asker.sessions.run(stopped.value.session_id)

    assert first.result(PATIENCE).outcome == "interrupted"
    assert later.result(PATIENCE).text == "<next>"


@pytest.mark.parametrize("ending", [("resume", "completed"), ("close", "interrupted")])
def test_a_turn_that_a_crash_cut_short_can_be_waited_for_afterwards(
    opened: Open, log: str, mock: GatedFactory, ending: tuple[str, str]
) -> None:
    recovery, outcome = ending
    runtime = opened()
    furnish(runtime)
    runtime.sessions.create("c", "i", session_id="a")
    with pytest.raises(TurnTimeoutError) as late:
        runtime.ask("hold", session="a", timeout=0)
    wait_until(lambda: runtime.agents.list()[0].state == "responding")
    ruins = copy_log(log, "ruins")

    again = opened(ruins, recovery=recovery)
    waiting = in_background(lambda: again.turns.wait(late.value.turn_id))
    while not waiting.done():
        mock.gate.open()

    assert waiting.result().outcome == outcome


def test_one_who_asks_from_afar_is_answered_although_the_connection_is_lost(
    runtime: Runtime, mock: GatedFactory
) -> None:
    runtime.sessions.create("c", "i", session_id="a")
    with ExitStack() as stack:
        server = stack.enter_context(Server(runtime))
        port = int(server.url.rpartition(":")[2])
        with Runtime.connect(server.url) as remote:
            answer = in_background(lambda: remote.ask("hold", session="a"))
            wait_until(lambda: any(topic.is_followed for topic in runtime.feed.topics))
            stack.close()
            while runtime.sessions.turns("a")[0].outcome is None:
                mock.gate.open()
            with Server(runtime, port=port):
                assert answer.result(PATIENCE).text == "<hold>"


def test_events_are_those_of_the_turn_and_come_on_the_asker_s_own_thread(asker: AnyRuntime, runtime: Runtime) -> None:
    asker.ask("before", session="a")
    heard: list[tuple[Envelope, threading.Thread]] = []

    answer = asker.ask("now", session="a", on_event=lambda event: heard.append((event, threading.current_thread())))

    expected = [event for event in runtime.events.stream("a").take() if event.context.turn_id == answer.turn_id]
    assert [event for event, _ in heard] == expected
    assert {thread for _, thread in heard} == {threading.current_thread()}
    assert (expected[0].type, expected[-1].type) == ("user_message", "turn_completed")


def test_a_message_may_be_text_of_a_type_that_a_template_engine_has_made(asker: AnyRuntime) -> None:
    class Markup(str):
        __slots__ = ()

        def __str__(self) -> str:
            return self

    assert asker.ask(Markup("one"), session="a").text == "<one>"
    assert [message.text for message in asker.sessions.messages("a")] == ["one", "<one>"]


def test_a_new_session_has_the_image_that_it_is_asked_with_whoever_registers_another_one_meanwhile(
    asker: AnyRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = asker.images.register

    def register_both(image: Image) -> ImageInfo:
        registered = register(image)
        register(Image(id="chat", system_prompt="You help Bob."))
        return registered

    monkeypatch.setattr(asker.images, "register", register_both)
    answer = asker.ask("Hi", image=Image(id="chat", system_prompt="You help Ann."))

    session = asker.sessions.get(answer.session_id)
    assert session is not None
    assert (session.image_id, session.image_revision) == ("chat", 1)


def test_a_session_is_created_on_the_newest_revision_or_on_one_that_is_given(asker: AnyRuntime) -> None:
    first, second = (asker.images.register(Image(id="chat", system_prompt=prompt)) for prompt in ("one", "two"))

    revisions = [asker.sessions.create("c", "chat", image_revision=given).image_revision for given in (1, 2, None)]

    assert (first.revision, second.revision, revisions) == (1, 2, [1, 2, 2])
    for unknown in (0, 3, 2**70):
        with pytest.raises(ImageNotFoundError):
            asker.sessions.create("c", "chat", image_revision=unknown)


def test_a_message_may_be_a_list_with_texts_in_it(asker: AnyRuntime) -> None:
    picture = ImageBlock.from_bytes(b"a picture", "image/png")

    asker.ask(["What is this?", picture], session="a")

    assert asker.sessions.messages("a")[0].content == (TextBlock("What is this?"), picture)


def test_what_on_event_raises_reaches_the_asker_and_not_the_turn(asker: AnyRuntime) -> None:
    turns: list[str | None] = []

    def stumble(event: Envelope) -> None:
        turns.append(event.context.turn_id)
        raise LookupError(event.type)

    with pytest.raises(LookupError, match="user_message"):
        asker.ask("hello", session="a", on_event=stumble)

    assert asker.turns.wait(turns[0] or "").text == "<hello>"


def test_a_coroutine_function_may_hear(log: str, mock: GatedFactory) -> None:
    async def story() -> tuple[list[str], Answer]:
        heard: list[str] = []

        async def hear(event: Envelope) -> None:
            await asyncio.sleep(0)
            heard.append(event.type)

        async with AsyncRuntime.open(log, environment=mock) as runtime:
            answer = await runtime.ask("Hi", on_event=hear)
            assert await runtime.turns.wait(answer.turn_id) == answer
            with pytest.raises(TurnTimeoutError):
                await runtime.ask("hold", timeout=0.01)
            with pytest.raises(TimeoutError, match="my own"):
                await runtime.ask("Hi", on_event=_raise(TimeoutError("my own")), timeout=PATIENCE)
        return heard, answer

    heard, answer = asyncio.run(story())

    assert answer.text == "<Hi>"
    assert (heard[0], heard[-1]) == ("user_message", "turn_completed")


def _raise(error: Exception) -> Callable[[Envelope], None]:
    def hear(event: Envelope) -> None:
        raise error

    return hear


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"content": " "}, InvalidMessageError),
        ({"content": WRONG}, InvalidMessageError),
        ({"timeout": float("nan")}, InvalidInputError),
        ({"timeout": "soon"}, InvalidInputError),
        ({"on_event": WRONG}, InvalidInputError),
        ({"session": "a", "image": "i"}, InvalidInputError),
        ({"session": "a", "container": "c"}, InvalidInputError),
        ({"session": "nowhere"}, SessionNotFoundError),
        ({"session": WRONG}, SessionNotFoundError),
        ({"image": "nothing"}, ImageNotFoundError),
        ({"container": "nowhere", "image": "i"}, ContainerNotFoundError),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused_before_anything_is_said(
    asker: AnyRuntime, given: dict[str, Any], error: type[ReenactError]
) -> None:
    ask: Any = asker.ask
    before = asker.sessions.list()

    with pytest.raises(error):
        ask(**{"content": "Hello", **given})

    assert asker.sessions.list() == before
    assert asker.agents.list() == []


def test_a_turn_that_never_was_cannot_be_waited_for(asker: AnyRuntime) -> None:
    for turn_id in ("trn_none", "", WRONG):
        assert asker.turns.locate(turn_id) is None
        with pytest.raises(TurnNotFoundError):
            asker.turns.wait(turn_id)


def test_who_waits_when_the_runtime_closes_is_told_so(runtime: Runtime) -> None:
    agent_id = runtime.sessions.run(runtime.sessions.create("c", "i", session_id="a").id)
    runtime.agents.receive(agent_id, "hold")
    turn_id = runtime.agents.receive(agent_id, "next")
    waiting = in_background(lambda: runtime.turns.wait(turn_id))
    wait_until(lambda: bool(runtime.feed.topics))

    runtime.close()

    with pytest.raises(RuntimeClosedError):
        waiting.result(PATIENCE)


def test_the_default_container_is_created_with_the_first_session_in_it(opened: Open, log: str) -> None:
    with opened(log) as first:
        first.images.register(Image(id="chat"))
        first.sessions.create("default", "chat")
        with pytest.raises(ContainerNotFoundError):
            first.sessions.create("another", "chat")

    again = opened(log)
    again.sessions.create("default", "chat")

    assert [container.id for container in again.containers.list()] == ["default"]
    assert len(again.sessions.list(container_id="default")) == 2


def test_a_new_session_is_in_the_default_container_on_the_image_that_is_given_or_the_runtime_s_own(
    opened: Open, log: str
) -> None:
    runtime = opened()
    plain = runtime.sessions.get(runtime.ask("Hi").session_id)
    given = runtime.sessions.get(runtime.ask("Hi", image=Image(id="other", model="m")).session_id)
    assert plain is not None
    assert given is not None
    assert (plain.container_id, plain.image_id) == ("default", "chat")
    assert (given.container_id, given.image_id) == ("default", "other")
    runtime.close()

    again = opened(log, default_image=Image(id="clerk"))
    own = again.sessions.get(again.ask("Hi").session_id)

    assert own is not None
    assert (own.container_id, own.image_id) == ("default", "clerk")


def test_sessions_are_listed_page_by_page_the_newest_first(asker: AnyRuntime) -> None:
    asker.containers.create(container_id="d")
    made = [asker.sessions.create("cd"[number % 2], "i").id for number in range(7)]
    newest = [*made[::-1], "b", "a"]

    pages, after = list[str](), None
    while page := asker.sessions.list(after=after, limit=2):
        pages += [session.id for session in page]
        after = page[-1].id

    assert pages == newest
    assert [session.id for session in asker.sessions.list(container_id="d")] == made[1::2][::-1]
    asker.sessions.delete(made[3])
    assert [session.id for session in asker.sessions.list(after=made[3], limit=1)] == [made[2]]
    with pytest.raises(ContainerNotFoundError):
        asker.sessions.list(container_id="nowhere")
    for after in ("nowhere", "\ud800"):
        with pytest.raises(SessionNotFoundError):
            asker.sessions.list(after=after)
    wrongs: list[dict[str, Any]] = [{"limit": 0}, {"limit": 1001}, {"limit": True}, {"limit": "2"}, {"waiting": "yes"}]
    for wrong in wrongs:
        with pytest.raises(InvalidInputError):
            asker.sessions.list(**wrong)


def test_a_handler_can_listen_to_one_session_alone(asker: AnyRuntime) -> None:
    heard: dict[str, list[str | None]] = {"on": [], "on_all": []}
    with (
        asker.events.on("turn_completed", lambda e: heard["on"].append(e.context.session_id), session_id="a"),
        asker.events.on_all(lambda e: heard["on_all"].append(e.context.session_id), session_id="a"),
        asker.events.on("turn_completed", lambda e: heard.setdefault("every", []).append(e.context.session_id)),
    ):
        for session in "abab":
            asker.ask("Hi", session=session)
        wait_until(lambda: len(heard.get("every", ())) == 4 and len(heard["on"]) == 2)

    assert heard["on"] == ["a", "a"]
    assert set(heard["on_all"]) == {"a"}
    for wrong in ("", WRONG, "\ud800"):
        with pytest.raises(InvalidInputError):
            asker.events.on("turn_completed", print, session_id=wrong)
