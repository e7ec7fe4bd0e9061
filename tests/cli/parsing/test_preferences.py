"""settings.json: what holds when several say something, whom it trusts, and whatever may be wrong with it."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.cli.output.console import Console
from reenact.cli.parsing.options import ServeOptions, TalkOptions
from reenact.cli.parsing.preferences import Preferences, preferred, read_preferences, with_provider_settings
from reenact.cli.settings.files import KEYS
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import is_array
from tests.cli.conftest import Json, Outcome, Run
from tests.cli.tools import TOOLS, Office
from tests.examples import examples

VARIABLES: Final = {"model": "ANTHROPIC_MODEL", "db": "REENACT_DB"}
OF_PROJECTS: Final = {"model", "systemPrompt", "maxTurns", "maxCost", "prices", "timeout"}
LIMITS: Final = {"maxTurns", "maxCost", "timeout"}
OF_NEW: Final = {"model", "systemPrompt", "maxTurns", "maxCost", "policy", "mcpConfig"}
Values = Mapping[str, Any]

numbers: Final = st.floats(0.5, 1e6) | st.integers(1, 10**6)
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "model": st.sampled_from(["a", "b"]),
    "systemPrompt": st.text("xy ", max_size=3),
    "maxTurns": st.integers(1, 50),
    "maxCost": numbers,
    "timeout": numbers,
    "outputFormat": st.sampled_from(["text", "json", "stream-json"]),
    "allowedTools": st.lists(st.sampled_from(["send_mail", "mcp__*"]), max_size=2),
    "tools": st.lists(st.sampled_from(["/a.py", "/b.py:c", "reenact:ask_user"]), max_size=2),
    "policy": st.sampled_from(["/p.json", "/q.json"]),
    "mcpConfig": st.sampled_from(["/m.json", "/n.json"]),
    "db": st.sampled_from(["/x.db", "/y.db"]),
}
files: Final = st.fixed_dictionaries({}, optional=VALUES)
prices: Final = st.dictionaries(st.sampled_from("ab"), st.tuples(numbers, numbers), max_size=2)
anything: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@contextlib.contextmanager
def written(user: str | bytes | None, project: str | bytes | None) -> Generator[dict[str, str]]:
    """Write the files; yield the environment of somebody who has them, and is in the project."""
    with tempfile.TemporaryDirectory() as directory:
        for name, content in (("home", user), ("project", project)):
            folder = Path(directory, name, ".reenact")
            folder.mkdir(parents=True)
            if content is not None:
                (folder / "settings.json").write_bytes(content.encode() if isinstance(content, str) else content)
        with contextlib.chdir(Path(directory, "project")):
            yield {"HOME": str(Path(directory, "home"))}


def as_option(value: Any) -> Any:  # noqa: ANN401 - values of every kind
    """Return the value as `TalkOptions` has it."""
    if is_array(value):
        return tuple(value)
    return value


@settings(max_examples=examples(50), deadline=None)
@given(line=files, variables=files, project=files, user=files, resume=st.none() | st.just("ses_1"))
def test_the_first_who_says_something_holds_and_a_project_only_lowers_limits(
    line: Values, variables: Values, project: Values, user: Values, resume: str | None
) -> None:
    options = TalkOptions(prompt="x", resume=resume, prices=("m=1.0,1.0",))
    options = msgspec.structs.replace(options, **{KEYS[name].option: as_option(line[name]) for name in line})
    environ = {VARIABLES[name]: str(variables[name]) for name in VARIABLES if name in variables}

    with written(json.dumps(user), json.dumps(project)) as home:
        console = Console({**home, **environ}, in_ci=True)
        found = preferred(options, frozenset(KEYS[name].option for name in line), console)

    is_limited = "maxCost" in user or ("maxCost" in line and not options.goes_on)
    for name in VALUES:
        said = [value[name] for value in (line,) if name in value]
        is_said_elsewhere = VARIABLES.get(name) in environ or (options.goes_on and name in OF_NEW)
        of_project = name in OF_PROJECTS and not (name == "model" and is_limited)  # for which the user has no price
        files_that_count = () if is_said_elsewhere else (*([project] if of_project else []), user)
        said += [value[name] for value in files_that_count if name in value]
        if name in LIMITS and name not in line and not is_said_elsewhere:
            said = sorted(said)
        usual = getattr(TalkOptions(prompt="x"), KEYS[name].option)
        assert getattr(found, KEYS[name].option) == (as_option(said[0]) if said else usual), name


@settings(max_examples=examples(50), deadline=None)
@given(line=prices, project=prices, user=prices)
def test_a_project_adds_prices_and_changes_none_that_the_user_has(line: Values, project: Values, user: Values) -> None:
    options = TalkOptions(prompt="x", prices=tuple(f"{model}={one},{two}" for model, (one, two) in line.items()))

    with written(json.dumps({"prices": user}), json.dumps({"prices": project})) as environ:
        found = preferred(options, frozenset({"prices"}), Console(environ, in_ci=True))

    costs = dict(price.split("=") for price in found.prices)
    expected = {**project, **user, **line}
    assert {model: tuple(map(float, cost.split(","))) for model, cost in costs.items()} == expected


@pytest.mark.parametrize(
    ("user", "line"),
    [
        ({"prices": {"m": [3, 15]}, "maxCost": 1}, ()),
        ({"prices": {"m": [3, 15]}}, ("--max-cost", "1")),
        ({"prices": {"m": [3, 15]}, "maxCost": 1}, ("--max-cost", "9")),
        ({}, ("--max-cost", "1", "--price", "m=3,15")),
    ],
    ids=str,
)
def test_no_project_changes_what_is_counted_for_a_limit_of_the_user(
    run: Run, home: Path, office: Office, user: Json, line: tuple[str, ...]
) -> None:
    put(home, {"model": "m", **user})
    put(
        office.directory,
        {"model": "free", "maxCost": 1e6, "prices": {"m": [0, 0], "m-20250929": [0, 0], "free": [0, 0]}},
    )
    office.api.reply(text="Hi", usage={"input_tokens": 1_000_000, "output_tokens": 1_000_000})

    done = run("-p", "Hello", "--output-format", "json", *line)

    assert done.result["cost"] == 18
    assert office.api.requests[0].body["model"] == "m"
    assert "prices: a limit of yours is not counted with a project's prices" in done.err
    assert "model: a limit of yours holds for what costs" in done.err


def test_a_project_s_limits_hold_where_they_are_lower(run: Run, home: Path, tmp_path: Path) -> None:
    put(home, {"maxCost": 2, "prices": {"m": [1, 2]}, "timeout": 9})
    put(tmp_path, {"maxCost": 3, "timeout": 4, "maxTurns": 101})

    listed = run("settings", "--output-format", "json")

    found = effective(listed)
    assert (found["maxCost"][:2], found["timeout"][:2]) == ((2.0, "user"), (4.0, "project"))
    assert found["maxTurns"][:2] == (100, "default")
    assert [(one["key"], one["why"]) for one in listed.result["passed_over"]] == [
        ("maxTurns", "a project may only lower it, and it is 100"),
        ("maxCost", "a project may only lower it, and it is 2"),
    ]
    assert "ignored" not in run("-p", "Hello", "--model", "m").err


@settings(max_examples=examples(50), deadline=None)
@given(
    user=st.binary(max_size=30) | st.dictionaries(st.sampled_from([*KEYS, "hooks", "x"]), anything).map(json.dumps),
    project=st.binary(max_size=30) | st.dictionaries(st.sampled_from([*KEYS, "hooks", "x"]), anything).map(json.dumps),
)
def test_whatever_is_in_a_file_it_is_read_or_refused(user: str | bytes, project: str | bytes) -> None:
    found: Preferences | None = None
    with written(user, project) as environ, contextlib.suppress(ConfigurationError):
        found = read_preferences(environ)
    if found is None:
        return

    msgspec.json.encode(found)
    assert all(setting.source == "user" or name in OF_PROJECTS for name, setting in found.settings.items())


def put(folder: Path, content: Json | str | bytes) -> Path:
    """Write the settings of the user whose home it is, or of a project."""
    path = folder / ".reenact" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    content = json.dumps(content, indent=1) if isinstance(content, dict) else content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def home(environ: dict[str, str]) -> Path:
    """Return the user's home."""
    return Path(environ["HOME"])


