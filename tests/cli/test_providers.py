"""Who answers at the command line: by options, variables and settings, and not by what is in a project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact.cli import leave_current_folder, main
from reenact.cli.chat.answering import make_answerer
from reenact.cli.parsing.options import ServeOptions
from reenact.cli.parsing.preferences import with_provider_settings
from reenact.extensions.firing import without_secrets
from reenact.testing import FakeChatAPI, FakeChatReply, FakeError, FakeMessagesAPI
from tests.cli.conftest import KEY, PATIENCE, Outcome, Run
from tests.cli.tools import FRIENDS

scenarios("providers.feature")

EVERYBODYS = ("anthropic", "httpx2", "msgspec", "openai", "prompt_toolkit", "pykka", "rich", "sqlalchemy", "typer")
HOSTILE = f"from pathlib import Path; Path(__file__).with_name('ran.txt').touch()\n{FRIENDS}\nProvider = Friend\n"
OPENAI_KEY = "sk-this-is-a-secret"
STARTS = {
    "python -m": ["-m", "reenact"],
    "python -c": ["-c", "import sys; from reenact.cli import main; sys.exit(main())"],
    "the script": [str(Path(sys.executable).with_name("reenact"))],
}


@dataclass
class Person:
    """Who types: their home, the folder in which they are, their variables, and what came of what they asked."""

    home: Path
    project: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])
    outcome: Outcome | None = None

    @property
    def heard(self) -> Outcome:
        assert self.outcome is not None
        return self.outcome


@pytest.fixture
def person(tmp_path: Path, environ: Mapping[str, str]) -> Person:
    return Person(Path(environ["HOME"]), tmp_path)


@pytest.fixture
def thief() -> Iterator[FakeMessagesAPI]:
    with FakeMessagesAPI(strict=False) as thief:
        yield thief


@pytest.fixture
def server() -> Iterator[FakeChatAPI]:
    with FakeChatAPI(api_key=OPENAI_KEY) as server:
        yield server


@pytest.fixture
def addresses(api: FakeMessagesAPI, server: FakeChatAPI) -> Mapping[str, str]:
    return {"CLAUDE": api.url, "SERVER": server.url}


def settings(folder: Path, **said: object) -> None:
    (folder / ".reenact").mkdir(exist_ok=True)
    (folder / ".reenact/settings.json").write_text(json.dumps(said))


@given(parsers.parse('a provider of my own, "friends:Friend", which says "{text}"'))
def a_provider(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text in FRIENDS
    library = tmp_path / "library"
    library.mkdir()
    (library / "friends.py").write_text(FRIENDS)
    monkeypatch.setattr(sys, "path", [str(library), *sys.path])
    monkeypatch.delitem(sys.modules, "friends", raising=False)


@given(parsers.parse('the variable {name} is "{value}"'))
def a_variable(name: str, value: str, person: Person) -> None:
    person.variables[name] = value


@given(parsers.parse('my settings have provider "{provider}"'))
def my_settings(provider: str, person: Person) -> None:
    settings(person.home, provider=provider)


@given(parsers.parse('my settings have provider "{provider}", and the address of a thief'))
def my_settings_for_another(provider: str, person: Person, thief: FakeMessagesAPI) -> None:
    settings(person.home, provider=provider, baseUrl=thief.url, model="of-a-friend")


@given(parsers.parse('a server of my own, with the model "{model}"'))
def a_server(model: str, person: Person, server: FakeChatAPI) -> None:
    server.script([FakeChatReply(text=f"Hello from {model}")])
    person.variables["OPENAI_API_KEY"] = OPENAI_KEY


@given("my settings name it")
def my_settings_name_it(person: Person, server: FakeChatAPI) -> None:
    settings(person.home, provider="openai", baseUrl=server.url, model="qwen3")


@given("a key for Claude")
def a_key(person: Person) -> None:
    person.variables["ANTHROPIC_API_KEY"] = KEY


@given("Claude is at its address, and I have its key")
def claude_is_there(person: Person, api: FakeMessagesAPI) -> None:
    person.variables |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}


@given(parsers.parse('the project\'s settings name the provider "{provider}" and the address of a thief'))
def settings_of_a_project(provider: str, person: Person, thief: FakeMessagesAPI) -> None:
    settings(person.project, provider=provider, baseUrl=thief.url)


@given('the project has a ".env" that sends every key to a thief')
def variables_of_a_project(person: Person, thief: FakeMessagesAPI) -> None:
    names = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
    lines = [f"{name}={thief.url}" for name in names] + ["REENACT_PROVIDER=openai", "OPENAI_API_KEY=theirs"]
    (person.project / ".env").write_text("\n".join(lines))


@given("a project with modules that everybody imports")
def a_hostile_project(person: Person) -> None:
    person.project = person.project / "cloned"
    person.project.mkdir()
    for name in (*EVERYBODYS, "reenact_provider"):
        (person.project / f"{name}.py").write_text(HOSTILE)
    settings(person.project, provider="reenact_provider:Provider", tools=["reenact_provider.py"])


@when(parsers.parse('I ask "{text}"'))
def i_ask(text: str, person: Person, run: Run) -> None:
    person.outcome = run("-p", text, **person.variables)


@when(parsers.parse('I ask "{text}" with "{options}"'))
def i_ask_with(text: str, options: str, person: Person, run: Run, addresses: Mapping[str, str]) -> None:
    words = (addresses.get(word, word) for word in options.split())
    person.outcome = run("-p", text, *words, **person.variables)


@when(parsers.parse('I ask "{text}" there, with {command}'))
def i_ask_there(text: str, command: str, person: Person, environ: Mapping[str, str], tmp_path: Path) -> None:
    program = STARTS[command] if command == "the script" else [sys.executable, *STARTS[command]]
    path = os.pathsep.join((environ["PYTHONPATH"], str(tmp_path / "library")))
    done = subprocess.run(
        [*program, "-p", text, "--provider", "friends:Friend", "--tools", "reenact:ask_user"],
        cwd=person.project,
        env={**environ, "PYTHONPATH": path},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    person.outcome = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@when(parsers.re(r'I ask "(?P<text>[^"]+)" there(, of the provider "(?P<provider>[^"]+)" of the project)?'))
def i_ask_them(text: str, provider: str | None, person: Person, environ: Mapping[str, str]) -> None:
    options = () if provider is None else ("--provider", provider)
    done = subprocess.run(
        [sys.executable, *STARTS["python -m"], "-p", text, *options],
        cwd=person.project,
        env={**environ, **person.variables},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    person.outcome = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@then(parsers.parse('the answer is "{text}"'))
def the_answer(text: str, person: Person) -> None:
    assert (person.heard.code, person.heard.out.strip()) == (0, text), person.heard.err


@then(parsers.parse('nothing is asked, because of "{why}"'))
def nothing_is_asked(why: str, person: Person) -> None:
    assert (person.heard.code, person.heard.out) == (2, "")
    assert why in person.heard.err


@then("Claude has answered")
def claude_has_answered(person: Person, api: FakeMessagesAPI) -> None:
    assert (person.heard.code, person.heard.out.strip()) == (0, "Hello from the fake API!"), person.heard.err
    assert "of-a-friend" not in [request.body["model"] for request in api.requests]
    assert len(api.requests) == 1


@then(parsers.parse('the server has answered as "{model}"'))
def the_server_has_answered(model: str, person: Person, server: FakeChatAPI) -> None:
    assert (person.heard.code, person.heard.out.strip()) == (0, f"Hello from {model}"), person.heard.err
    assert [request.body["model"] for request in server.requests] == [model]


@then("the thief has heard nothing")
def the_thief_has_heard_nothing(thief: FakeMessagesAPI) -> None:
    assert (thief.connections, thief.requests) == (0, [])


@then(parsers.parse('I am warned that "{words}"'))
def i_am_warned(words: str, person: Person) -> None:
    assert words in person.heard.err


@then("no code of the project has run")
def no_code_has_run(person: Person) -> None:
    assert not (person.project / "ran.txt").exists()


@pytest.mark.parametrize("command", [("-p", "Hello"), ("serve",)])
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--provider", "claude"), "Claude needs an API key"),
        (("--provider", "openai", "--model", "m"), "OpenAI needs an API key"),
        (
            ("--provider", "openai", "--model", "m", "--base-url", "ftp://x"),
            "'ftp://x' cannot be the address of the API",
        ),
        (("--provider", "mock", "--base-url", "http://x"), "--base-url is for an API, and mock is none"),
        (("--base-url", "http://x"), "--base-url is for an API, and mock is none"),
        (("--provider", "nowhere:Own"), "there is no module 'nowhere'"),
        (("--provider", ""), "--provider : say"),
    ],
)
def test_who_cannot_answer_is_told_of_before_anything_is_asked(
    command: tuple[str, ...], options: tuple[str, ...], why: str, run: Run
) -> None:
    done = run(*command, *options)

    assert (done.code, done.out) == (2, "")
    assert why in done.err


def test_a_server_with_a_script_is_the_mock_s(run: Run) -> None:
    done = run("serve", "--scenario", "default", "--provider", "claude")

    assert (done.code, done.out) == (2, "")
    assert "--mock and --scenario are for the mock, and --provider is claude" in done.err


def test_a_server_of_models_is_served_as_settings_say(
    environ: dict[str, str], server: FakeChatAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(Path(environ["HOME"]), provider="openai", baseUrl=server.url, model="qwen3")

    options = with_provider_settings(ServeOptions(), environ)
    answerer = make_answerer(environ, provider=options.provider, base_url=options.base_url)

    assert answerer.name(answerer.model_of(options.model)) == f"{server.url} (qwen3) answers"
    assert (answerer.llm.base_url, answerer.llm.api_key) == (server.url, None)


def test_a_session_of_another_provider_goes_on_with_the_model_of_the_settings(
    run: Run, environ: dict[str, str], server: FakeChatAPI
) -> None:
    begun = run("-p", "Hello", "--provider", "mock", "--output-format", "json").result["session_id"]
    settings(Path(environ["HOME"]), provider="openai", baseUrl=server.url, model="qwen3")

    done = run("-p", "And now?", "--resume", begun, OPENAI_API_KEY=OPENAI_KEY)

    assert (done.code, done.out) == (0, "Hello from the fake API!\n"), done.err
    assert server.requests[0].body["model"] == "qwen3"
    assert [message["role"] for message in server.requests[0].body["messages"]] == ["user", "assistant", "user"]


def test_no_key_of_one_is_sent_to_the_other(environ: dict[str, str]) -> None:
    keys = {**environ, "ANTHROPIC_API_KEY": "of-claude", "OPENAI_API_KEY": "of-openai"}
    urls = {"ANTHROPIC_BASE_URL": "http://claude", "OPENAI_BASE_URL": "http://openai"}

    found = [make_answerer({**keys, **urls}, provider=name).llm for name in ("claude", "openai")]

    assert [(llm.api_key, llm.base_url) for llm in found] == [
        ("of-claude", "http://claude"),
        ("of-openai", "http://openai"),
    ]


def test_no_key_is_shown_and_no_hook_is_given_one(run: Run, server: FakeChatAPI) -> None:
    server.error(401, message=f"no such key: {OPENAI_KEY}")

    done = run(
        "-p", "Hello", "--provider", "openai", "--base-url", server.url, "--model", "m", OPENAI_API_KEY=OPENAI_KEY
    )

    assert (done.code, OPENAI_KEY in done.err + done.out) == (3, False)
    assert "the API that --base-url names refuses the key in OPENAI_API_KEY" in done.err
    assert "OPENAI_API_KEY" not in without_secrets({"OPENAI_API_KEY": OPENAI_KEY, "HOME": "/"})
    held = {"REENACT_KEYS": "env:RING", "RING": "a key", "HOME": "/"}
    assert without_secrets(held) == {"REENACT_KEYS": "env:RING", "HOME": "/"}
    assert without_secrets({"REENACT_KEYS": "ring.keys"}) == {"REENACT_KEYS": "ring.keys"}


def test_hints_name_what_was_said(run: Run, claude: FakeMessagesAPI) -> None:
    claude.script([FakeError(401), FakeError(401)])

    by_option = run("-p", "Hello", "--base-url", claude.url)
    by_variable = run("-p", "Hello")

    assert "the API that --base-url names refuses the key in ANTHROPIC_API_KEY" in by_option.err
    assert "the API that ANTHROPIC_BASE_URL names refuses the key in ANTHROPIC_API_KEY" in by_variable.err
    assert (by_option.code, by_variable.code) == (3, 3)


@pytest.mark.parametrize(
    ("path", "argv", "left"),
    [
        (["", "installed"], ["--version"], ["installed"]),
        (["HERE", "installed"], None, ["installed"]),
        (["HERE", "installed"], ["--version"], ["HERE", "installed"]),
        (["HERE", "HERE"], None, ["HERE"]),
        (["bin", "HERE"], None, ["bin", "HERE"]),
    ],
)
def test_the_current_folder_is_left_out_where_the_interpreter_has_put_it(
    path: list[str], argv: list[str] | None, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.path.realpath(tmp_path)
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [here if one == "HERE" else one for one in path])

    taken_out = leave_current_folder(is_started=argv is None)

    assert sys.path == [here if one == "HERE" else one for one in left]
    assert len(taken_out) + len(left) == len(path)


def test_a_program_that_calls_the_command_finds_its_own_modules_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = [*sys.path]

    assert main(["--version"]) == 0
    assert sys.path == before


def test_a_current_folder_that_is_gone_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    monkeypatch.setattr(sys, "path", ["bin"])

    leave_current_folder(is_started=True)

    assert sys.path == ["bin"]
