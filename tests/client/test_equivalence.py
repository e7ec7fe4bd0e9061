"""A remote runtime answers as the local one that it is connected to: the same values, and the same refusals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact import (
    CostLimit,
    DocumentBlock,
    Image,
    ImageBlock,
    InvalidInputError,
    MCPServer,
    Policies,
    Policy,
    Price,
    ReenactError,
    Rule,
    Runtime,
    SessionInfo,
    TextBlock,
    ToolSpec,
    ask_user,
    tool,
)
from reenact.actors.environment.mock import MockEvent
from reenact.client.runtime import RemoteRuntime
from reenact.domain.image import Definition
from reenact.domain.messages import Block, Said, ToolResultBlock
from reenact.domain.policy.reading import policies_of
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.jsons import at

AnyRuntime: TypeAlias = Runtime | RemoteRuntime
Call: TypeAlias = Callable[[AnyRuntime], Any]
PIXEL = b"\x89PNG\r\n\x1a\n0000"
NUMBERS = count(1)
NO_OBJECT: Any = []
NO_TOOLS: Any = "look"
NO_SERVERS: Any = ("m",)
ONE_PAIR = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
"""All examples are tried on the same runtime."""


@tool(cost=0.25)
def send_email(to: str, urgent: bool = False) -> str:  # noqa: FBT001, FBT002 - arguments of a tool
    """Send an email."""
    return f"sent to {to}, {urgent}"


@tool
def look(what: str) -> dict[str, object]:
    """Look at something."""
    if what == "nothing":
        raise LookupError("there is nothing there")
    return {"seen": what, "size": [1, 2.5, None, True], "deep": {"ünder": {}}}


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Think, ask for tools and for people, and end when all is answered."""
    last = conversation[-1]
    usage = {"input_tokens": 1000, "output_tokens": 17, "cache_read_input_tokens": 3}
    yield MockEvent("message_start", data={"model": "model-1"})
    yield MockEvent("thinking_start")
    yield MockEvent("text_delta", data={"text": f"hm… {len(conversation)}"})
    yield MockEvent("thinking_end", data={"signature": "sig"})
    if any(isinstance(block, ToolResultBlock) for block in last.content):
        yield MockEvent("text_delta", data={"text": "Done 😀."})
        yield MockEvent("message_delta", data={"usage": usage})
        yield MockEvent("message_stop")
        return
    yield MockEvent("text_delta", data={"text": "Let me see."})
    calls: list[dict[str, Any]] = [
        {"id": "c1", "name": "look", "input": {"what": last.text}},
        {"id": "c2", "name": "look", "input": {"what": "nothing"}},
        {"id": "c3", "name": "send_email", "input": {"to": "ann@exämple.org"}},
        {"id": "c4", "name": "ask_user", "input": {"prompt": "Which?", "options": ["a", "b"], "multi": True}},
    ]
    for call in calls:
        yield MockEvent("tool_call", data=call)
    yield MockEvent("message_delta", data={"usage": usage})
    yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


class Pair:
    """One runtime, from both ends."""

    def __init__(self, stack: ExitStack) -> None:
        self.mock = MockEnvironmentFactory("talk", {"talk": model}, delays=False)
        self.local = stack.enter_context(
            Runtime.in_memory(environment=self.mock, tools=[send_email, look], prices={"model-1": Price(3.0, 15.0)})
        )
        server = stack.enter_context(Server(self.local))
        self.remote = stack.enter_context(Runtime.connect(server.url, client_id="me"))

    def same(self, call: Call) -> Any:  # noqa: ANN401 - what the call returns
        """Return what both answer, which is the same. The call changes nothing."""
        ours, theirs = outcome(self.local, call), outcome(self.remote, call)
        assert theirs == ours
        assert repr(theirs) == repr(ours)
        return ours

    def all_same(self, session_id: str) -> None:
        """Look at everything that there is to know of a session."""
        looks: list[Call] = [
            lambda runtime: runtime.containers.list(),
            lambda runtime: runtime.images.list(),
            lambda runtime: runtime.agents.list(),
            lambda runtime: runtime.agents.pending(),
            lambda runtime: runtime.agents.pending(session_id=session_id),
            lambda runtime: runtime.sessions.get(session_id),
            lambda runtime: runtime.sessions.messages(session_id),
            lambda runtime: runtime.sessions.turns(session_id),
            lambda runtime: runtime.sessions.tool_calls(session_id),
            lambda runtime: runtime.sessions.usage(session_id),
            lambda runtime: runtime.sessions.list(waiting=True),
            lambda runtime: [runtime.turns.locate(turn.id) for turn in runtime.sessions.turns(session_id)],
        ]
        for look_ in looks:
            self.same(look_)

    def turn_ends(self, session_id: str, count_: int) -> None:
        wait_until(lambda: sum(turn.outcome is not None for turn in self.local.sessions.turns(session_id)) >= count_)


