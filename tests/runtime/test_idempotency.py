"""A request that bears an id is carried out once, however often and from wherever it is sent."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pykka
import pytest

from reenact import (
    AgentNotFoundError,
    ContainerNotFoundError,
    Image,
    InvalidInputError,
    LogUnusableError,
    RequestTimeoutError,
    Runtime,
    SessionNotFoundError,
)
from reenact.actors.api.operations import RuntimeOperations
from reenact.actors.idempotency import InFlightRequest
from reenact.actors.journal.api import Remembered
from reenact.actors.kernel import PooledFuture, Reference
from reenact.domain.errors import RequestReusedError
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.operations.table import Sent
from reenact.domain.session.commands import Receive
from reenact.domain.session.state import Session
from reenact.events import REQUESTS, Envelope
from reenact.testing import wait_until
from tests.jsons import array_at, at
from tests.logs import copy_log, execute, log_at
from tests.runtime.conftest import Open, furnish
from tests.runtime.deciding import RULES, Answer, Desk, agent_of, check
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import Ears, before_it_is_told, journal_of

READS = {"get", "list", "page", "messages", "turns", "tool", "usage", "locate", "schedules"}
GETTERS = {type_ for type_ in REQUESTS if type_.split("_")[1] in READS}

SEND: list[Any] = [("t1", "send_email", {"to": "ann"})]
PROMPT: list[Any] = [("t1", "ask_user", {"prompt": "Which colour?"})]
SEARCH: list[Any] = [("t1", "search", {"q": "x"})]


class Case(NamedTuple):
    """A request, and what it takes for it to have an effect."""

    type: str
    data: dict[str, Any]
    effect: str
    """The event that it brings about, once."""

    answers: tuple[Answer, ...] = ()
    """What the model of the session `s` has answered before; None of it: the session does not run."""

    to_agent: bool = False
    """Whether the request names the session's agent."""


CASES = {
    "a container": Case("container_create_request", {"name": "home"}, "ContainerCreated"),
    "a container with an id": Case("container_create_request", {"container_id": "home"}, "ContainerCreated"),
    "an image": Case("image_register_request", {"image": {"model": "m"}}, "ImageRegistered"),
    "an image with an id": Case("image_register_request", {"image": {"id": "i", "model": "m"}}, "ImageRegistered"),
    "an image as it is": Case("image_register_request", {"image": {"id": "i"}}, "nothing"),
    "a session": Case("session_create_request", {"container_id": "c", "image_id": "i"}, "SessionCreated"),
    "a branch": Case("session_branch_request", {"session_id": "s"}, "SessionBranched"),
    "a branch with another question": Case(
        "session_branch_request", {"session_id": "s", "edit": "Now", "model": "m"}, "SessionBranched", ("Hi",)
    ),
    "a hand-over": Case("session_switch_request", {"session_id": "s", "image": "j"}, "ImageChanged"),
    "a hand-over to come": Case(
        "session_switch_request", {"session_id": "s", "image": "j"}, "HandoverRequested", (SEARCH,)
    ),
    "a hand-over to where it is": Case("session_switch_request", {"session_id": "s", "image": "i"}, "nothing"),
    "a schedule": Case(
        "agent_schedule_request", {"session_id": "s", "content": "Hello", "every": 3600}, "MessageScheduled"
    ),
    "the end of a schedule": Case("agent_cancel_schedule_request", {"schedule_id": ""}, "ScheduleCancelled"),
    "the end of a session": Case("session_delete_request", {"session_id": "s"}, "SessionDeleted"),
    "a run": Case("session_run_request", {"session_id": "s"}, "AgentStarted"),
    "a run of what runs": Case("session_run_request", {"session_id": "s"}, "nothing", ("Hi",)),
    "an interrupt": Case("agent_interrupt_request", {}, "TurnInterrupted", (SEARCH,), to_agent=True),
    "an interrupt of an idle agent": Case("agent_interrupt_request", {}, "nothing", ("Hi",), to_agent=True),
    "the end of an agent": Case("agent_destroy_request", {}, "AgentStopped", ("Hi",), to_agent=True),
    "an approval": Case("agent_approve_request", {"call_id": "t1"}, "ToolApproved", (SEND,)),
    "a rejection": Case("agent_reject_request", {"call_id": "t1", "reason": "no"}, "ToolRejected", (SEND,)),
    "an answer": Case("agent_respond_request", {"call_id": "t1", "value": "red"}, "HumanResponded", (PROMPT,)),
    "a message to an agent": Case(
        "message_send_request", {"content": "Hello"}, "MessageAccepted", ("Hi",), to_agent=True
    ),
    "a message to a session": Case("message_send_request", {"content": "Hello", "session_id": "s"}, "MessageAccepted"),
    "a message to an image": Case("message_send_request", {"content": "Hello", "image_id": "i"}, "MessageAccepted"),
}


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def rules_of(_ports: object, _session: Session) -> object:
        return RULES

    monkeypatch.setattr("reenact.actors.runtime._Ports.rules", rules_of)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = CASES[request.param]
    return found


