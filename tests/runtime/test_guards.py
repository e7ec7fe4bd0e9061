"""Guards around sessions: what is let pass, what is refused, and what ends while they are asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import pytest

from reenact import (
    Answer,
    AsyncRuntime,
    CallNotPendingError,
    GuardInput,
    Guards,
    Image,
    MessageRefusedError,
    Policies,
    Policy,
    ReenactError,
    Runtime,
    RuntimeClosedError,
    ToolResultBlock,
    agent_tool,
    guard,
)
from reenact.audit import verify_log
from reenact.domain.guards import GuardChecked
from reenact.domain.loop.events import ToolStarted
from reenact.domain.messages import instant
from reenact.domain.session.agent import AnswerRecorded, MessageAccepted, TurnCompleted
from reenact.events import Envelope
from reenact.server import Server
from reenact.testing import ManualClock, MockEnvironmentFactory, MockEvent, wait_until
from tests.logs import copy_log
from tests.runtime.conftest import Open
from tests.runtime.gated import BLANK, BREAKING_OFF, STOP, text
from tests.runtime.guarding import Doorkeeper
from tests.runtime.test_tools import asks, get_weather
from tests.runtime.witness import PATIENCE, Ears, at_every_commit, check, journal_of

R = TypeVar("R")
Ask: TypeAlias = Callable[..., "Future[Answer]"]
ANSWER = [text("All "), text("is well"), MockEvent("message_delta", data={"usage": {"output_tokens": 4}}), STOP]
TOLD = {"message_start", "text_delta", "message_delta", "message_stop", "tool_call"}


@pytest.fixture
def keeper() -> Doorkeeper:
    return Doorkeeper()


@pytest.fixture
def factory() -> MockEnvironmentFactory:
    mock = MockEnvironmentFactory(
        scenarios={
            "well": ANSWER,
            "weather": asks(("c1", "get_weather", {"city": "Rome"})),
            BLANK.name: BLANK,
            BREAKING_OFF.name: BREAKING_OFF,
        },
        delays=False,
    )
    mock.set_scenario("well")
    return mock


@pytest.fixture
def apart(keeper: Doorkeeper) -> Iterator[Callable[[Callable[[], R]], Future[R]]]:
    """Runs something on a thread of its own, which has an end, since the keeper lets everything pass at last."""
    with ThreadPoolExecutor() as threads:
        yield threads.submit
        keeper.say()


def on(runtime: Runtime, guards: Guards, **settings: Any) -> str:  # noqa: ANN401 - what an image has
    """Return the agent of a session on an image with these guards."""
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i", guards=guards, tools=(get_weather,), **settings))
    runtime.sessions.create("c", "i", session_id="s")
    return runtime.sessions.run("s")


def events_of(runtime: Runtime, kind: type[R]) -> list[R]:
    found = [recorded.event for recorded in journal_of(runtime).read("session/s")]
    return [event for event in found if isinstance(event, kind)]


def verdicts(runtime: Runtime) -> list[tuple[str, str, str]]:
    return [(one.point, one.name, one.verdict) for one in events_of(runtime, GuardChecked)]


def told(runtime: Runtime) -> list[str]:
    """Return what was told of answers, in order, and of the verdicts."""
    wanted = {*TOLD, "guard_checked", "assistant_message", "turn_completed"}
    rows = journal_of(runtime).read_feed("session/s", limit=1000)
    return [one.type for row in rows for part in row.segments for one in part.entries if one.type in wanted]


MESSAGE, CALL, KEPT = Guards(message=("keeper",)), Guards(call=("keeper",)), Guards(answer=("keeper",))
HELD = Guards(answer=("keeper",), hold=True)


# A message.


@pytest.mark.parametrize("is_remote", [False, True], ids=["here", "over the wire"])
def test_a_message_that_is_refused_raises_and_nothing_else_happens(
    opened: Open,
    factory: MockEnvironmentFactory,
    is_remote: bool,  # noqa: FBT001 - a value
) -> None:
    def short(about: GuardInput) -> str | None:
        return "it is too long" if len(about.text) > 5 else None

    runtime = opened(environment=factory, guards=[short])
    agent = on(runtime, Guards(message=("short",)))
    before = runtime.agents.get(agent)

    def refused(asked: Any) -> MessageRefusedError:  # noqa: ANN401 - a runtime, or one that is connected
        with pytest.raises(MessageRefusedError, match="guard 'short' refuses the message: it is too long") as raised:
            asked.ask("Good morning", session="s")
        return raised.value

    if is_remote:
        with Server(runtime) as server, Runtime.connect(server.url) as remote:
            error = refused(remote)
    else:
        error = refused(runtime)

    assert (error.guard, error.reason) == ("short", "it is too long")
    assert runtime.agents.get(agent) == before
    assert (runtime.sessions.messages("s"), runtime.sessions.turns("s")) == ([], [])
    assert verdicts(runtime) == [("message", "short", "refused")]
    assert b"Good morning" not in b"".join(row.cause or b"" for row in journal_of(runtime).read("session/s"))
    assert runtime.ask("Hello", session="s").text == "All is well"
    check(runtime)


@pytest.mark.parametrize("is_remote", [False, True], ids=["here", "over the wire"])
def test_the_events_of_a_turn_begin_with_what_guards_say_of_its_message(
    opened: Open,
    factory: MockEnvironmentFactory,
    is_remote: bool,  # noqa: FBT001 - a value
) -> None:
    def harmless(_: GuardInput) -> None:
        pass

    runtime = opened(environment=factory, guards=[harmless])
    on(runtime, Guards(message=("harmless",)))
    with Server(runtime) as server, Runtime.connect(server.url) as remote:
        heard: list[Envelope] = []
        answer = (remote if is_remote else runtime).ask("Hello", session="s", on_event=heard.append)

    assert [event.type for event in heard[:2]] == ["guard_checked", "user_message"]
    location = runtime.turns.locate(answer.turn_id)
    assert location is not None
    assert location.cursor == heard[0].cursor


def test_a_request_whose_message_is_refused_is_asked_about_again(opened: Open, factory: MockEnvironmentFactory) -> None:
    reasons = ["too early", None]
    runtime = opened(environment=factory, guards=[guard(lambda _: reasons.pop(0), name="clock")])
    agent = on(runtime, Guards(message=("clock",)))
    ears = Ears(runtime)
    request = {"agent_id": agent, "content": "Hello", "request_id": "r1"}

    with pytest.raises(MessageRefusedError):
        runtime.request("message_send_request", request)
    sent = runtime.request("message_send_request", request)
    again = runtime.request("message_send_request", request)

    assert sent.data["result"] == again.data["result"]
    assert [one.data["error"] is not None for one in ears.wait("message_send_response", count=3)] == [
        True,
        False,
        False,
    ]
    assert verdicts(runtime) == [("message", "clock", "refused"), ("message", "clock", "passed")]


def test_a_loop_goes_on_while_a_guard_is_asked(log: str, factory: MockEnvironmentFactory, keeper: Doorkeeper) -> None:
    async def main() -> tuple[str, list[str]]:
        async with AsyncRuntime.open(log, environment=factory, guards=[keeper], synchronous="OFF") as runtime:
            await runtime.images.register(Image(id="i", guards=MESSAGE))
            first = asyncio.create_task(runtime.ask("Hello", image="i"))
            await asyncio.to_thread(keeper.wait, "message")
            keeper.say()
            answer = await first
            agent = await runtime.sessions.run(answer.session_id)
            second = asyncio.create_task(runtime.agents.receive(agent, "Again"))
            await asyncio.to_thread(keeper.wait, "message")
            keeper.say("not twice")
            with pytest.raises(MessageRefusedError):
                await second
            return answer.text, [one.text for one in await runtime.sessions.messages(answer.session_id)]

    assert asyncio.run(main()) == ("All is well", ["Hello", "All is well"])


def destroy(runtime: Runtime, agent: str) -> None:
    runtime.agents.destroy(agent)


def delete(runtime: Runtime, _: str) -> None:
    runtime.sessions.delete("s")


@pytest.mark.parametrize("end", [destroy, delete])
def test_a_message_is_for_nobody_when_the_agent_ends_while_guards_are_asked(
    opened: Open,
    factory: MockEnvironmentFactory,
    keeper: Doorkeeper,
    apart: Callable[..., Future[str]],
    end: Callable[[Runtime, str], None],
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, MESSAGE)
    asked = apart(lambda: runtime.agents.receive(agent, "Hello"))
    keeper.wait("message")

    end(runtime, agent)
    keeper.say()

    with pytest.raises(ReenactError) as raised:
        asked.result(PATIENCE)
    assert raised.value.code == "agent_not_found"
    assert events_of(runtime, MessageAccepted) == []
    check(runtime)


def test_who_waits_for_a_guard_is_told_when_the_runtime_closes(
    opened: Open, factory: MockEnvironmentFactory, keeper: Doorkeeper, apart: Callable[..., Future[str]]
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, MESSAGE)
    asked = apart(lambda: runtime.agents.receive(agent, "Hello"))
    keeper.wait("message")

    runtime.close()

    with pytest.raises(RuntimeClosedError):
        asked.result(PATIENCE)


def test_a_guard_that_hangs_refuses_in_time_and_holds_up_nobody_else(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    free = threading.Event()

    @guard(timeout=0.05)
    def hangs(about: GuardInput) -> None:
        if about.text == "Hang":
            free.wait(PATIENCE)

    runtime = opened(environment=factory, guards=[hangs])
    on(runtime, Guards(message=("hangs",)))
    try:
        with pytest.raises(MessageRefusedError, match=r"it has not answered within 0\.05 s"):
            runtime.ask("Hang", session="s")
        assert runtime.ask("Hello", session="s").text == "All is well"
    finally:
        free.set()
    check(runtime)


def test_a_guard_that_an_image_names_and_nobody_has_given_refuses(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    runtime = opened(environment=factory)
    on(runtime, MESSAGE)

    with pytest.raises(MessageRefusedError, match="there is no guard of this name here"):
        runtime.ask("Hello", session="s")


def test_a_branch_begins_with_no_message_that_the_guards_of_its_image_refuse(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    def calm(about: GuardInput) -> str | None:
        return "do not shout" if about.text.isupper() else None

    runtime = opened(environment=factory, guards=[calm])
    on(runtime, Guards(call=("calm",)))
    runtime.ask("HELLO", session="s")
    runtime.images.register(Image(id="strict", guards={"message": ["calm"]}))

    with pytest.raises(MessageRefusedError, match="do not shout"):
        runtime.sessions.branch("s", edit="AGAIN", image_id="strict", new_session_id="b")
    branch = runtime.sessions.branch("s", edit="Again", image_id="strict", new_session_id="b")

    assert [one.text for one in runtime.sessions.messages(branch.id)] == ["Again"]
    assert runtime.sessions.get("b") == branch
    check(runtime)


@pytest.mark.parametrize("image_id", ["free", "strict"])
def test_a_message_is_for_the_guards_of_the_image_that_the_session_is_on_when_it_is_accepted(
    opened: Open,
    factory: MockEnvironmentFactory,
    keeper: Doorkeeper,
    apart: Callable[..., Future[str]],
    image_id: str,
) -> None:
    runtime = opened(environment=factory, guards=[keeper, guard(lambda _: "not here", name="strict")])
    agent = on(runtime, MESSAGE)
    runtime.images.register(Image(id="free"))
    runtime.images.register(Image(id="strict", guards=Guards(message=("strict",))))
    asked = apart(lambda: runtime.agents.receive(agent, "Hello"))
    keeper.wait("message")

    assert runtime.sessions.switch("s", image_id)
    keeper.say()

    if image_id == "free":
        runtime.turns.wait(asked.result(PATIENCE))
    else:
        with pytest.raises(MessageRefusedError, match="not here"):
            asked.result(PATIENCE)
    assert [one.text for one in runtime.sessions.messages("s")] == (
        ["Hello", "All is well"] if image_id == "free" else []
    )
    check(runtime)


def test_a_message_that_is_refused_after_a_hand_over_is_not_recorded_either(
    opened: Open, factory: MockEnvironmentFactory, keeper: Doorkeeper, apart: Callable[..., Future[str]]
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, MESSAGE)
    runtime.images.register(Image(id="free"))
    asked = apart(lambda: runtime.agents.receive(agent, "Good morning"))
    keeper.wait("message")

    runtime.sessions.switch("s", "free")
    keeper.say("not now")

    with pytest.raises(MessageRefusedError, match="not now"):
        asked.result(PATIENCE)
    assert b"Good morning" not in b"".join(row.cause or b"" for row in journal_of(runtime).read("session/s"))
    check(runtime)


def test_a_message_that_comes_at_a_time_is_not_asked_about_and_its_answer_is(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    clock = ManualClock()
    runtime = opened(environment=factory, guards=[guard(lambda _: "no", name="strict")], clock=clock)
    on(runtime, Guards(message=("strict",), answer=("strict",)))
    ears = Ears(runtime)
    runtime.agents.schedule("s", "Hello", at=instant(clock()))
    (fired,) = ears.wait("schedule_fired")

    assert runtime.turns.wait(str(fired.data["turn_id"])).stop_reason == "answer_refused"
    assert verdicts(runtime) == [("answer", "strict", "refused")]
    assert [one.text for one in runtime.sessions.messages("s")] == ["Hello"]
    check(runtime)


# A hand-over.


def test_a_session_that_is_handed_over_obeys_the_guards_of_the_image_that_it_is_on(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    def short(about: GuardInput) -> str | None:
        return "it is too long" if len(about.text) > 12 else None

    runtime = opened(environment=factory, guards=[short])
    on(runtime, Guards())
    runtime.images.register(Image(id="strict", guards=Guards(message=("short",), answer=("short",), hold=True)))
    told_freely = ["message_start", "text_delta", "text_delta", "message_delta", "message_stop", "assistant_message"]

    runtime.ask("Good morning, all", session="s")
    assert runtime.sessions.switch("s", "strict")
    with pytest.raises(MessageRefusedError):
        runtime.ask("Good morning, all", session="s")
    runtime.ask("Hello", session="s")
    assert runtime.sessions.switch("s", "i")
    runtime.ask("Good morning, all", session="s")

    free, held = [*told_freely, "turn_completed"], ["guard_checked", *told_freely, "turn_completed"]
    assert told(runtime) == [*free, "guard_checked", "guard_checked", *held, *free]
    assert [verdict for _, _, verdict in verdicts(runtime)] == ["refused", "passed", "passed"]
    check(runtime)


def test_the_answer_of_a_turn_is_for_the_guards_of_the_image_that_it_began_on(
    opened: Open, factory: MockEnvironmentFactory, keeper: Doorkeeper, apart: Callable[..., Future[Answer]]
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    on(runtime, HELD)
    runtime.images.register(Image(id="free"))
    asked = apart(lambda: runtime.ask("Hello", session="s"))
    keeper.wait("answer")

    assert not runtime.sessions.switch("s", "free")
    keeper.say("not so")

    assert asked.result(PATIENCE).outcome == "failed"
    assert runtime.ask("Again", session="s").text == "All is well"
    assert verdicts(runtime) == [("answer", "keeper", "refused")]
    check(runtime)


# A call.


def test_a_call_waits_for_its_guards_and_runs(
    opened: Open, factory: MockEnvironmentFactory, keeper: Doorkeeper, apart: Callable[..., Future[Answer]]
) -> None:
    factory.set_scenario("weather")
    runtime = opened(environment=factory, guards=[keeper])
    on(runtime, CALL)
    asked = apart(lambda: runtime.ask("How is it in Rome?", session="s"))

    about = keeper.wait("call")
    assert events_of(runtime, ToolStarted) == []
    keeper.say()

    assert (about.tool, about.arguments, about.call_id) == ("get_weather", {"city": "Rome"}, "c1")
    assert asked.result(PATIENCE).text.startswith("done: ")
    check(runtime)


def test_the_model_is_told_why_a_call_was_refused(opened: Open, factory: MockEnvironmentFactory) -> None:
    factory.set_scenario("weather")
    runtime = opened(environment=factory, guards=[guard(lambda _: "ask me in summer", name="season")])
    on(runtime, Guards(call=("season",)))

    answer = runtime.ask("How is it in Rome?", session="s")

    assert answer.text == "done: !get_weather was not run: guard 'season' refuses it: ask me in summer"
    (call,) = runtime.sessions.tool_calls("s")
    assert call.is_error
    check(runtime)


def test_guards_are_asked_about_a_call_as_a_person_has_changed_it(
    opened: Open, factory: MockEnvironmentFactory
) -> None:
    cities: list[object] = []

    def known(about: GuardInput) -> str | None:
        cities.append(about.arguments["city"])
        return "nobody lives there" if about.arguments["city"] == "Atlantis" else None

    factory.set_scenario("weather")
    runtime = opened(environment=factory, guards=[known])
    on(runtime, Guards(call=("known",)), policies=Policies(tools={"get_weather": Policy("always")}))
    answer = runtime.ask("How is it in Rome?", session="s")
    assert (answer.outcome, cities) == ("waiting", [])

    turn = runtime.agents.approve("c1", arguments={"city": "Atlantis"})

    assert runtime.turns.wait(turn or "").text.endswith("refuses it: nobody lives there")
    assert cities == ["Atlantis"]
    with pytest.raises(CallNotPendingError):
        runtime.agents.approve("c1")
    check(runtime)


def test_a_call_is_not_run_when_its_turn_is_interrupted_while_guards_are_asked(
    opened: Open, factory: MockEnvironmentFactory, keeper: Doorkeeper, apart: Callable[..., Future[Answer]]
) -> None:
    factory.set_scenario("weather")
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, CALL)
    asked = apart(lambda: runtime.ask("How is it in Rome?", session="s"))
    keeper.wait("call")

    runtime.agents.interrupt(agent)

    assert asked.result(PATIENCE).outcome == "interrupted"
    keeper.say()
    factory.set_scenario("well")
    assert runtime.ask("And now?", session="s").text == "All is well"
    assert (events_of(runtime, ToolStarted), verdicts(runtime)) == ([], [])
    (result,) = [b for m in runtime.sessions.messages("s") for b in m.content if isinstance(b, ToolResultBlock)]
    assert result.is_error
    check(runtime)


# An answer.


def test_nothing_of_an_answer_that_is_held_is_told_before_the_verdict_and_all_of_it_behind(
    opened: Open, factory: MockEnvironmentFactory, keeper: Doorkeeper, apart: Callable[..., Future[Answer]]
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, HELD)
    ears = Ears(runtime)
    asked = apart(lambda: runtime.ask("Hello", session="s"))

    about = keeper.wait("answer")
    assert about.text == "All is well"
    assert told(runtime) == []
    state = runtime.agents.get(agent)
    assert state is not None
    assert state.state == "thinking"
    keeper.say()

    assert asked.result(PATIENCE).text == "All is well"
    assert told(runtime) == [
        *("guard_checked", "message_start", "text_delta", "text_delta", "message_delta", "message_stop"),
        *("assistant_message", "turn_completed"),
    ]
    ears.wait("turn_completed")
    cursors = [event.cursor for event in ears.heard if event.cursor is not None]
    assert cursors == sorted(cursors)
    assert [one.data["text"] for one in ears.of("text_delta")] == ["All ", "is well"]
    check(runtime)


@pytest.mark.parametrize("guards", [KEPT, HELD], ids=["told at once", "held"])
def test_a_turn_whose_answer_is_refused_fails_and_the_conversation_goes_on_without_it(
    opened: Open, log: str, factory: MockEnvironmentFactory, guards: Guards
) -> None:
    reasons = ["that is not true", None]
    runtime = opened(environment=factory, guards=[guard(lambda _: reasons.pop(0), name="keeper")])
    on(runtime, guards)

    answer = runtime.ask("Hello", session="s")

    assert (answer.outcome, answer.stop_reason, answer.text) == ("failed", "answer_refused", "")
    assert answer.failure is not None
    assert answer.failure.message == "guard 'keeper' refuses the answer: that is not true"
    assert answer.usage == {"output_tokens": 4}
    assert ("text_delta" in told(runtime)) is not guards.hold
    assert runtime.ask("Again", session="s").text == "All is well"
    assert [one.text for one in runtime.sessions.messages("s")] == ["Hello", "Again", "All is well"]
    assert runtime.sessions.usage("s").usage == {"output_tokens": 8}
    check(runtime)
    runtime.close()
    assert not verify_log(log).findings


@pytest.mark.parametrize("guards", [KEPT, HELD], ids=["told at once", "held"])
@pytest.mark.parametrize("end", ["interrupt", "destroy", "delete", "close"])
def test_an_answer_that_no_guard_had_let_pass_when_its_turn_ended_was_cut_short(
    opened: Open,
    log: str,
    *,
    factory: MockEnvironmentFactory,
    keeper: Doorkeeper,
    apart: Callable[..., Future[Answer]],
    guards: Guards,
    end: str,
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, guards)
    turn = runtime.agents.receive(agent, "Hello")
    keeper.wait("answer")

    match end:
        case "interrupt":
            runtime.agents.interrupt(agent)
        case "destroy":
            runtime.agents.destroy(agent)
        case "delete":
            runtime.sessions.delete("s")
        case _:
            runtime.close()
            runtime = opened(environment=factory, guards=[keeper])
    keeper.say()

    completed = events_of(runtime, TurnCompleted)
    assert [(one.turn_id, one.outcome) for one in completed] == [(turn, "interrupted")]
    assert completed[0].usage == {"output_tokens": 4}
    assert [one.partial for one in events_of(runtime, AnswerRecorded)] == ([] if guards.hold else [True])
    assert verdicts(runtime) == []
    if guards.hold:
        assert TOLD.isdisjoint(told(runtime))
    check(runtime)
    runtime.close()
    assert not verify_log(log).findings


@pytest.mark.parametrize("recovery", ["close", "resume"])
@pytest.mark.parametrize("guards", [KEPT, HELD], ids=["told at once", "held"])
def test_after_a_crash_while_guards_are_asked_they_are_asked_again_or_the_answer_was_cut_short(
    opened: Open,
    log: str,
    *,
    factory: MockEnvironmentFactory,
    keeper: Doorkeeper,
    recovery: str,
    guards: Guards,
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, guards)
    turn = runtime.agents.receive(agent, "Hello")
    keeper.wait("answer")
    crashed = copy_log(log, "crashed")
    runtime.close()
    keeper.say()

    later = opened(crashed, environment=factory, guards=[guard(lambda _: None, name="keeper")], recovery=recovery)

    answer = later.turns.wait(turn)
    if recovery == "close":
        assert (answer.outcome, answer.text) == ("interrupted", "" if guards.hold else "All is well")
        assert verdicts(later) == []
    else:
        assert (answer.outcome, answer.text) == ("completed", "All is well")
        assert verdicts(later) == [("answer", "keeper", "passed")]
        assert told(later).count("message_stop") == 1
    check(later, resumed=[turn])


def test_an_answer_from_before_a_crash_is_kept_when_its_turn_is_interrupted_while_guards_are_asked_again(
    opened: Open, log: str, factory: MockEnvironmentFactory, keeper: Doorkeeper
) -> None:
    runtime = opened(environment=factory, guards=[keeper])
    agent = on(runtime, KEPT)
    turn = runtime.agents.receive(agent, "Hello")
    keeper.wait("answer")
    crashed = copy_log(log, "crashed")
    runtime.close()
    keeper.say()

    later = opened(crashed, environment=factory, guards=[keeper], recovery="resume")
    keeper.wait("answer")
    later.agents.interrupt(agent)
    keeper.say()

    answer = later.turns.wait(turn)
    assert (answer.outcome, answer.text) == ("interrupted", "All is well")
    check(later, resumed=[turn])


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_after_a_crash_between_the_verdict_and_the_answer_nothing_of_the_answer_was_told(
    opened: Open, log: str, factory: MockEnvironmentFactory, recovery: str
) -> None:
    copies: list[str] = []
    runtime = opened(environment=factory, guards=[guard(lambda _: None, name="keeper")])
    agent = on(runtime, HELD)

    def crash(_: int) -> None:
        if not copies and verdicts(runtime):
            copies.append(copy_log(log, "crashed"))

    at_every_commit(runtime, crash)
    turn = runtime.agents.receive(agent, "Hello")
    runtime.turns.wait(turn)

    later = opened(copies[0], environment=factory, guards=[guard(lambda _: None, name="keeper")], recovery=recovery)

    answer = later.turns.wait(turn)
    assert (answer.outcome, answer.text) == (
        ("interrupted", "") if recovery == "close" else ("completed", "All is well")
    )
    assert verdicts(later) == [("answer", "keeper", "passed")] * (1 if recovery == "close" else 2)
    check(later, resumed=[turn])


def test_an_answer_that_had_passed_and_was_told_before_a_crash_is_not_asked_about_again(
    opened: Open, log: str, factory: MockEnvironmentFactory, keeper: Doorkeeper
) -> None:
    factory.set_scenario("weather")
    answers = guard(lambda _: None, name="answers")
    runtime = opened(environment=factory, guards=[keeper, answers])
    agent = on(runtime, Guards(call=("keeper",), answer=("answers",), hold=True))
    turn = runtime.agents.receive(agent, "How is it in Rome?")
    keeper.wait("call")
    wait_until(lambda: "message_stop" in told(runtime), what="the answer to be told")
    crashed = copy_log(log, "crashed")
    runtime.close()
    keeper.say()

    passes = guard(lambda _: None, name="keeper")
    later = opened(crashed, environment=factory, guards=[passes, answers], tools=[get_weather], recovery="resume")

    assert later.turns.wait(turn).text.startswith("done: ")
    assert [name for _, name, _ in verdicts(later)] == ["answers", "keeper", "answers"]
    check(later, resumed=[turn])


@pytest.mark.parametrize(("scenario", "outcome"), [(BLANK.name, "completed"), (BREAKING_OFF.name, "failed")])
def test_no_guard_is_asked_about_an_answer_that_says_nothing_or_breaks_off(
    opened: Open, factory: MockEnvironmentFactory, scenario: str, outcome: str
) -> None:
    factory.set_scenario(scenario)
    runtime = opened(environment=factory, guards=[])
    on(runtime, HELD)

    answer = runtime.ask("Hello", session="s")

    assert (answer.outcome, answer.text, verdicts(runtime)) == (outcome, "", [])
    check(runtime)


@pytest.mark.parametrize("guards", [KEPT, HELD], ids=["told at once", "held"])
def test_each_attempt_at_an_answer_that_must_fit_a_schema_passes_the_guards(
    opened: Open, log: str, factory: MockEnvironmentFactory, guards: Guards
) -> None:
    attempts, asked = iter(['{"sky": 1}', '{"sky": "clear"}']), list[str]()

    def hears(about: GuardInput) -> None:
        asked.append(about.text)

    factory.define_scenario("json", lambda _: (text(next(attempts)), STOP))
    factory.set_scenario("json")
    runtime = opened(environment=factory, guards=[guard(hears, name="keeper")])
    schema = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}
    on(runtime, guards, output=schema)

    answer = runtime.ask("How is it in Rome?", session="s")

    assert (answer.output, asked) == ({"sky": "clear"}, ['{"sky": 1}', '{"sky": "clear"}'])
    runtime.close()
    assert not verify_log(log).findings


@pytest.mark.parametrize("detached", [False, True])
def test_a_call_that_is_a_child_session_begins_none_if_it_is_refused(
    opened: Open, log: str, factory: MockEnvironmentFactory, *, detached: bool
) -> None:
    def known(about: GuardInput) -> str | None:
        return "ask somebody else" if "secret" in str(about.arguments) else None

    factory.define_scenario("asks", asks(("c1", "helper", {"prompt": "the secret"})))
    factory.set_scenario("asks")
    runtime = opened(environment=factory, guards=[known])
    runtime.images.register(Image(id="helper"))
    helper = agent_tool("helper", description="Helps.", detached=detached)
    runtime.images.register(Image(id="i", tools=(helper,), guards={"call": ["known"]}))

    answer = runtime.ask("Find it out", image="i")

    assert answer.text == "done: !helper was not run: guard 'known' refuses it: ask somebody else"
    assert [one.id for one in runtime.sessions.list()] == [answer.session_id]
    runtime.close()
    assert not verify_log(log).findings


def test_a_turn_without_guards_asks_nobody_and_tells_of_nothing(opened: Open, factory: MockEnvironmentFactory) -> None:
    asked: list[GuardInput] = []
    runtime = opened(environment=factory, guards=[guard(asked.append, name="keeper")])
    on(runtime, Guards())

    runtime.ask("Hello", session="s")

    assert (asked, verdicts(runtime), "guard_checked" in told(runtime)) == ([], [], False)