@pytest.fixture(params=["user", "project"])
def somebody(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Path:
    """Return the user's home or the project, in turn."""
    return home if request.param == "user" else tmp_path


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("", 1, "not valid JSON"),
        ("{\n 'model': 1}", 2, "not valid JSON"),
        ('{"model": "x"\n]', 2, "not valid JSON"),
        ("[]", 1, 'an object, as {"model": "claude-x"}'),
        ('{"model": "x",\n "model": "y"}', 2, "the key 'model' comes twice"),
        ('{"prices": {"m": [1, 2],\n "m": [1, 3]}}', 2, "the key 'm' comes twice"),
        ('{\n"maxCost": NaN}', 2, "NaN"),
        ('{\n"timeout": -Infinity}', 2, "Infinity"),
        ('{\n\n"model": 7}', 3, "model must be a text"),
        ('{\n"model": " "}', 2, "model must be a text that is not blank"),
        ('{\n"model": "a\\u0000"}', 2, "model must be without a NUL"),
        ('{\n"model": "\\ud800"}', 2, "model must be Unicode"),
        ('{\n"systemPrompt": null}', 2, "systemPrompt must be a text"),
        ('{\n"maxTurns": 0}', 2, "maxTurns must be a whole number from 1 on"),
        ('{\n"maxTurns": 1.5}', 2, "maxTurns must be a whole number"),
        ('{\n"maxTurns": true}', 2, "maxTurns must be a whole number"),
        ('{\n"maxTurns": "3"}', 2, "maxTurns must be a whole number"),
        ('{"maxTurns": 1' + "0" * 1000 + "}", 1, "1,001 digits"),
        ('{\n"maxCost": -1}', 2, "maxCost must be an amount of 0 or more"),
        ('{\n"maxCost": 1e400}', 2, "maxCost must be an amount"),
        ('{"maxCost": 1' + "0" * 400 + "}", 1, "maxCost must be an amount"),
        ('{\n"prices": []}', 2, 'prices must be {"MODEL": [IN, OUT]}'),
        ('{\n"prices": {"m": [1]}}', 2, "prices must be"),
        ('{\n"prices": {"m": [1, true]}}', 2, "prices must be"),
        ('{\n"prices": {"": [1, 2]}}', 2, "prices must be"),
        ('{\n"timeout": 0}', 2, "timeout must be a number of seconds above 0"),
        ('{\n"timeout": 1000001}', 2, "timeout must be a number of seconds above 0, at most 1,000,000"),
        ('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", 1, "nested more than 100 deep"),
        (b'{"model": "\xff"}', 1, "not UTF-8"),
        (b"{}\0", 1, "NUL"),
        (b" " * 1_000_001, None, "1,000,001 bytes"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else None,
)
def test_a_file_that_is_wrong_is_bad_configuration_and_says_where(
    run: Run, somebody: Path, content: str | bytes, line: int | None, words: str
) -> None:
    path = put(somebody, content)

    done = run("-p", "Hello", "--output-format", "json")

    assert (done.code, done.result["error"]["type"]) == (2, "invalid_configuration")
    message = done.result["error"]["message"]
    assert message.startswith(f"{path}: " if line is None else f"{path}:{line}: ")
    assert words in message
    assert "reenact: error: " in done.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"provider": "ollama"}, "provider must be openai, claude, mock, or MODULE:NAME"),
        ({"baseUrl": 8080}, "baseUrl must be the URL of an API"),
        ({"baseUrl": "http://localhost:8080"}, "baseUrl needs a provider beside it"),
        ({"outputFormat": "xml"}, 'outputFormat must be "text" or "json" or "stream-json"'),
        ({"allowedTools": "send_mail"}, "allowedTools must be a list of names"),
        ({"allowedTools": [""]}, "allowedTools must be a list of names"),
        ({"tools": "tools.py"}, "tools must be a list of files"),
        ({"tools": ["my_tools"]}, "a module is named on the command line alone"),
        ({"tools": ["os:system"]}, "a module is named on the command line alone"),
        ({"policy": 1}, "policy must be the path of a file"),
        ({"mcpConfig": {}}, "mcpConfig must be the path of a file"),
        ({"db": ""}, "db must be the path of a log"),
    ],
    ids=str,
)
def test_what_only_the_user_may_say_is_checked_where_the_user_says_it(
    run: Run, home: Path, tmp_path: Path, content: Json, words: str
) -> None:
    put(tmp_path, content)
    of_project = run("-p", "Hello")
    put(home, content)
    of_user = run("-p", "Hello")

    assert (of_project.code, of_project.out) == (0, "Hello from mock!\n")
    assert f"ignored: {next(iter(content))}: a project may not" in of_project.err
    assert of_user.code == 2
    assert words in of_user.err


