"""Agents of extensions as tools of a session: the model calls them, or a person who begins a message with a name."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reenact import Image, Runtime, agent_tool
from reenact.actors.environment.api import Environment, EnvironmentConfig
from reenact.cli.extensions.agents import agent_request_in, with_agents
from reenact.domain.messages import Said, TextBlock, ToolResultBlock, ToolUseBlock
from reenact.testing import FakeMessagesAPI, MockEnvironmentFactory, MockEvent
from tests.cli.conftest import Chat, Json, Run, accepted, ask, leave, logged
from tests.cli.extensions.test_extensions import asked
from tests.cli.tools import GUARDS, WEATHER, Office
from tests.examples import some
from tests.extensions.written import Written
from tests.logs import copy_log, log_at
from tests.runtime.witness import Ears, at_every_commit

CALLS_BOSS: Json = {"type": "tool_use", "id": "toolu_1", "name": "boss", "input": {"prompt": "May she?"}}
POLICY = '{"tools": {"boss": {"mode": "required"}}}'


@pytest.fixture
def project(tmp_path: Path) -> Written:
    return Written(tmp_path)


@pytest.fixture
def boss(project: Written) -> Path:
    return project.agent("boss", "---\ndescription: Decides\n---\nYou decide.")


# Which message asks an agent.

SAYS = Said("assistant", (TextBlock("Yes"),))
CALL = Said("assistant", (ToolUseBlock("c1", "boss", {"prompt": "May I?"}),))
RESULT = ToolResultBlock("c1", "Do it.")
ASKS = Said("user", (TextBlock("@boss May I?"),))


@pytest.mark.parametrize(
    ("conversation", "expected"),
    [
        ([], None),
        ([ASKS], ("boss", "May I?", None)),
        ([SAYS, ASKS, SAYS, ASKS], ("boss", "May I?", None)),
        ([Said("user", (TextBlock("I ran it. "), TextBlock("@boss Look"), TextBlock("\n\nA file")))],
         ("boss", "I ran it. Look\n\nA file", None)),
        ([Said("user", (TextBlock("@zzz May I?"),))], None),
        ([Said("user", (TextBlock("@boss"),))], None),
        ([Said("user", (TextBlock("Ask @boss now"),))], None),
        ([Said("assistant", (TextBlock("@boss May I?"),))], None),
        ([ASKS, SAYS], None),
        ([ASKS, CALL, Said("user", (RESULT,))], ("boss", "May I?", RESULT)),
        ([SAYS, ASKS, CALL, Said("user", (RESULT,))], ("boss", "May I?", RESULT)),
        ([Said("user", (TextBlock("Hello"),)), CALL, Said("user", (RESULT,))], None),
        ([ASKS, CALL, Said("user", (ToolResultBlock("c2", "Do it."),))], None),
        ([ASKS, CALL, Said("user", (RESULT, RESULT))], None),
        ([ASKS, Said("assistant", (TextBlock("Well."), *CALL.content)), Said("user", (RESULT,))], None),
        ([ASKS, Said("assistant", (ToolUseBlock("c1", "other", {}),)), Said("user", (RESULT,))], None),
        ([ASKS, CALL, Said("user", (RESULT,)), ASKS], ("boss", "May I?", None)),
    ],
)  # fmt: skip
def test_a_message_asks_an_agent_if_it_begins_with_its_name_and_so_does_the_result_of_its_own_call(
    conversation: Sequence[Said], expected: tuple[str, str, ToolResultBlock | None] | None
) -> None:
    assert agent_request_in(conversation, {"boss"}) == expected


# Crashes.


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    yield MockEvent("text_delta", data={"text": f"heard: {conversation[-1].text}"})
    yield MockEvent("message_stop")


class Answerer:
    """Makes environments in which the boss is asked by name."""

    def __init__(self) -> None:
        self._mock = MockEnvironmentFactory(scenarios={"model": model}, scenario="model")

    def create(self, config: EnvironmentConfig) -> Environment:
        return with_agents(self._mock.create(config), config, {"boss"})


def test_after_a_crash_at_any_commit_the_agent_that_was_asked_has_answered(tmp_path: Path) -> None:
    log = log_at(tmp_path / "story.db")
    copies: list[str] = []
    with Runtime.open(log, environment=Answerer(), synchronous="OFF") as runtime:
        runtime.images.register(Image(id="boss"))
        runtime.images.register(Image(id="chat", tools=(agent_tool("boss", description="Decides"),)))
        runtime.containers.create(container_id="c")
        runtime.sessions.create("c", "chat", session_id="s")
        agent = runtime.sessions.run("s")
        at_every_commit(runtime, lambda count: copies.append(copy_log(log, str(count))))
        turn = runtime.agents.receive(agent, "@boss May I?")
        assert runtime.turns.wait(turn, timeout=60).text == "heard: May I?"

    assert len(copies) > 3
    for copy in some(copies):
        with Runtime.open(copy, environment=Answerer(), synchronous="OFF", recovery="resume") as again:
            ears = Ears(again)
            while not (turns := again.sessions.turns("s")) or turns[-1].outcome is None:
                ears.next(0.02)
            (child,) = again.sessions.list(parent="s")
            assert [turn.outcome for turn in turns] == ["completed"]
            assert [message.text for message in again.sessions.messages(child.id)] == ["May I?", "heard: May I?"]
            assert again.sessions.messages("s")[-1].text == "heard: May I?"


# The model calls an agent.


@pytest.mark.usefixtures("boss")
def test_the_model_is_told_of_agents_and_may_call_them(run: Run, claude: FakeMessagesAPI) -> None:
    claude.reply(content=[CALLS_BOSS], stop_reason="tool_use", usage={"input_tokens": 5, "output_tokens": 1})
    claude.reply(text="She may.", usage={"input_tokens": 7, "output_tokens": 3})
    claude.reply(text="The boss says yes.", usage={"input_tokens": 9, "output_tokens": 2})

    done = run("-p", "May she?", "--output-format", "json")

    (tool,) = claude.requests[0].body["tools"]
    assert (tool["name"], tool["description"]) == ("boss", "Decides")
    assert (asked(claude, 1), claude.requests[1].system) == (["May she?"], "You decide.")
    assert "tools" not in claude.requests[1].body, "an agent calls no agents"
    assert done.result["result"] == "The boss says yes."
    assert done.result["usage"] == {"input_tokens": 21, "output_tokens": 6}, "what it has used counts for the answer"
    assert [(call["name"], call["result"]) for call in done.result["tool_calls"]] == [("boss", "She may.")]
    assert "answers in session" not in done.err


@pytest.mark.usefixtures("boss")
def test_policies_hold_for_a_call_of_the_model_and_a_person_who_types_the_name_has_approved_of_it(
    run: Run, project: Written, claude: FakeMessagesAPI
) -> None:
    (project.root / "policy.json").write_text(POLICY)
    with_policy = ("--policy", "policy.json", "--output-format", "json")
    claude.reply(content=[CALLS_BOSS], stop_reason="tool_use")
    claude.reply(text="I could not ask.")
    rejected = run("-p", "May she?", *with_policy)
    claude.reply(content=[CALLS_BOSS], stop_reason="tool_use")
    claude.reply(text="She may.")
    claude.reply(text="Yes.")
    allowed = run("-p", "May she?", *with_policy, "--allowed-tools", "boss")
    claude.reply(text="You may.")
    typed = run("-p", "@boss May I?", *with_policy)

    assert [done.result["result"] for done in (rejected, allowed, typed)] == ["I could not ask.", "Yes.", "You may."]
    assert rejected.result["tool_calls"][0]["is_error"]
    assert "no such tool" not in allowed.err
    assert "boss was not run" not in typed.err


@pytest.mark.usefixtures("boss")
def test_what_a_policy_denies_no_name_allows(run: Run, project: Written, claude: FakeMessagesAPI) -> None:
    (project.root / "policy.json").write_text('{"deny": ["boss"]}')

    done = run("-p", "@boss May I?", "--policy", "policy.json", "--output-format", "json")

    assert (done.code, done.result["error"]["type"]) == (1, "agent_failed")
    assert "boss" in done.result["error"]["message"]
    assert claude.requests == []


@pytest.mark.usefixtures("boss")
def test_guards_of_a_session_guard_its_agents(run: Run, project: Written, api: FakeMessagesAPI, office: Office) -> None:
    guards = GUARDS.replace("message=", "call=").replace("about.text.isupper()", "'Rome' in str(about)")
    (project.root / "guarding.py").write_text(guards)
    office.model_asks_for(WEATHER)
    api.reply(text="I may not look.")

    done = run("-p", "@boss Look", *office.tools, "--guards", "guarding.py")

    assert (done.code, done.out) == (0, "I may not look.\n")
    assert "do not shout" in office.results[0]["content"]


# Which agents a session has.


@pytest.mark.usefixtures("boss")
def test_of_a_session_that_goes_on_nobody_says_that_its_agents_are_not_here(
    run: Run, office: Office, api: FakeMessagesAPI
) -> None:
    run("-p", "Hello", *office.tools)
    api.reply(content=[CALLS_BOSS], stop_reason="tool_use")
    api.reply(text="She may.")
    api.reply(text="The boss says yes.")

    with_tools = run("-p", "May she?", "--continue", *office.tools)
    without = run("-p", "Hello", "--continue")

    assert (with_tools.out, with_tools.err) == ("The boss says yes.\n", "")
    assert "so calls of send_mail, " in without.err
    assert "boss" not in without.err


def test_a_session_keeps_the_agents_that_it_was_created_with(
    run: Run, project: Written, boss: Path, claude: FakeMessagesAPI
) -> None:
    run("-p", "@boss One")
    project.agent("later", "---\ndescription: d\n---\nYou are late.")
    same = run("-p", "@boss Two", "--continue")
    boss.write_text("---\ndescription: Decides\n---\nYou decide nothing.")
    changed = run("-p", "@boss Three", "--continue")
    unknown = run("-p", "@later Four", "--continue", "--output-format", "json")

    assert [request.system for request in claude.requests] == ["You decide."] * 3
    assert "as it was when" not in same.err
    assert "@boss answers as it was when the session was created; /new takes it as it is" in changed.err
    error = unknown.result["error"]
    assert (unknown.code, error["type"]) == (2, "invalid_configuration")
    assert error["message"] == ("@later is not asked: the session was created without it; a new one may have it")


def test_sessions_with_agents_of_one_name_have_each_their_own(run: Run, boss: Path, claude: FakeMessagesAPI) -> None:
    first = run("-p", "@boss One", "--output-format", "json").result["session_id"]
    boss.write_text("---\ndescription: Decides\n---\nYou are another one.")
    run("-p", "@boss Two")

    run("-p", "@boss Three", "--resume", first)

    assert [request.system for request in claude.requests] == ["You decide.", "You are another one.", "You decide."]


def test_an_agent_with_the_name_of_a_tool_or_without_a_price_is_left_out_and_it_is_said_why(
    run: Run, project: Written, office: Office
) -> None:
    project.agent("get_weather", "---\ndescription: d\n---\nYou look.")
    project.agent("dear", "---\ndescription: d\nmodel: claude-dear\n---\nYou cost.")
    limited = ("--model", "claude-x", "--price", "claude-x=1,1", "--max-cost", "1")

    hello = run("-p", "Hello", *office.tools, *limited)
    weather = run("-p", "@get_weather Rome", *office.tools, *limited)
    dear = run("-p", "@dear Hello", *office.tools, *limited)

    assert (hello.code, weather.code, dear.code) == (0, 2, 2)
    names = [tool["name"] for tool in office.api.requests[0].body["tools"]]
    assert "dear" not in names
    assert names.count("get_weather") == 1
    assert "@get_weather cannot be asked: the session has a tool of this name" in hello.err
    assert "@dear cannot be asked" in hello.err
    assert "@get_weather is not asked: the session was created without it" in weather.err
    assert "--price claude-dear=IN,OUT" in dear.err
    assert len(office.api.requests) == 1


def test_a_session_with_a_limit_does_not_go_on_where_the_model_of_an_agent_has_no_price(
    run: Run, project: Written, claude: FakeMessagesAPI
) -> None:
    project.agent("dear", "---\ndescription: d\nmodel: claude-dear\n---\nYou cost.")
    priced = ("--price", "claude-x=1,1")
    both = (*priced, "--price", "claude-dear=1,1")
    run("-p", "@dear Hello", "--model", "claude-x", *both, "--max-cost", "1")

    refused = run("-p", "More", "--continue", *priced)
    goes_on = run("-p", "@dear More", "--continue", *both)

    assert (refused.code, goes_on.code) == (2, 0)
    assert "--price claude-dear=IN,OUT" in refused.err
    assert len(claude.requests) == 2


def test_the_model_of_a_run_is_that_of_agents_that_name_none(
    run: Run, project: Written, claude: FakeMessagesAPI
) -> None:
    project.agent("boss")
    project.agent("own", "---\ndescription: d\nmodel: claude-own\n---\nYou are one.")
    lines = b"@boss One\n@own Two\n/model claude-b\n@boss Three\n@own Four\n"

    run(stdin=lines)
    run("--continue", "--model", "claude-c", "--system-prompt", "Be kind.", stdin=b"@boss Five\n@own Six\n")

    models = [request.body["model"] for request in claude.requests]
    assert models[1::2] == ["claude-own"] * 3
    assert models[2::2] == ["claude-b", "claude-c"]
    assert {request.system for request in claude.requests} == {"You review code.", "You are one."}


def test_an_agent_is_told_what_is_attached_as_text_and_no_more(
    chat: Chat, project: Written, claude: FakeMessagesAPI
) -> None:
    project.agent("boss")
    (project.root / "notes.txt").write_text("It is late.")
    (project.root / "paper.pdf").write_bytes(b"%PDF-1.4")
    terminal = chat(until="Ctrl+D leaves")

    ask(terminal, "@boss look at @notes.txt", "API!")
    ask(terminal, "@boss look at @paper.pdf", "@boss is not asked: agents are told text alone")
    leave(terminal)

    (request,) = claude.requests
    (message,) = request.body["messages"]
    told = "".join(block["text"] for block in message["content"])
    assert told.startswith("look at @notes.txt")
    assert told.endswith("It is late.")


# Limits and interrupts.


@pytest.mark.usefixtures("boss")
def test_the_call_and_the_answer_of_an_agent_are_two_steps(run: Run, claude: FakeMessagesAPI) -> None:
    one = run("-p", "@boss Hello", "--max-turns", "1")
    two = run("-p", "@boss Hello", "--max-turns", "2")

    assert "(--max-turns)" in one.err
    assert two.out == "Hello from the fake API!\n"
    assert len(claude.requests) == 1


@pytest.mark.usefixtures("boss")
def test_what_an_agent_has_said_before_a_limit_is_no_whole_answer(run: Run, office: Office) -> None:
    for _ in range(3):
        office.model_asks_for(WEATHER, text="I look.")

    done = run("-p", "@boss Look", "--max-turns", "2", "--output-format", "json", *office.tools)

    assert (done.code, done.result["error"]["type"]) == (1, "agent_failed")
    assert "The agent was ended by a limit (max_steps_exceeded) after 2 steps" in done.err
    assert "I look." in done.err


@pytest.mark.usefixtures("boss")
def test_an_agent_that_asks_on_and_on_for_what_is_rejected_is_stopped(run: Run, office: Office) -> None:
    for number in range(20):
        office.model_asks_for(("send_mail", {"to": f"{number}@example.org"}))

    done = run("-p", "@boss Write", *office.tools, "--output-format", "json")

    assert (done.code, done.result["error"]["type"]) == (2, "unapproved_tool_calls")
    assert len(office.api.requests) == 11
    assert office.sent == ""


@pytest.mark.usefixtures("boss")
@pytest.mark.parametrize(("options", "code", "type_"), [(("--timeout", "0.3"), 5, "timeout"), ((), 130, "interrupted")])
def test_an_agent_at_work_is_interrupted_with_the_session(
    run: Run, options: tuple[str, ...], code: int, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not options:
        from reenact.cli.chat.conversation import Conversation  # noqa: PLC0415 - to press Ctrl+C in its place

        below = Conversation._is_descendant

        def pressing(conversation: Conversation, session_id: str) -> bool:
            monkeypatch.setattr(Conversation, "_is_descendant", below)
            signal.raise_signal(signal.SIGINT)
            return below(conversation, session_id)

        monkeypatch.setattr(Conversation, "_is_descendant", pressing)

    done = run("-p", "@boss Tell", *options, "--output-format", "json", MOCK_SCENARIO="long-stream")

    assert (done.code, done.result["error"]["type"]) == (code, type_)
    log = logged(run, "turn-completed")
    assert [event["data"]["outcome"] for event in log] == ["interrupted", "interrupted"]
    assert [text for _, text in accepted(run)] == ["@boss Tell", "Tell"]
