"""Requests sent again and again, at once, with crashes at any moment: a naive model knows what has come of each."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reenact import AlreadyExistsError, ReenactError, Runtime, SessionNotFoundError
from reenact.domain.errors import RequestReusedError
from tests.examples import examples
from tests.logs import copy_log, log_at
from tests.runtime.conftest import furnish
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import before_it_is_told, check, journal_of

Request: TypeAlias = tuple[str, dict[str, Any]]
Answer: TypeAlias = Any
"""What a request was answered with, or the type of its refusal."""

ids = st.sampled_from(["r1", "r2", "r3", "r4"])
requests: st.SearchStrategy[Request] = st.sampled_from(
    [
        ("container_create_request", {"name": "home"}),
        ("container_create_request", {}),
        *[("image_register_request", {"image": {"id": "i", "system_prompt": text}}) for text in ("Hello", "Bye", None)],
        ("session_create_request", {"container_id": "c", "image_id": "i"}),
        ("session_create_request", {"container_id": "c", "image_id": "i", "session_id": "t"}),
        ("session_delete_request", {"session_id": "t"}),
        *[("session_run_request", {"session_id": name}) for name in "st"],
        *[
            ("message_send_request", {"session_id": name, "content": text})
            for name in "st"
            for text in ("Hello", "Bye")
        ],
    ]
)


class Model(msgspec.Struct):
    """What has come of requests, as a person would remember it."""

    names: list[str | None] = msgspec.field(default_factory=lambda: [None])
    prompts: list[str | None] = msgspec.field(default_factory=lambda: [None])
    sessions: int = 1
    t: str = "unknown"
    said: dict[str, list[str]] = msgspec.field(default_factory=lambda: {"s": [], "t": []})

    def carry_out(self, request: Request) -> object:
        """Return the type of the refusal, False if nothing was done, True if it was."""
        type_, data = request
        session: str = data.get("session_id", "")
        match type_:
            case "container_create_request":
                self.names.append(data.get("name"))
            case "image_register_request":
                prompt = data["image"]["system_prompt"]
                self.prompts += [prompt] if self.prompts[-1] != prompt else []
            case "session_create_request":
                if session and self.t != "unknown":
                    return AlreadyExistsError
                self.sessions += 1
                self.t = "there" if session else self.t
            case "session_delete_request":
                if self.t != "there":
                    return False
                self.sessions -= 1
                self.t = "deleted"
            case _ if session == "t" and self.t != "there":
                return SessionNotFoundError
            case "message_send_request":
                self.said[session].append(data["content"])
            case _:
                pass
        return True


class OnceMachine(RuleBasedStateMachine):
    """The ids of requests come from a few, so that they are used again."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="reenact-"))
        self.log = log_at(self.directory / "agents.db")
        self.copies = 0
        self.model = Model()
        self.done: dict[str, tuple[Request, Answer]] = {}
        self.runtime: Runtime
        self.open(self.log)
        furnish(self.runtime)
        self.runtime.sessions.create("c", "i", session_id="s")

    def open(self, log: str) -> None:
        self.log = log
        self.runtime = Runtime.open(log, environment=GatedFactory(), synchronous="OFF")

    def ask(self, id_: str, request: Request) -> Answer:
        type_, data = request
        try:
            return self.runtime.request(type_, {**data, "request_id": id_}).data
        except ReenactError as refusal:
            return type(refusal)

    def must_be(self, id_: str, request: Request, answers: list[Answer]) -> None:
        """Check the answers to a request that was sent so many times, and take note of what has come of it."""
        if id_ in self.done:
            first, answer = self.done[id_]
            expected = answer if first == request else RequestReusedError
        else:
            come = self.model.carry_out(request)
            expected = come if isinstance(come, type) else answers[0]
            if come is True:
                self.done[id_] = (request, answers[0])
            if not isinstance(come, type):
                assert (answers[0].request_id, answers[0].error) == (id_, None)
            if request[0] == "session_delete_request":
                assert answers[0].result is come
        assert answers == [expected] * len(answers)

    @rule(id_=ids, request=requests, times=st.integers(1, 3))
    def send(self, id_: str, request: Request, times: int) -> None:
        self.must_be(id_, request, [self.ask(id_, request) for _ in range(times)])

    @rule(id_=ids, request=requests)
    def send_from_many_threads(self, id_: str, request: Request) -> None:
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(self.ask, [id_] * 4, [request] * 4))
        self.must_be(id_, request, answers)

    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        if self.done:
            id_ = data.draw(st.sampled_from(sorted(self.done)))
            self.must_be(id_, self.done[id_][0], [self.ask(id_, self.done[id_][0])])

    @rule(id_=ids, request=requests, moment=st.integers(0, 4))
    def send_and_crash_before_the_answer(self, id_: str, request: Request, moment: int) -> None:
        """Crash after so many commits, and send the request again to what is left."""
        copies = [self._copied()]
        before_it_is_told(self.runtime, lambda: copies.append(self._copied()))
        self.ask(id_, request)
        self.runtime.close()
        self.open(copies[min(moment, len(copies) - 1)])
        self.must_be(id_, request, [self.ask(id_, request)])

    @rule()
    def close_and_reopen(self) -> None:
        self.runtime.close()
        self.open(self.log)

    @rule()
    def forget(self) -> None:
        """Let all ids be used anew."""
        journal_of(self.runtime).forget_requests(before=(1 << 62))
        self.done.clear()

    @invariant()
    def each_has_happened_once(self) -> None:
        runtime, model = self.runtime, self.model
        assert [container.name for container in runtime.containers.list()] == model.names
        (image,) = runtime.images.list()
        assert (image.revision, image.system_prompt) == (len(model.prompts), model.prompts[-1])
        assert len(runtime.sessions.list_by_container("c")) == model.sessions
        for session_id in ["s", "t"] if model.t == "there" else ["s"]:
            messages = runtime.sessions.messages(session_id)
            assert [message.text for message in messages if message.role == "user"] == model.said[session_id]

    def _copied(self) -> str:
        self.copies += 1
        return copy_log(self.log, str(self.copies))

    def teardown(self) -> None:
        self.runtime.close()
        with Runtime.open(self.log, environment=GatedFactory(), synchronous="OFF") as runtime:
            check(runtime)
        shutil.rmtree(self.directory)


TestOnce = OnceMachine.TestCase
TestOnce.settings = settings(max_examples=max(examples(20), settings().max_examples // 4), stateful_step_count=20)