def prepared(runtime: Runtime, desk: Desk, case: Case) -> Callable[[], Envelope]:
    """Bring about what the request needs, and return what sends it."""
    furnish(runtime)
    runtime.images.register(Image(id="j"))
    runtime.sessions.create("c", "i", session_id="s")
    if "schedule_id" in case.data:  # which is known once it is there
        case.data["schedule_id"] = runtime.agents.schedule("s", "Hello", every=3600).id
    data = {**case.data, "request_id": "r"}
    if case.answers:
        runtime.sessions.run("s")
        desk.ask(*case.answers)
        desk.holding.add("search")
        runtime.agents.receive(agent_of(runtime), "Please")
        rest(runtime)
    if case.to_agent:
        data["agent_id"] = agent_of(runtime)
    return lambda: runtime.request(case.type, data)


def rest(runtime: Runtime) -> None:
    """Wait until no agent does anything by itself any more; a search never ends."""

    def rests() -> bool:
        return all(
            agent.state in {"idle", "waiting_for_human_input"}
            or [call.name for call in runtime.sessions.tool_calls(agent.session_id)] == ["search"]
            for agent in runtime.agents.list()
        )

    wait_until(rests, what="all agents rest")


def recorded(runtime: Runtime) -> list[str]:
    """Return the kinds of all events."""
    rest(runtime)
    return [type(entry.event).__name__ for entry in journal_of(runtime).read_all(limit=1_000_000)]


def said(response: Envelope) -> tuple[object, ...]:
    """Return all of a response but when it was made."""
    return response.id, response.type, response.context, response.data


def test_each_request_is_a_reading_or_carried_out_once() -> None:
    elsewhere = {"agent_pending_request", "session_forget_request"}  # the latter in `test_forgetting`

    assert {case.type for case in CASES.values()} == set(REQUESTS) - GETTERS - elsewhere


def test_sent_twice_it_is_carried_out_once_and_answered_twice(opened: Open, case: Case) -> None:
    desk = Desk()
    runtime = opened(environment=desk)
    send = prepared(runtime, desk, case)
    before = Counter(recorded(runtime))
    first = send()
    after = recorded(runtime)

    again = send()

    assert said(again) == said(first)
    assert first.data["request_id"] == "r"
    assert recorded(runtime) == after
    assert (Counter(after) - before)[case.effect] == (case.effect != "nothing")
    check(runtime)


def test_each_time_the_request_and_its_response_are_heard(opened: Open, case: Case) -> None:
    desk = Desk()
    runtime = opened(environment=desk)
    send = prepared(runtime, desk, case)
    ears = Ears(runtime)

    responses = [send(), send(), send()]

    answered = case.type.replace("_request", "_response")
    heard = ears.wait(answered, count=3)
    assert [said(event) for event in heard] == [said(event) for event in responses]
    requests = ears.of(case.type)
    assert [said(event) for event in requests] == [said(requests[0])] * 3
    heard_in_order = [event.type for event in ears.of(case.type, answered)]
    assert heard_in_order == [case.type, answered] * 3


def test_from_many_threads_at_once_it_is_carried_out_once(opened: Open, case: Case, tmp_path: Path) -> None:
    desk = Desk()
    alone = opened(log_at(tmp_path / "alone.db"), environment=desk)
    prepared(alone, desk, case)()
    desk = Desk()
    runtime = opened(environment=desk)
    send = prepared(runtime, desk, case)
    start = threading.Barrier(8)

    def send_with_others(_: int) -> Envelope:
        start.wait(timeout=60)
        return send()

    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(send_with_others, range(8)))

    assert [said(response) for response in responses] == [said(responses[0])] * 8
    assert Counter(recorded(runtime)) == Counter(recorded(alone))
    check(runtime)