def test_a_wrong_file_is_told_of_by_every_command_that_needs_it_and_by_no_other(run: Run, home: Path) -> None:
    put(home, "{")

    needing = [run(*words) for words in (["log"], ["sessions"], ["verify"], ["settings"], ["-p", "x"])]
    others = [run(*words) for words in (["sessions", "--db", "missing.db"], ["extensions"], ["completion", "fish"])]

    assert [done.code for done in needing] == [2] * 5
    assert all("settings.json:1: it is not valid JSON" in done.err for done in needing)
    assert not any("settings.json:1" in done.err for done in others)
    assert run("sessions", REENACT_DB="missing.db").err.count("settings.json:1") == 0


def test_what_is_no_regular_file_is_refused_and_nothing_waits_for_it(run: Run, home: Path, tmp_path: Path) -> None:
    path = put(home, "{}")

    def refused() -> str:
        done = run("-p", "Hello")
        assert done.code == 2
        return done.err

    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in refused()
    path.unlink()
    path.mkdir()
    assert "a folder" in refused()
    path.rmdir()
    path.symlink_to("nowhere")
    assert "a link that leads nowhere" in refused()
    path.unlink()
    path.symlink_to("settings.json")
    assert "cycle" in refused()
    path.unlink()
    put(tmp_path / "home", {"model": "x"})
    (tmp_path / ".reenact").mkdir()
    (tmp_path / ".reenact" / "settings.json").symlink_to("/etc/hostname")
    assert "leads out of the project" in refused()