def outcome(runtime: AnyRuntime, call: Call) -> object:
    """Return what the call returns, or what there is to know of the error that it raises."""
    try:
        return call(runtime)
    except ReenactError as error:
        return type(error), error.code, str(error), vars(error)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        pair = Pair(stack)
        pair.local.containers.create("home", container_id="c")
        pair.local.images.register(Image(id="i", tools=("look", "send_email", ask_user), policies=POLICIES))
        yield pair


POLICIES = Policies(tools={"send_email": Policy("required")})
ODD = st.one_of(
    st.text(st.characters(), max_size=12),
    st.sampled_from(["", " ", "\0", "\ud800", "a\udfffb", "😀", "\u202e", "c", "i", "x" * 1025, "ü" * 600]),
    st.sampled_from([None, 5, b"c", 1.5, True, ["c"]]),
)
"""Ids and names, as careless callers have them."""


def test_a_conversation_with_tools_people_pictures_and_thoughts_looks_the_same(pair: Pair) -> None:
    remote = pair.remote
    session = remote.sessions.create("c", "i", session_id="talk")
    agent_id = remote.sessions.run(session.id)
    content: list[Block | Mapping[str, Any]] = [
        TextBlock("moon"),
        ImageBlock.from_bytes(PIXEL, "image/png"),
        DocumentBlock.from_text("a text", title="T", citations=True),
        {"type": "search_result", "source": "x", "title": "y", "content": [{"type": "text", "text": "z"}]},
    ]

    turn_id = remote.agents.receive(agent_id, content)
    pair.turn_ends("talk", 1)
    assert pair.local.sessions.turns("talk")[0].id == turn_id
    pair.all_same("talk")
    calls = {call.id: call for call in remote.agents.pending(agent_id)}
    assert set(calls) == {"c3", "c4"}
    assert pair.same(lambda runtime: runtime.agents.get(agent_id)).state == "waiting_for_human_input"

    assert remote.agents.respond(calls["c4"], ["b"], by="ann") is None
    pair.all_same("talk")
    approved = remote.agents.approve("c3", session_id="talk", arguments={"to": "bob", "urgent": True}, by="Bö")
    pair.turn_ends("talk", 2)

    turns = pair.local.sessions.turns("talk")
    assert [turn.id for turn in turns] == [turn_id, approved]
    pair.all_same("talk")
    assert pair.local.sessions.messages("talk")[-1].text == "Done 😀."
    with remote.events.stream("talk") as theirs, pair.local.events.stream("talk") as ours:
        told = ours.take(10_000)
        assert [theirs.next(60) for _ in told] == told
    remote.agents.destroy(agent_id)
    pair.all_same("talk")
    assert remote.sessions.delete("talk") is True
    assert pair.same(lambda runtime: runtime.sessions.get("talk")) is None


def test_a_branch_that_is_made_from_afar_is_one(pair: Pair) -> None:
    remote = pair.remote
    agent_id = remote.sessions.run(remote.sessions.create("c", "i", session_id="talk").id)
    remote.agents.receive(agent_id, "Hello")
    pair.turn_ends("talk", 1)

    branch = remote.sessions.branch(
        "talk", edit=[TextBlock("Look"), ImageBlock.from_bytes(PIXEL, "image/png")], model="m", new_session_id="twig"
    )

    assert pair.same(lambda runtime: runtime.sessions.get("twig")) == branch
    assert branch.origin is not None
    assert [type(block) for block in pair.local.sessions.messages("twig")[-1].content] == [TextBlock, ImageBlock]
    pair.same(lambda runtime: runtime.sessions.messages("twig"))
    pair.same(lambda runtime: runtime.sessions.turns("twig"))


def test_what_is_created_is_what_both_have(pair: Pair) -> None:
    container = pair.remote.containers.create("küche 😀")
    named = pair.remote.containers.create(container_id="mine")
    session = pair.remote.sessions.create(container.id, "i")

    assert pair.same(lambda runtime: runtime.containers.get(container.id)) == container
    assert pair.same(lambda runtime: runtime.containers.get("mine")) == named
    assert pair.same(lambda runtime: runtime.sessions.list_by_container(container.id)) == [session]
    assert session.created_at.tzinfo is dt.UTC
    assert [found.id for found in pair.same(lambda runtime: runtime.containers.list())][-2:] == [container.id, "mine"]