def test_an_id_is_for_one_request_only(opened: Open, case: Case) -> None:
    desk = Desk()
    runtime = opened(environment=desk)
    send = prepared(runtime, desk, case)
    first = send()
    after = recorded(runtime)
    ears = Ears(runtime)

    with pytest.raises(RequestReusedError) as refused:
        runtime.request("container_create_request", {"name": "another", "request_id": "r"})
    with pytest.raises(RequestReusedError):
        runtime.request("message_send_request", {"content": "Bye", "session_id": "s", "request_id": "r"})

    assert refused.value.request_id == "r"
    assert recorded(runtime) == after
    assert said(send()) == said(first)
    ears.wait(first.type)
    assert [event.data for event in ears.of(first.type)] == [first.data]
    assert len(ears.of("container_create_request", "message_send_request")) == case.type.startswith(
        ("container_create", "message_send")
    )


def test_a_runtime_that_is_opened_again_gives_the_same_answer(opened: Open, case: Case) -> None:
    desk = Desk()
    runtime = opened(environment=desk)
    first = prepared(runtime, desk, case)()
    rest(runtime)
    runtime.close()
    runtime = opened(environment=desk)
    after = recorded(runtime)

    again = runtime.request(case.type, {**_data(first, case), "request_id": "r"})

    assert said(again) == said(first)
    assert recorded(runtime) == after
    check(runtime)


def _data(response: Envelope, case: Case) -> dict[str, Any]:
    return {**case.data, **({"agent_id": response.context.agent_id} if case.to_agent else {})}


def test_after_a_crash_at_any_commit_it_is_carried_out_once(opened: Open, case: Case, log: str) -> None:
    desk = Desk()
    runtime = opened(environment=desk)
    send = prepared(runtime, desk, case)
    copies = [copy_log(log, "0")]
    before_it_is_told(runtime, lambda: copies.append(copy_log(log, f"{len(copies)}")))
    first = send()
    rest(runtime)
    runtime.close()

    carried_out = [check_crash(opened, copy, desk, case, first) for copy in copies]

    assert carried_out[0] is False
    assert carried_out[-1] is True
    assert carried_out == sorted(carried_out)


def check_crash(opened: Open, log: str, desk: Desk, case: Case, first: Envelope) -> bool:
    """Send the request again to what a crash has left; return whether it had been carried out."""
    with opened(log, environment=desk) as runtime:
        done = journal_of(runtime).remembered("r") is not None
        before = recorded(runtime)
        data = {**_data(first, case), "request_id": "r"}
        if not done and case == CASES["a message to an agent"]:
            with pytest.raises(AgentNotFoundError):  # it ended with the crash
                runtime.request(case.type, data)
            return False
        again = runtime.request(case.type, data)
        assert said(runtime.request(case.type, data)) == said(again)
        after = recorded(runtime)
        if done:
            assert said(again) == said(first)
            assert after == before
        elif case.effect not in {
            "nothing",
            "TurnInterrupted",
            "AgentStopped",
            "HandoverRequested",
        }:  # its agent ended with the crash
            assert Counter(after)[case.effect] == Counter(before)[case.effect] + 1
        check(runtime)
        return done


class Slow:
    """Keeps what is durable from being told of."""

    def __init__(self, runtime: Runtime) -> None:
        self.committed = threading.Event()
        self.go_on = threading.Event()
        before_it_is_told(runtime, self._wait)

    def _wait(self) -> None:
        self.committed.set()
        assert self.go_on.wait(timeout=60)


@pytest.fixture
def slow(runtime: Runtime) -> Iterator[Slow]:
    slow = Slow(runtime)
    yield slow
    slow.go_on.set()


@contextmanager
def meanwhile(call: Callable[[], Envelope]) -> Generator[Callable[[], Envelope]]:
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(call)
        yield lambda: future.result(timeout=60)