def test_a_link_of_the_user_s_may_lead_anywhere(run: Run, home: Path, tmp_path: Path) -> None:
    put(home, "{}").unlink()
    (tmp_path / "elsewhere.json").write_text('{"outputFormat": "json"}')
    (home / ".reenact" / "settings.json").symlink_to(tmp_path / "elsewhere.json")

    assert run("-p", "Hello").result["success"]


def test_where_the_project_is_the_home_its_file_is_the_user_s(
    run: Run, home: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    environ["HOME"] = str(tmp_path)
    put(tmp_path, {"outputFormat": "json"})

    assert run("-p", "Hello").result["success"]
    assert home.is_dir()


def test_paths_of_the_user_s_are_from_where_the_file_is(run: Run, home: Path, office: Office) -> None:
    (home / ".reenact").mkdir()
    (home / ".reenact" / "tools.py").write_text(TOOLS)
    (home / "policy.json").write_text('{"deny": ["get_weather"]}')
    put(
        home,
        {"tools": ["tools.py"], "policy": "~/policy.json", "allowedTools": ["send_mail"], "db": "../kept.db"},
    )
    office.model_asks_for(("send_mail", {"to": "ann", "body": "Hi"}), ("get_weather", {"city": "Rome"}))

    done = run("-p", "Write", "--output-format", "json")

    assert [call["is_error"] for call in done.result["tool_calls"]] == [False, True]
    assert (home / "kept.db").exists()
    assert run("sessions").out.split(maxsplit=1)[0] == done.result["session_id"]
    assert "warning" not in done.err


def test_settings_for_new_sessions_are_no_failure_of_one_that_goes_on(run: Run, home: Path) -> None:
    put(home, {"maxTurns": 3, "maxCost": 1, "prices": {"m": [1, 2]}, "policy": "policy.json", "model": "m"})
    (home / ".reenact" / "policy.json").write_text("{}")
    first = run("-p", "Hello", "--output-format", "json")

    again = run("-p", "Hello", "--continue", "--output-format", "json")
    by_id = run("-p", "Hello", "--resume", first.result["session_id"])

    assert (first.code, again.code, by_id.code) == (0, 0, 0)
    assert again.result["session_id"] == first.result["session_id"]
    assert "warning" not in again.err


def test_a_session_that_is_begun_while_another_goes_on_is_as_settings_say(run: Run, home: Path, office: Office) -> None:
    run("-p", "Hello", *office.tools)
    for count in range(6):
        office.model_asks_for(("read_lines", {"count": count}))
    put(home, {"maxTurns": 2, "systemPrompt": "Be brief.", "policy": "policy.json"})
    (home / ".reenact" / "policy.json").write_text('{"deny": ["read_lines"]}')

    done = run("--continue", *office.tools, stdin=b"/new\nGo\n")

    first, *asked = office.api.requests
    assert (done.code, len(asked)) == (0, 2)
    assert "Be brief." not in json.dumps(first.body)
    assert "Be brief." in json.dumps(asked[0].body["system"])
    assert office.results[0]["is_error"]


def test_limits_of_settings_hold(run: Run, home: Path, tmp_path: Path, office: Office) -> None:
    for count in range(5):
        office.model_asks_for(("read_lines", {"count": count}))
    put(home, {"maxTurns": 5})
    put(tmp_path, {"maxTurns": 2, "systemPrompt": "Be brief.", "model": "claude-x"})

    done = run("-p", "Go", *office.tools, "--output-format", "json")

    assert (done.result["stop_reason"], len(office.api.requests)) == ("max_steps_exceeded", 2)
    assert office.api.requests[0].body["model"] == "claude-x"
    assert "Be brief." in json.dumps(office.api.requests[0].body["system"])


def test_the_output_of_a_chat_is_no_matter_of_settings(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home, {"outputFormat": "json"})
    options = TalkOptions()
    environ = {"HOME": str(home)}

    monkeypatch.setattr("reenact.cli.output.console.Console.has_person", True)
    at_a_terminal = preferred(options, frozenset(), Console(environ, in_ci=False))
    monkeypatch.setattr("reenact.cli.output.console.Console.has_person", False)
    in_a_pipe = preferred(options, frozenset(), Console(environ, in_ci=False))

    assert at_a_terminal.output_format == "text"
    assert in_a_pipe.output_format == "json"


def test_what_is_ignored_is_named_once(run: Run, home: Path, tmp_path: Path) -> None:
    put(home, {"$schema": "x", "permissions": {}, "env": {"A": "b"}, "hooks": {}, "maxTurn": 1, "zzz": 1})
    put(tmp_path, {"tools": ["x.py"], "mcpConfig": "x.json", "hooks": {}})

    done = run("-p", "Hello")

    warned = [line for line in done.err.splitlines() if "ignored" in line]
    assert done.code == 0
    assert len(warned) == 5
    assert "permissions, env, hooks: it is a setting of Claude Code" in warned[0]
    assert "settings.json:8: ignored: maxTurn: there is no such setting; is `maxTurns` meant?" in warned[1]
    assert "zzz: there is no such setting" in warned[2]
    assert "tools, mcpConfig: a project may not name what runs" in warned[3]
    assert "$schema" not in done.err
    assert not any("ignored" in run(*words).err for words in (["log"], ["sessions"]))


def test_keys_cannot_drive_the_terminal(run: Run, tmp_path: Path) -> None:
    put(tmp_path, json.dumps({"\x1b[2J\u202e\n": 1, "model": "x"}))

    done = run("-p", "Hello")
    listed = run("settings")

    assert (done.code, listed.code) == (0, 0)
    assert not set(done.err + listed.out) & set("\x1b\u202e")


def effective(done: Outcome) -> dict[str, tuple[Any, str, str | None]]:
    return {one["name"]: (one["value"], one["source"], one["place"]) for one in done.result["settings"]}


def test_settings_are_listed_with_where_they_come_from(run: Run, home: Path, tmp_path: Path) -> None:
    of_user = put(home, {"model": "a", "timeout": 9, "allowedTools": ["x"], "db": "me.db", "prices": {"m": [1, 2]}})
    of_project = put(tmp_path, {"model": "b", "maxTurns": 3, "db": "theirs.db"})

    listed = run("settings", "--output-format", "json", ANTHROPIC_MODEL="c")
    named = run("--db", "x.db", "settings", "--output-format", "json", REENACT_DB="postgres://me:secret@host/log")
    variable = run("settings", "--output-format", "json", REENACT_DB="postgres://me:secret@host/log")
    page = run("settings").out

    found = effective(listed)
    assert list(found) == list(KEYS)
    assert found["model"] == ("c", "environment", "ANTHROPIC_MODEL")
    assert found["maxTurns"] == (3, "project", str(of_project))
    assert found["timeout"] == (9.0, "user", str(of_user))
    assert found["db"] == (str(of_user.parent / "me.db"), "user", str(of_user))
    assert found["outputFormat"] == ("text", "default", None)
    assert listed.result["files"] == [str(of_user), str(of_project)]
    assert [(one["key"], one["line"]) for one in listed.result["passed_over"]] == [("db", 4)]
    assert effective(named)["db"] == ("x.db", "command line", "--db")
    assert effective(variable)["db"] == ("postgres://…", "environment", "REENACT_DB")
    assert effective(named)["model"][0] == "b"
    assert f'model         "b"  ({of_project})' in page
    assert "ignored: db, " in page


MINE: Final = {"provider": "claude", "baseUrl": "http://proxy:8080", "model": "mine"}
OWN: Final = {"provider": "my.models:Own", "model": "mine"}


@pytest.mark.parametrize(
    ("user", "project", "line", "environ", "answers"),
    [
        (MINE, {}, {}, {}, ("claude", "http://proxy:8080", "mine")),
        (MINE, {}, {"provider": "claude"}, {}, ("claude", "http://proxy:8080", "mine")),
        (MINE, {}, {"base_url": "http://x"}, {}, ("claude", "http://x", "mine")),
        (MINE, {}, {"provider": "mock"}, {}, ("mock", None, None)),
        (MINE, {}, {"provider": "my.models:Own", "model": "other"}, {}, ("my.models:Own", None, "other")),
        (MINE, {}, {}, {"REENACT_PROVIDER": "my.models:Own"}, (None, None, None)),
        (MINE, {}, {}, {"REENACT_PROVIDER": "claude"}, (None, "http://proxy:8080", "mine")),
        (MINE, {}, {}, {"MOCK_LLM": "true"}, (None, None, None)),
        (MINE, {}, {}, {"ANTHROPIC_BASE_URL": "http://x"}, ("claude", None, "mine")),
        (MINE, {}, {}, {"ANTHROPIC_MODEL": "other"}, ("claude", "http://proxy:8080", None)),
        (OWN, {}, {}, {"ANTHROPIC_MODEL": "other"}, ("my.models:Own", None, "mine")),
        ({"model": "mine"}, {}, {"provider": "my.models:Own"}, {}, ("my.models:Own", None, "mine")),
    ],
)
def test_an_address_and_a_model_are_for_the_provider_beside_which_they_stand(
    user: Json, project: Json, line: Json, environ: dict[str, str], answers: tuple[str | None, ...]
) -> None:
    with written(json.dumps(user), json.dumps(project)) as home:
        console = Console({**home, **environ}, in_ci=True)
        talk = preferred(TalkOptions(**line), frozenset(line), console)
        serve = with_provider_settings(ServeOptions(**line), console.environ)

    assert (talk.provider, talk.base_url, talk.model) == answers
    assert (serve.provider, serve.base_url, serve.model) == answers


@pytest.mark.parametrize(
    ("user", "line", "model"),
    [({}, {}, "theirs"), (MINE, {}, "theirs"), (OWN, {}, "mine"), ({}, {"provider": "my.models:Own"}, None)],
)
def test_a_project_names_models_of_claude_alone(user: Json, line: Json, model: str | None) -> None:
    with written(json.dumps(user), json.dumps({"model": "theirs", "provider": "mock"})) as home:
        found = preferred(TalkOptions(**line), frozenset(line), Console(home, in_ci=True))
        served = with_provider_settings(ServeOptions(**line), home)

    assert found.model == model
    assert served.model == user.get("model")


def test_who_answers_is_listed_with_where_that_comes_from(run: Run, home: Path) -> None:
    of_user = put(home, {"provider": "claude", "baseUrl": "http://me:secret@proxy:8080/v1?key=secret", "model": "mine"})

    listed, mocked, named = (
        run("settings", "--output-format", "json", **variables)
        for variables in ({}, {"MOCK_LLM": "1"}, {"REENACT_PROVIDER": "a:b", "ANTHROPIC_BASE_URL": "http://x"})
    )

    assert effective(listed)["provider"] == ("claude", "user", str(of_user))
    assert effective(listed)["baseUrl"] == ("http://proxy:8080/v1", "user", str(of_user))
    assert effective(mocked)["provider"] == ("mock", "environment", "MOCK_LLM")
    assert effective(mocked)["baseUrl"] == (None, "default", None)
    assert effective(named)["provider"] == ("a:b", "environment", "REENACT_PROVIDER")
    assert (effective(named)["baseUrl"][0], effective(named)["model"][0]) == (None, None)
    assert [one["key"] for one in named.result["passed_over"]] == ["baseUrl", "model"]


def test_who_has_no_settings_is_told_so(run: Run) -> None:
    listed = run("settings")

    assert listed.code == 0
    assert "There is no settings.json" in listed.out
    assert "maxTurns      100  (default)" in listed.out