@ONE_PAIR
@given(ODD)
def test_whatever_is_asked_for_is_found_or_missed_alike(pair: Pair, odd: Any) -> None:  # noqa: ANN401 - anything
    calls: list[Call] = [
        lambda runtime: runtime.containers.get(odd),
        lambda runtime: runtime.images.get(odd),
        lambda runtime: runtime.sessions.get(odd),
        lambda runtime: runtime.sessions.list_by_container(odd),
        lambda runtime: runtime.sessions.delete(odd),
        lambda runtime: runtime.sessions.run(odd),
        lambda runtime: runtime.sessions.messages(odd),
        lambda runtime: runtime.sessions.turns(odd),
        lambda runtime: runtime.sessions.tool_calls(odd),
        lambda runtime: runtime.sessions.usage(odd),
        lambda runtime: runtime.agents.get(odd),
        lambda runtime: runtime.agents.interrupt(odd),
        lambda runtime: runtime.agents.destroy(odd),
        lambda runtime: runtime.agents.receive(odd, "Hello"),
        lambda runtime: runtime.agents.pending(agent_id=odd),
        lambda runtime: runtime.agents.pending(session_id=odd),
        lambda runtime: runtime.agents.pending(odd, session_id="x"),
        lambda runtime: runtime.agents.approve(odd),
        lambda runtime: runtime.agents.approve("x", session_id=odd),
        lambda runtime: runtime.agents.reject("x", agent_id=odd),
        lambda runtime: runtime.agents.respond(odd, "yes"),
    ]

    for call in calls:
        pair.same(call)


@ONE_PAIR
@given(ODD, ODD, ODD)
def test_whatever_cannot_be_created_is_refused_alike(pair: Pair, first: Any, second: Any, third: Any) -> None:  # noqa: ANN401
    calls: list[tuple[Call, Callable[[Any], object]]] = [
        (lambda runtime: runtime.containers.create(first, container_id=second), lambda made: made.name),
        (lambda runtime: runtime.sessions.create(first, second, session_id=third), lambda made: made.image_id),
        (lambda runtime: runtime.sessions.branch(first, image_id=second, new_session_id=third), lambda made: made.id),
        (lambda runtime: runtime.sessions.branch(first, edit=second, model=third), lambda made: made.id),
    ]

    for call, what in calls:
        theirs = outcome(pair.remote, call)
        if isinstance(theirs, tuple):
            assert outcome(pair.local, call) == theirs
        else:
            made: Any = theirs
            of = pair.local.sessions if isinstance(made, SessionInfo) else pair.local.containers
            found: Any = of.get(made.id)
            assert found == made
            assert what(found) == what(made)


BLOCKS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["", " ", "\ud800", "x" * (10 * 1024 * 1024 + 1), None, 5, [], {}, [{}], [5]]),
    st.lists(
        st.sampled_from(
            [
                {"type": "text"},
                {"type": "text", "text": " "},
                {"type": "text", "text": "\udfff"},
                {"type": "audio", "data": "x"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AA=="}},
                {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}},
                {"type": "search_result", "what": float("nan")},
                {"type": "search_result", "what": 2**80},
                {"type": "search_result", "what": {1: 2}},
            ]
        ),
        max_size=2,
    ),
)


@ONE_PAIR
@given(BLOCKS, st.sampled_from(["nobody", "", "\ud800", None]))
def test_whatever_is_no_message_is_refused_alike(pair: Pair, content: Any, agent_id: Any) -> None:  # noqa: ANN401
    pair.same(lambda runtime: runtime.agents.receive(agent_id, content))


@pytest.fixture
def waiting(pair: Pair) -> str:
    """A session of which two calls wait for people."""
    pair.local.sessions.create("c", "i", session_id="waits")
    pair.local.agents.receive(pair.local.sessions.run("waits"), "moon")
    pair.turn_ends("waits", 1)
    return "waits"