def test_a_reply_that_comes_as_the_time_ends_is_the_reply(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    get = PooledFuture[object].get

    def get_too_late(future: PooledFuture[object], *, timeout: float | None = None) -> object:
        reply = get(future)
        if timeout is not None:
            raise pykka.Timeout
        return reply

    monkeypatch.setattr(PooledFuture, "get", get_too_late)

    made = runtime.request("container_create_request", {"container_id": "new", "request_id": "r"}, timeout=60).data

    assert made.error is None
    assert runtime.containers.get("new") is not None


def test_a_request_whose_asker_has_given_up_is_waited_for(runtime: Runtime, slow: Slow) -> None:
    asked = {"name": "home", "request_id": "r"}
    with pytest.raises(RequestTimeoutError):
        runtime.request("container_create_request", asked, timeout=0.05)
    with pytest.raises(RequestTimeoutError, match="under way"):
        runtime.request("container_create_request", asked, timeout=0.05)
    with pytest.raises(RequestReusedError):
        runtime.request("container_create_request", {**asked, "name": "other"}, timeout=0.05)

    with meanwhile(lambda: runtime.request("container_create_request", asked)) as response:
        assert slow.committed.wait(timeout=60)
        slow.go_on.set()
        answered = response()

    assert [container.name for container in runtime.containers.list()] == [None, "home"]
    assert answered.data["result"] == msgspec.to_builtins(runtime.containers.list()[1])


def test_whoever_waits_for_a_request_whose_thread_has_died_carries_it_out(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, die, ask = threading.Event(), threading.Event(), InFlightRequest.ask

    def die_once(attempt: InFlightRequest, actor: Reference[Any], command: IdempotentCommand) -> object:
        if not began.is_set():
            began.set()
            assert die.wait(timeout=60)
            raise KeyboardInterrupt
        return ask(attempt, actor, command)

    monkeypatch.setattr(InFlightRequest, "ask", die_once)
    asked = {"name": "home", "request_id": "r"}
    with meanwhile(lambda: runtime.request("container_create_request", asked)) as first:
        assert began.wait(timeout=60)
        with meanwhile(lambda: runtime.request("container_create_request", asked)) as second:
            die.set()
            answered = second()
        with pytest.raises(KeyboardInterrupt):
            first()

    assert [container.id for container in runtime.containers.list()] == [
        "c",
        getattr(answered.data, "result", {})["id"],
    ]


@pytest.fixture
def overlooked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give what has the next request overlooked by who looks first, as if another process were just as quick."""

    def overlook() -> None:
        remembered, looks = RuntimeOperations.remembered, iter([True])

        def look(do: RuntimeOperations, request_id: str) -> Remembered | None:
            return None if next(looks, False) else remembered(do, request_id)

        monkeypatch.setattr(RuntimeOperations, "remembered", look)

    return overlook


ENDS = {"the end of a session", "the end of a schedule"}  # there is nothing left to end


@pytest.mark.parametrize("name", sorted(CASES.keys() - ENDS))
def test_who_comes_second_of_two_processes_gives_the_answer_of_the_first(
    opened: Open, name: str, overlooked: Callable[[], None]
) -> None:
    case = CASES[name]
    desk = Desk()
    runtime = opened(environment=desk)
    send = prepared(runtime, desk, case)
    first = send()
    after = recorded(runtime)
    overlooked()

    again = send()

    assert said(again) == said(first)
    assert recorded(runtime) == after
    check(runtime)


def test_who_comes_second_of_two_processes_with_another_request_is_refused(
    runtime: Runtime, overlooked: Callable[[], None]
) -> None:
    runtime.request("container_create_request", {"name": "home", "request_id": "r"})
    overlooked()
    ears = Ears(runtime)

    with pytest.raises(RequestReusedError):
        runtime.request("container_create_request", {"name": "other", "request_id": "r"})

    runtime.containers.create()
    ears.wait("container_created")
    assert ears.of("container_create_response") == []
    assert [container.name for container in runtime.containers.list()] == [None, "home", None]


def test_what_was_refused_is_tried_again(runtime: Runtime) -> None:
    asked = {"session_id": "s", "request_id": "r"}
    with pytest.raises(SessionNotFoundError):
        runtime.request("session_run_request", asked)
    runtime.sessions.create("c", "i", session_id="s")

    response = runtime.request("session_run_request", asked)

    assert response.data.result == agent_of(runtime)


def test_what_was_refused_may_be_replaced_by_another_request(runtime: Runtime) -> None:
    asked = {"container_id": "gone", "image_id": "i", "request_id": "r"}
    with pytest.raises(ContainerNotFoundError):
        runtime.request("session_create_request", asked)

    response = runtime.request("session_create_request", {**asked, "container_id": "c"})

    assert at(str, response.data.result, "container_id") == "c"


def test_a_reading_is_carried_out_each_time(runtime: Runtime) -> None:
    asked = {"request_id": "r"}
    first = runtime.request("container_list_request", asked)
    runtime.request("container_create_request", {"name": "home", "request_id": "r"})

    again = runtime.request("container_list_request", asked)

    assert [len(array_at(response.data.result)) for response in (first, again)] == [1, 2]


def test_what_bears_no_id_of_the_askers_is_not_remembered(runtime: Runtime) -> None:
    response = runtime.request("container_create_request", {"name": "home"})
    runtime.containers.create("another")

    assert journal_of(runtime).remembered(response.data.request_id) is None
    assert runtime.request("container_create_request", {"name": "home"}).data.result != response.data.result


def test_a_run_is_answered_with_the_agent_of_the_first_time_though_it_lives_no_more(runtime: Runtime) -> None:
    runtime.sessions.create("c", "i", session_id="s")
    asked = {"session_id": "s", "request_id": "r"}
    first = runtime.request("session_run_request", asked)
    runtime.agents.destroy(at(str, first.data.result))

    assert runtime.request("session_run_request", asked).data == first.data
    assert runtime.agents.list() == []


def test_an_image_is_answered_in_the_revision_of_the_first_time(runtime: Runtime) -> None:
    asked = {"image": {"id": "i", "system_prompt": "Be brief."}, "request_id": "r"}
    first = runtime.request("image_register_request", asked)
    runtime.images.register(Image(id="i", system_prompt="Be kind."))

    again = runtime.request("image_register_request", asked)

    assert again.data == first.data
    assert at(int, again.data.result, "revision") == 2
    assert runtime.images.get("i") != msgspec.convert(again.data.result, type(runtime.images.list()[0]))


def test_a_session_that_is_deleted_since_is_answered_as_it_was_created(runtime: Runtime) -> None:
    asked = {"container_id": "c", "image_id": "i", "request_id": "r"}
    first = runtime.request("session_create_request", asked)
    runtime.sessions.delete(at(str, first.data.result, "id"))

    assert runtime.request("session_create_request", asked).data == first.data


def test_functions_of_an_image_are_compared_by_what_the_model_is_told_of_them(runtime: Runtime) -> None:
    def look(what: str) -> str:
        """Look something up."""
        return what

    asked = {"image": {"id": "j", "tools": (look,)}, "request_id": "r"}
    first = runtime.request("image_register_request", asked)

    assert runtime.request("image_register_request", asked).data == first.data
    with pytest.raises(RequestReusedError):
        runtime.request("image_register_request", {**asked, "image": {"id": "j"}})


def test_data_that_can_be_compared_with_nothing_is_refused(runtime: Runtime) -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(InvalidInputError, match="agent_respond_request"):
        runtime.request("agent_respond_request", {"call_id": "t1", "value": endless, "request_id": "r"})


@pytest.mark.parametrize("note", [b"\xc1", b"\x07", b"\xa1\xff"])
def test_an_answer_that_is_damaged_in_the_log_is_named(opened: Open, log: str, note: bytes) -> None:
    runtime = opened()
    data = {"name": "home", "request_id": "r1"}
    runtime.request("container_create_request", data)
    execute(log, "UPDATE requests SET note = ?", note)

    with pytest.raises(LogUnusableError, match="the stored answer to request 'r1' is damaged"):
        runtime.request("container_create_request", data)


def test_a_message_to_a_session_whose_agent_ends_meanwhile_reaches_the_next_one(
    runtime: Runtime, agent: str, mock: GatedFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive, ended = runtime._do._receive_command, [agent]

    def receive_and_end(*given: Any) -> Receive:  # noqa: ANN401 - passed on as it is
        command = receive(*given)
        if ended and command.agent_id == ended[0]:
            runtime.agents.destroy(ended.pop())
        return command

    monkeypatch.setattr(runtime._do, "_receive_command", receive_and_end)

    sent = runtime.request("message_send_request", {"session_id": "s", "content": "Hello", "request_id": "r"})

    result = msgspec.convert(sent.data.result, Sent)
    assert result.agent_id != agent
    assert runtime.turns.wait(result.turn_id, timeout=60).outcome == "completed"
