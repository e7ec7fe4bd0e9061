"""What a line means that somebody types, at a terminal or as a line of the input: a command, or something to ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reenact.cli.chat.answering import ChatExtensions
from reenact.cli.chat.commands import TABLE, Commands
from reenact.cli.chat.current import Current, Frontend
from reenact.cli.editor.keys import Choices
from reenact.cli.output.answers import Answer
from reenact.domain.errors import ReenactError
from reenact.domain.session.people import PendingCall
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import Json, Run, accepted, logged
from tests.cli.talks import FIRST, beginning, say, unheard
from tests.cli.tools import BOB, MAIL, Office

USED: Json = {"input_tokens": 1200, "output_tokens": 30, "cache_read_input_tokens": 400}
PRICED = ("--price", "claude-sonnet-5=10,100")


class Listening(Frontend):
    """Takes note of what commands would have done."""

    def __init__(self, current: Current, said: list[str]) -> None:
        super().__init__(current)
        self.said = said
        self.columns: int | None = None
        self.ran: list[str] = []
        self.asked: list[str] = []
        self.asked_as_it_is: list[str] = []
        self.taken_up: list[str] = []
        self.failures: list[str] = []

    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        (self.asked_as_it_is if as_it_is else self.asked).append(text)

    @property
    def width(self) -> int | None:
        return self.columns

    def say(self, line: str) -> None:
        self.said.append(line)

    def run(self, command: str) -> None:
        self.ran.append(command)

    def show(self, act: Callable[[Any], Answer]) -> None:
        act(SimpleNamespace(resume_turns=self.taken_up.extend, apply_decision=len))

    def ask_about_calls(self, pending: Sequence[PendingCall]) -> None: ...
    def fail(self, error: ReenactError) -> None:
        self.failures.append(str(error))


class WithFix(ChatExtensions):
    """Has a command of its own, and an agent."""

    def is_command(self, line: str) -> bool:
        return line.startswith("/fix")

    def commands(self) -> Mapping[str, str]:
        return {"/fix NUMBER": "Fixes", "/help": "never"}

    def agents(self) -> Mapping[str, str]:
        return {"@boss": "Decides"}

    def help(self) -> Mapping[str, str]:
        return {**self.commands(), "@boss MESSAGE": "Decides"}


@pytest.fixture
def said() -> list[str]:
    """What commands have said."""
    return []


@pytest.fixture
def frontend(tmp_path: Path, said: list[str]) -> Iterator[Listening]:
    with beginning(tmp_path, extensions=WithFix()) as current:
        yield Listening(current, said)


@pytest.fixture
def commands(frontend: Listening) -> Commands:
    return Commands(frontend)


@pytest.mark.parametrize(
    "line",
    [
        "What is /help?",
        "/etc/hosts is what?",
        "/etc/hosts",
        "/home/",
        "/* a comment */\nint main;",
        "/unknown\nof several lines",
        "// a comment\nint main;",
        "/fix 7 soon",
        "/fix 7\nand more",
        "@boss decide",
    ],
)
def test_what_is_no_command_is_asked_as_it_was_typed(
    commands: Commands, frontend: Listening, said: list[str], line: str
) -> None:
    goes_on = commands.run_line(line)

    assert (goes_on, frontend.asked, frontend.asked_as_it_is, said) == (True, [line], [], [])


@pytest.mark.parametrize("meant", ["/help", "/help me", "/x", "/", "/fix 7", "/help\nme", "/fix 7\nand more", "/a/b"])
def test_two_slashes_send_one(commands: Commands, frontend: Listening, said: list[str], meant: str) -> None:
    commands.run_line(f"/{meant}")

    assert (frontend.asked, frontend.asked_as_it_is, said) == ([], [meant], [])


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("/resum", "; did you mean /resume? /help lists those that there are."),
        ("/session", "; did you mean /sessions? /help lists those that there are."),
        ("/fx", "; did you mean /fix? /help lists those that there are."),
        ("/xyz and more", "; /help lists those that there are."),
        ("/", "; /help lists those that there are."),
    ],
)
def test_a_command_that_there_is_not_names_the_one_that_was_meant(
    commands: Commands, frontend: Listening, said: list[str], line: str, nearest: str
) -> None:
    goes_on = commands.run_line(line)

    assert (goes_on, said) == (True, [f"There is no command {line.partition(' ')[0]}{nearest}"])
    assert frontend.asked == []


def test_what_an_unknown_command_is_called_drives_no_terminal(commands: Commands, said: list[str]) -> None:
    commands.run_line("/\x1b[2J")

    assert said == ["There is no command /\\u001b[2J; /help lists those that there are."]


@pytest.mark.parametrize("word", [word for word, command in TABLE.items() if not command.takes_more])
def test_a_command_that_is_typed_alone_does_nothing_otherwise_and_says_so(
    commands: Commands, frontend: Listening, said: list[str], word: str
) -> None:
    goes_on = commands.run_line(f"{word} me\nout")

    assert (goes_on, frontend.asked) == (True, [])
    assert said == [f"{word} is typed alone; to send this as a message, put another / before it."]


def test_exit_and_shell_commands_are_prompts_where_no_person_types(commands: Commands, frontend: Listening) -> None:
    assert [commands.run_line(line) for line in ("exit", "!ls")] == [True, True]
    assert frontend.asked == ["exit", "!ls"]


def test_a_person_leaves_with_a_word_and_runs_shell_commands(frontend: Listening) -> None:
    frontend.columns = 80
    commands = Commands(frontend)
    lines = ("! ls -l", "exit?", "please exit", "!", "exit", " quit")

    assert [commands.run_line(line) for line in lines] == [True, True, True, True, False, False]
    assert frontend.ran == ["ls -l"]
    assert frontend.asked == ["exit?", "please exit", "!"]


def test_exit_is_the_end(commands: Commands) -> None:
    assert not commands.run_line("/exit")


def test_help_and_completion_have_the_same_commands(commands: Commands, said: list[str]) -> None:
    choices: Choices = commands

    commands.run_line("/help")

    listed = {line.split()[0] for line in said}
    keys = {"Enter", "Alt+Enter,", "Tab", "Up,", "Ctrl+X", "Ctrl+C", "Esc", "Ctrl+D"}
    assert listed - {"//TEXT", *keys} == {*choices.commands(), *choices.agents()}
    assert [*choices.commands()] == [*TABLE, "/fix"]
    assert choices.commands()["/help"] == TABLE["/help"].description, "what is built in stays"
    assert choices.agents() == {"@boss": "Decides"}


def test_what_may_stand_behind_a_command_is_there_as_soon_as_it_happened(
    frontend: Listening, commands: Commands
) -> None:
    choices: Choices = commands
    say(frontend.current, "About apples")
    frontend.current.start_new()
    say(frontend.current, "About pears", "And plums")
    second = frontend.current.conversation.session_id

    resumed, points = choices.arguments("/resume"), choices.arguments("branch")
    say(frontend.current, "And more")

    assert resumed == [(FIRST, "About apples")]
    assert [words for _, words in points] == ["And plums", "About pears"]
    assert len(choices.arguments("/branch")) == 3
    frontend.current.resume(FIRST)
    assert choices.arguments("/resume") == [(second, "About pears")]


def test_what_may_stand_behind_a_word_is_never_a_failure(
    frontend: Listening, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(frontend.current, "One")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    for facade, method in (("sessions", "list_by_container"), ("sessions", "usage"), ("agents", "pending")):
        monkeypatch.setattr(getattr(frontend.current.runtime, facade), method, fail)
    monkeypatch.setattr("reenact.cli.chat.inspect.reading", fail)

    for word in (*TABLE, "/nothing", "", "/", "//", "\ud800"):
        assert [*commands.arguments(word)] == []


def test_a_session_is_meant_by_its_number_in_the_list_that_was_shown(
    commands: Commands, said: list[str], frontend: Listening
) -> None:
    for text in ("One", "Two", "Three"):
        say(frontend.current, text)
        frontend.current.start_new()
    commands.run_line("/sessions")
    listed = [line.split()[1] for line in said]
    say(frontend.current, "Four")  # which is the first in a new list

    commands.run_line("/resume 2")

    assert frontend.current.conversation.session_id == listed[1]
    assert [re.sub(" .*? ", " ", line.strip(), count=1)[:1] for line in said[:3]] == ["1", "2", "3"]
    commands.run_line("/resume 4")
    assert frontend.failures == ["there is no session number 4: /sessions lists 3"]


def test_a_session_is_meant_by_a_beginning_that_no_other_has(
    commands: Commands, said: list[str], frontend: Listening
) -> None:
    say(frontend.current, "One")
    for name in ("ses_pear", "ses_plum", "2"):
        frontend.current.runtime.sessions.branch(FIRST, new_session_id=name)

    commands.run_line("/resume ses_p")
    stayed = frontend.current.conversation.session_id
    commands.run_line("/resume ses_pl")
    by_beginning = frontend.current.conversation.session_id
    commands.run_line("/resume pe")
    without_prefix = frontend.current.conversation.session_id
    commands.run_line("/resume 2")

    assert frontend.failures == ["2 sessions begin with 'ses_p'; type more of the id"]
    assert (stayed, by_beginning, without_prefix) == (FIRST, "ses_plum", "ses_pear")
    assert frontend.current.conversation.session_id == "2", "an id is what it says"
    assert said[-1] == "Session 2, 2 messages so far."


def test_a_session_that_is_not_there_is_a_failure_and_one_that_one_is_in_is_none(
    commands: Commands, said: list[str], frontend: Listening
) -> None:
    commands.run_line("/resume \ud800")
    commands.run_line("/resume nowhere")
    commands.run_line(f"/resume {FIRST}")

    assert frontend.failures == ["session '\\ud800' does not exist", "session 'nowhere' does not exist"]
    assert said == ["You are in this session."]


def test_resume_without_a_name_lists_them_and_says_how(
    frontend: Listening, commands: Commands, said: list[str]
) -> None:
    say(frontend.current, "One")

    commands.run_line("/resume")

    assert said[0].startswith(f" 1 * {FIRST}")
    assert said[1] == "/resume ID goes on with one, or /resume 2 with the second of them."


def test_a_branch_begins_now_and_says_where_it_comes_from(
    frontend: Listening, commands: Commands, said: list[str]
) -> None:
    commands.run_line("/branch")
    say(frontend.current, "One")
    now = frontend.current.runtime.position

    commands.run_line("/branch")

    branch = frontend.current.conversation.session_id
    where = f"It branches off from {FIRST} at position {now}; /resume {FIRST} goes back."
    assert said == [
        "There is nothing to branch off from: nothing was said in this session yet.",
        f"Session {branch}, 2 messages so far. {where}",
    ]


@pytest.mark.parametrize("edit", ["Another", "Another\nof two lines", "2 apples", "/help"])
def test_a_branch_may_begin_at_a_position_and_with_another_message(
    commands: Commands, frontend: Listening, edit: str
) -> None:
    say(frontend.current, "One", "Two")
    (position, _), _ = reversed(commands.arguments("/branch"))

    commands.run_line(f"/branch {position} {edit}")

    runtime, branch = frontend.current.runtime, frontend.current.conversation.session_id
    (turn,) = runtime.sessions.turns(branch)
    assert frontend.taken_up == [turn.id]
    frontend.current.conversation.follow_turns(lambda: frontend.taken_up, unheard, None)
    assert [message.text for message in runtime.sessions.messages(branch)] == [edit, "Hello from mock!"]


def test_a_branch_with_another_message_alone_edits_the_last_one(commands: Commands, frontend: Listening) -> None:
    say(frontend.current, "One", "Two")

    commands.run_line("/branch In June instead")

    frontend.current.conversation.follow_turns(lambda: frontend.taken_up, unheard, None)
    messages = frontend.current.runtime.sessions.messages(frontend.current.conversation.session_id)
    assert [message.text for message in messages if message.role == "user"] == ["One", "In June instead"]


@pytest.mark.parametrize("position", ["0", "-1", "1", "999999", "9" * 18, "9" * 5000])
def test_a_position_that_there_is_not_is_a_failure(commands: Commands, frontend: Listening, position: str) -> None:
    say(frontend.current, "One")

    commands.run_line(f"/branch {position}")

    (failure,) = frontend.failures
    assert "position" in failure.lower()
    assert frontend.current.conversation.session_id == FIRST


def test_the_log_reads_as_what_happened(run: Run, office: Office) -> None:
    office.model_asks_for(MAIL)
    assert run("-p", "Write to Ann", *office.tools, "--allowed-tools", "send_mail").code == 0

    said = run("--continue", *office.tools, stdin=b"/log 100\n").err

    told = [" ".join(line.split()[2:]) for line in said.splitlines() if line.strip()[:1].isdigit()]
    expected = [
        r"session-created The session was created in container default, on image chat, revision 1\.",
        r"message-accepted You: Write to Ann",
        r'answer-recorded → send_mail\(to: "ann@example\.org", body: "Hello"\)',
        r'human-approve-required send_mail\(to: "ann@example\.org", body: "Hello"\)',
        r"tool-approved A person \(--allowed-tools\) approved call \S+\.",
        r"tool-started send_mail",
        r"tool-result send_mail: sent to ann@example\.org",
        r"answer-recorded Hello from the fake API!",
        r"turn-completed completed after \d+\.\d s, .* out.*",
    ]
    assert [line for line in expected if not any(re.fullmatch(line, one) for one in told)] == []


@pytest.mark.parametrize("count", ["0", "-1", "x", "1.5", "3 4", "9" * 5000])
def test_so_many_events_there_are_not(commands: Commands, frontend: Listening, count: str) -> None:
    commands.run_line(f"/log {count}")

    (failure,) = frontend.failures
    assert failure.startswith("/log takes how many events to show")


def test_the_log_has_the_last_events_of_this_session_and_of_what_it_shares(
    frontend: Listening, commands: Commands, said: list[str]
) -> None:
    say(frontend.current, "About apples")
    frontend.current.start_new()
    say(frontend.current, "About pears")
    frontend.current.resume(FIRST)
    commands.run_line("/branch")
    said.clear()

    commands.run_line("/log 100")

    types = [line.split()[2] for line in said]
    assert [types[0], *types[-2:]] == ["session-created", "session-branched", "agent-started"]
    assert any("About apples" in line for line in said)
    assert not any("About pears" in line for line in said)
    commands.run_line("/log 3")
    assert said[-3:] == said[-6:-3]
    commands.run_line("/branch 4")
    assert "at position 4" in said[-1], "what stands before an event is where a branch can begin"


@pytest.mark.parametrize("width", [30, 80])
def test_events_are_cut_to_the_width_of_the_terminal(frontend: Listening, said: list[str], width: int) -> None:
    say(frontend.current, "About apples " * 30)

    frontend.columns = width
    Commands(frontend).run_line("/log")

    assert len(said) > 4
    assert {len(line) <= width for line in said} == {True}
    assert any(line.endswith("…") for line in said)


@pytest.mark.parametrize("width", [20, 30, 59, 60, 80, 200])
def test_help_fits_terminals_of_any_width(frontend: Listening, said: list[str], width: int) -> None:
    frontend.columns = width
    Commands(frontend).run_line("/help")

    usages = {command.usage for command in TABLE.values()}
    assert [line for line in said if len(line) > width and line not in usages] == []
    assert {line.split()[0] for line in said if line.startswith("/")} >= {*TABLE}


def test_the_last_exchange_tells_where_one_is_in_a_few_lines(frontend: Listening, said: list[str]) -> None:
    say(frontend.current, "One", "\n".join(f"line {number} \x1b[31m" for number in range(9)))
    frontend.columns = 40
    commands = Commands(frontend)
    commands.run_line("/new")

    commands.run_line(f"/resume {FIRST}")

    assert said[1:] == [
        f"Session {FIRST}, 4 messages so far.",
        "  │ You: line 0 \\u001b[31m",
        "  │ line 1 \\u001b[31m",
        "  │ line 2 \\u001b[31m",
        "  │ …",
        "  │ Hello from mock!",
    ]


# As lines of the input.


def test_lines_go_from_session_to_session(run: Run) -> None:
    done = run(stdin=b"One\n/new\nTwo\n/sessions\n/resume 2\nThree\n/branch 5 Four\n/sessions\n")

    assert (done.code, done.out) == (0, "Hello from mock!\n" * 4)
    by_session: dict[str, list[str]] = {}
    for session_id, text in accepted(run):
        by_session.setdefault(session_id, []).append(text)
    assert [*by_session.values()] == [["One", "Three"], ["Two"], ["Four"]]
    listed = run("sessions", "--output-format", "json").objects
    assert [one["first_words"] for one in listed] == ["Four", "Two", "One"]


def test_a_command_that_fails_makes_the_exit_code_2_and_what_follows_is_answered(run: Run) -> None:
    done = run(stdin=b"/resume nowhere\nHello\n")

    assert (done.code, done.out) == (2, "Hello from mock!\n")
    assert "session 'nowhere' does not exist" in done.err


def test_a_command_that_fails_is_a_result_where_results_are_objects(run: Run) -> None:
    done = run("--output-format", "json", stdin=b"/resume nowhere\nHello\n")

    failed, answered = done.objects
    assert (done.code, failed["success"], answered["success"]) == (2, False, True)
    assert failed["error"] == {
        "code": 2,
        "type": "session_not_found",
        "message": "session 'nowhere' does not exist",
    }


def test_what_commands_tell_is_no_result(run: Run) -> None:
    done = run(stdin=b"Hello\n/help\n/sessions\n/cost\n/log\n/model\n/pending\n/approve\n/reject\n/new\n")

    assert (done.code, done.out) == (0, "Hello from mock!\n")
    for told in ("/help ", "2 messages  Hello", "unknown prices", "turn-completed", "whatever the model"):
        assert told in done.err


def test_two_slashes_call_no_command_of_an_extension_and_one_does(run: Run, environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".reenact/commands")
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("Fix issue $1")

    run(stdin=b"//fix 7\n/fix 7\n")

    assert [text for _, text in accepted(run)] == ["/fix 7", "Fix issue 7"]


def test_what_was_used_is_told_by_model_and_by_tool_and_of_the_last_turn(
    run: Run, office: Office, api: FakeMessagesAPI
) -> None:
    api.reply(text="One", usage=USED)
    office.model_asks_for(MAIL, BOB)
    api.reply(text="Two", usage=USED)
    options = (*office.tools, *PRICED, "--max-cost", "5", "--allow-tool", "send_mail")

    done = run(*options, stdin=b"First\n/cost\nSecond\n/cost\n")

    first, second, last = done.err.split("The last answer: ")
    assert "claude-sonnet-5: 1 answer, 1,200 tokens in, 30 out, 400 read from the cache, cost 0.0154" in first
    assert "Total: 1,200 tokens in, 30 out, 400 read from the cache, cost 0.0154 of at most 5 (--max-cost)" in first
    assert "claude-sonnet-5: 3 answers, 2,410 tokens in, 65 out, 800 read from the cache, cost 0.0314" in second
    assert "send_mail: 2 calls" in second
    assert "Total: 2,410 tokens in, 65 out, 800 read from the cache, cost 0.0314 of at most 5" in second
    assert last.startswith("1,210 tokens in, 35 out, 400 read from the cache, cost 0.016")


def test_the_limit_of_a_session_that_goes_on_is_that_of_its_creation(run: Run, claude: FakeMessagesAPI) -> None:
    run("-p", "Hello", *PRICED, "--max-cost", "5")

    done = run("--continue", *PRICED, stdin=b"/cost\n/model claude-nobody\n/model\n")

    assert "of at most 5 (--max-cost)" in done.err
    assert "--price claude-nobody=IN,OUT" in done.err
    assert "Claude (claude-sonnet-5) answers. /model NAME" in done.err
    assert done.code == 2


def test_another_model_answers_and_the_log_says_so_until_the_default_is_back(run: Run, claude: FakeMessagesAPI) -> None:
    lines = b"One\n/model claude-two\nTwo\n/branch\nThree\n/model default\nFour\n/cost\n"

    done = run("--model", "claude-one", stdin=lines)

    models = ["claude-one", "claude-two", "claude-two", "claude-one"]
    assert [request.body["model"] for request in claude.requests] == models
    answers = logged(run, "answer-recorded")
    assert [event["data"]["model"] for event in answers] == models
    assert "Claude (claude-two) answers from now on, in this run." in done.err
    assert "Claude (claude-one) answers from now on." in done.err
    assert "claude-two: 2 answers" in done.err
    assert "the session was created with the model claude-one; this run has the model claude-two" in done.err


def test_a_new_session_in_a_run_that_went_on_is_created_with_what_options_say(
    run: Run, tmp_path: Path, claude: FakeMessagesAPI
) -> None:
    (tmp_path / ".reenact/skills/review").mkdir(parents=True)
    (tmp_path / ".reenact/skills/review/SKILL.md").write_text("---\ndescription: Reviews\n---\nLook.")
    run("-p", "One", "--system-prompt", "Be kind.")

    run("--continue", "--system-prompt", "Be brief.", stdin=b"/new\nTwo\n")
    run("--continue", "-p", "Three")

    for request in claude.requests[1:]:
        assert (request.system or "").startswith("Be brief.")
        assert "- review: Reviews" in (request.system or "")


def test_a_session_is_resumed_by_as_much_of_its_id_as_no_other_begins_with(run: Run) -> None:
    first = run("-p", "Hello", "--output-format", "json").result["session_id"]
    alone = run("-p", "Hello", "--resume", first.removeprefix("ses_")[:6], "--output-format", "json")
    second = run("-p", "Hello", "--output-format", "json").result["session_id"]

    more = run("-p", "Hello", "--resume", second[:-1])
    several = run("-p", "Hello", "--resume", "ses_")
    none = run("-p", "Hello", "--resume", f"{first}x")

    assert alone.result["session_id"] == first
    assert f"--resume goes on with session {first}" in alone.err
    assert f"--resume goes on with session {second}" in more.err
    assert (several.code, none.code) == (2, 2)
    assert "2 sessions begin with 'ses_'; type more of the id" in several.err