WRONG: list[Call] = [
    lambda runtime: runtime.agents.approve("c4", session_id="waits"),
    lambda runtime: runtime.agents.approve("c9", session_id="waits"),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", agent_id="a"),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", digest="stale"),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", digest=" "),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", arguments=NO_OBJECT),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", arguments={"to": {1}}),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    lambda runtime: runtime.agents.approve("c3", session_id="waits", arguments={"to": float("inf")}),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", arguments={"to": 2**70}),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", arguments={"to": "\ud800"}),
    lambda runtime: runtime.agents.approve("c3", session_id="waits", by=""),
    lambda runtime: runtime.agents.reject("c3", session_id="waits", reason=" "),
    lambda runtime: runtime.agents.reject("c3", session_id="waits", reason="\0"),
    lambda runtime: runtime.agents.respond("c4", "c", session_id="waits"),
    lambda runtime: runtime.agents.respond("c4", ["c"], session_id="waits"),
    lambda runtime: runtime.agents.respond("c4", {"a": object()}, session_id="waits"),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    lambda runtime: runtime.agents.respond("c3", ["a"], session_id="waits"),
    lambda runtime: runtime.agents.respond("c4", None, session_id="waits"),
    lambda runtime: runtime.agents.approve(runtime.agents.pending(session_id="waits")[0], session_id="other"),
    lambda runtime: runtime.agents.approve(runtime.agents.pending(session_id="waits")[0], session_id="s2"),
    lambda runtime: runtime.agents.approve(runtime.agents.pending(session_id="waits")[0], agent_id="nobody"),
    lambda runtime: runtime.agents.approve(
        runtime.agents.pending(session_id="waits")[0], agent_id=runtime.sessions.run("s2")
    ),
]


@pytest.mark.usefixtures("waiting")
def test_what_people_may_not_decide_is_refused_alike(pair: Pair) -> None:
    pair.local.sessions.create("c", "i", session_id="s2")

    refused = [pair.same(call) for call in WRONG]

    assert all(isinstance(one, tuple) for one in refused)


def test_a_call_is_named_by_what_was_told_of_it_and_by_the_agent(pair: Pair) -> None:
    pair.local.sessions.create("c", "i", session_id="by-agent")
    agent_id = pair.local.sessions.run("by-agent")
    pair.local.agents.receive(agent_id, "moon")
    pair.turn_ends("by-agent", 1)
    email, question = pair.same(lambda runtime: runtime.agents.pending(agent_id))

    approved = pair.remote.agents.approve(email, agent_id=agent_id)
    assert approved is not None
    pair.turn_ends("by-agent", 2)
    assert pair.remote.agents.reject(question, "no", resume=False, session_id="by-agent") is None

    assert pair.same(lambda runtime: runtime.agents.pending(session_id="by-agent")) == []
    pair.all_same("by-agent")


def with_what_policies_name(image: Image) -> Image:
    """Return the image with the tool `look`, if its policies name it."""
    policies = policies_of(image.policies)
    missing = "look" in policies.tools and "look" not in image.tools
    return msgspec.structs.replace(image, tools=("look", *image.tools)) if missing else image


IMAGES = st.builds(
    Image,
    name=st.sampled_from([None, "Kiosk", "ü😀"]),
    model=st.sampled_from([None, "model-1"]),
    system_prompt=st.one_of(
        st.sampled_from([None, ""]),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).map("Say {}".format),
    ),
    tools=st.lists(
        st.sampled_from(
            [
                "look",
                ask_user,
                ToolSpec(name="far_away", description="Är", idempotent=True, timeout=1.5, cost=0.1),
                {"name": "spec", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
            ]
        ),
        unique_by=str,
    ).map(tuple),
    mcp_servers=st.sampled_from([(), (MCPServer.http("far", "https://example.org/mcp", {"X-Key": "v"}),)]),
    policies=st.sampled_from(
        [
            None,
            {},
            Policies(),
            Policies(deny=(), allow=("look",)),
            {"look": "always"},
            Policies(tools={"look": Policy("first", (Rule({"what": "moon"}, "deny"),))}),
            {"tools": {"look": {"rules": [{"when": {"what": {"type": "glob", "pattern": "/a/*"}}, "mode": "never"}]}}},
        ]
    ),
    max_steps=st.sampled_from([None, 1, 100]),
    max_repeats=st.sampled_from([None, 2]),
    cost_limit=st.sampled_from([None, 1, 2.5, CostLimit(3, "interrupt")]),
    compress_at=st.sampled_from([None, 0, 1000]),
).map(with_what_policies_name)


@ONE_PAIR
@given(IMAGES)
def test_an_image_without_functions_is_registered_as_it_is(pair: Pair, image: Image) -> None:
    number = next(NUMBERS)
    ours = msgspec.structs.replace(image, id=f"ours{number}")
    theirs = msgspec.structs.replace(image, id=f"theirs{number}")

    pair.local.images.register(ours)
    info = pair.remote.images.register(theirs)

    assert pair.same(lambda runtime: runtime.images.get(info.id)) == info
    assert definition(pair, f"theirs{number}", image.name) == definition(pair, f"ours{number}", image.name)
    assert pair.remote.images.register(theirs).revision == 1


def definition(pair: Pair, image_id: str, name: str | None) -> list[Any]:
    """Return the content of an image, but for a name that it has from its id."""
    found = pair.local._do.definition(image_id, 1)
    return [getattr(found, field) for field in Definition.__struct_fields__ if field != "name" or name is not None]


UNFIT: list[Any] = [
    Image(id=""),
    Image(id="\ud800"),
    Image(id="x", name=" "),
    Image(id="x", max_steps=0),
    Image(id="x", max_tokens=True),
    Image(id="x", compress_at=-1),
    Image(id="x", tools=NO_TOOLS),
    Image(id="x", tools=(5,)),
    Image(id="x", tools=("nowhere",)),
    Image(id="x", tools=({"type": 5},)),
    Image(id="x", tools=(ToolSpec(name="a b"),)),
    Image(id="x", tools=(ToolSpec(name="a"), ToolSpec(name="a"))),
    Image(id="x", mcp_servers=(MCPServer(name="m"),)),
    Image(id="x", mcp_servers=NO_SERVERS),
    Image(id="x", policies={"look": "sometimes"}),
    Image(id="x", policies={"look": "always"}),
    Image(id="x", tools=("look",), policies={"lock": "always"}),
    Image(id="x", tools=("look",), policies={"deny": ["lock"]}),
    Image(id="x", cost_limit=-1.0),
    Image(id="x", system_prompt="\ud800"),
    None,
    "image",
]


def test_an_image_that_cannot_work_is_refused_alike(pair: Pair) -> None:
    refused = [pair.same(lambda runtime, image=image: runtime.images.register(image)) for image in UNFIT]  # type: ignore[misc]

    assert all(isinstance(one, tuple) for one in refused)


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("container_list_request", {}),
    ("container_get_request", {"container_id": "c"}),
    ("container_get_request", {}),
    ("container_get_request", {"container_id": 5}),
    ("container_get_request", {"container_id": "c", "colour": "green"}),
    ("session_run_request", {"session_id": "nobody's"}),
    ("image_get_request", {"image_id": "i"}),
    ("message_send_request", {"content": "x"}),
    ("message_send_request", {"content": "x", "agent_id": "nobody"}),
    ("image_register_request", {"image": {"id": "x", "legs": 4}}),
]


def test_a_request_is_answered_and_refused_alike(pair: Pair) -> None:
    def ask(runtime: AnyRuntime, type_: str, data: dict[str, Any]) -> object:
        answer = runtime.request(type_, {**data})
        return answer.type, answer.context.session_id, plain(answer.data.result), answer.data.error

    for type_, data in ASKED:
        pair.same(partial(ask, type_=type_, data=data))


def plain(value: object) -> Any:  # noqa: ANN401 - a JSON value
    """Return the value as JSON gives it back, which has no tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def test_a_request_with_an_id_of_its_own_is_carried_out_once(pair: Pair) -> None:
    asked = {"request_id": "once-only", "container_id": "once"}

    first = pair.remote.request("container_create_request", asked)
    again = pair.remote.request("container_create_request", asked)

    assert first.data == again.data
    assert at(str, first.data.result, "id") == "once"


def test_a_request_takes_blocks_as_objects_and_as_mappings_and_texts(pair: Pair) -> None:
    image = ImageBlock.from_bytes(PIXEL, "image/png")
    mappings = [{"type": "text", "text": "Look"}, msgspec.to_builtins(image)]

    for runtime in (pair.local, pair.remote):
        for content in ([TextBlock("Look"), image], (TextBlock("Look"), mappings[1]), mappings, ["Look", image]):
            data = {"image_id": "i", "content": content, "container_id": "c"}
            session = at(str, runtime.request("message_send_request", data).data.result, "session_id")
            asked = [message for message in pair.local.sessions.messages(session) if message.role == "user"]
            assert asked[-1].content == (TextBlock("Look"), image)
        with pytest.raises(InvalidInputError):
            runtime.request("message_send_request", {"image_id": "i", "content": [TextBlock("Look"), 5]})
