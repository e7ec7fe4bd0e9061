"""Test cases and configurations out of files, and what is said of those that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reenact.terminal.cases.loading import CaseFile, TerminalTestCase, TestCategory, load_cases, load_config
from reenact.terminal.cases.steps import InteractionScript, InteractionStep
from reenact.terminal.config import Parallel, Reporting, TerminalSize, TerminalTestConfig
from reenact.terminal.errors import TerminalTestErrorType
from reenact.terminal.fixture.options import (
    ConfigFixture,
    ExtensionFixture,
    FixtureOptions,
    MockFixture,
    MockResponse,
    SkillDefinition,
)
from tests.terminal.raising import raises

SUITE = """
suite: everything
config:
  globalTimeout: 5
  defaultTerminalSize: {cols: 100}
  cliCommand: 'python "my program.py"'
  defaultEnv: {LEVEL: "1"}
  reporting: {formats: [junit, html], outputDir: out}
  parallel: {maxWorkers: 2}
  engine: ghostty
defaults:
  command: sh -c
  category: error
  retries: 1
  fixture:
    env: {A: a, B: b}
    config: {claudeMd: Be brief.}
tests:
  - name: all of it
    description: with everything
    command: [less, "a file"]
    cliArgs: [-N, "two words"]
    category: ci
    expectedExitCode: 3
    timeout: 2.5
    skip: not on Mondays
    only: true
    retries: 0
    size: {cols: 40, rows: 10}
    script:
      name: a talk
      description: of two
      steps:
        - waitForExit
    fixture:
      createTempDir: true
      tempDirPrefix: t-
      env: {B: bb, C: c}
      config:
        userConfig: {model: x, list: [1, null]}
      extensions:
        skills: [{name: greet, content: Hello}]
        user: true
      mocks:
        apiResponses:
          - {text: Hi, delay: 1}
          - {tools: [[search, {query: x}]], stallAfter: 2}
        filesystem: {a.txt: "1"}
  - name: nearly nothing
"""


def test_a_file_of_tests_has_every_field(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(SUITE)

    loaded = load_cases(file)

    assert loaded.file == str(file)
    assert loaded.name == "everything"
    assert loaded.config == TerminalTestConfig(
        global_timeout=5.0,
        default_terminal_size=TerminalSize(100, 24),
        cli_command="python 'my program.py'",
        default_env={"LEVEL": "1"},
        reporting=Reporting(formats=("junit", "html"), output_dir="out"),
        parallel=Parallel(enabled=True, max_workers=2),
        engine="ghostty",
    )
    assert loaded.cases == (
        TerminalTestCase(
            name="all of it",
            description="with everything",
            command=("less", "a file"),
            cli_args=("-N", "two words"),
            category=TestCategory.CI,
            expected_exit_code=3,
            timeout=2.5,
            skip="not on Mondays",
            only=True,
            retries=0,
            size=TerminalSize(40, 10),
            script=InteractionScript(name="a talk", description="of two", steps=(InteractionStep.wait_for_exit(),)),
            fixture=FixtureOptions(
                create_temp_dir=True,
                temp_dir_prefix="t-",
                env={"A": "a", "B": "bb", "C": "c"},
                config=ConfigFixture(user_config={"model": "x", "list": [1, None]}, claude_md="Be brief."),
                extensions=ExtensionFixture(skills=(SkillDefinition(name="greet", content="Hello"),), user=True),
                mocks=MockFixture(
                    api_responses=(
                        MockResponse(text="Hi", delay=1.0),
                        MockResponse(tools=(("search", {"query": "x"}),), stall_after=2),
                    ),
                    filesystem={"a.txt": "1"},
                ),
            ),
        ),
        TerminalTestCase(
            name="nearly nothing",
            command=("sh", "-c"),
            category=TestCategory.ERROR,
            retries=1,
            script=InteractionScript(name="nearly nothing", steps=()),
            fixture=FixtureOptions(env={"A": "a", "B": "b"}, config=ConfigFixture(claude_md="Be brief.")),
        ),
    )


def test_a_file_may_hold_one_test_which_is_named_for_it(tmp_path: Path) -> None:
    file = tmp_path / "greeting.json"
    file.write_text(json.dumps({"command": "echo hi", "script": [{"wait": "hi"}]}))

    loaded = load_cases(file)

    script = InteractionScript(name="greeting", steps=(InteractionStep.wait("hi"),))
    assert loaded == CaseFile(
        name="greeting",
        file=str(file),
        cases=(TerminalTestCase(name="greeting", command=("echo", "hi"), script=script),),
    )


def test_fields_may_be_written_in_snake_case(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("{cli_args: [x], expected_exit_code: 1, fixture: {temp_dir_prefix: p, mocks: {api_responses: []}}}")

    (case,) = load_cases(file).cases

    assert case.cli_args == ("x",)
    assert case.expected_exit_code == 1
    assert case.fixture == FixtureOptions(temp_dir_prefix="p", mocks=MockFixture(api_responses=()))


def test_the_directory_of_a_file_stands_for_its_name(tmp_path: Path) -> None:
    here = tmp_path / "a 'b'"
    here.mkdir()
    (here / "a.yaml").write_text(
        "config: {cliCommand: 'sh ${HERE}/x', defaultEnv: {P: '${HERE}:x'}}\n"
        "tests: [{name: a, command: 'sh ${HERE}/y', cliArgs: ['-f${HERE}'], fixture: {env: {Q: '${HERE}'}}}]"
    )

    loaded = load_cases(here / "a.yaml")

    assert loaded.config.cli_command == f"sh '{tmp_path}/a '\"'\"'b'\"'\"'/x'"
    assert loaded.config.default_env == {"P": f"{here}:x"}
    assert loaded.cases[0].command == ("sh", f"{here}/y")
    assert loaded.cases[0].cli_args == (f"-f{here}",)
    assert loaded.cases[0].fixture == FixtureOptions(env={"Q": str(here)})


def test_what_a_file_says_comes_before_the_configuration_value_by_value(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "{globalTimeout: 9, defaultEnv: {A: a, B: b}, defaultTerminalSize: {cols: 50, rows: 5}}"
    )
    (tmp_path / "tests.yaml").write_text(
        "{tests: [{name: a}], config: {defaultEnv: {B: bb}, defaultTerminalSize: {rows: 6}}}"
    )

    config = load_config(tmp_path / "config.yaml")
    loaded = load_cases(tmp_path / "tests.yaml", config)

    assert config == TerminalTestConfig(
        global_timeout=9.0, default_env={"A": "a", "B": "b"}, default_terminal_size=TerminalSize(50, 5)
    )
    assert loaded.config == TerminalTestConfig(
        global_timeout=9.0, default_env={"A": "a", "B": "bb"}, default_terminal_size=TerminalSize(50, 6)
    )
    assert config.default_env == {"A": "a", "B": "b"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("tets: []", "line 2: tets: unknown field tets; expected one of config, defaults, suite, tests"),
        ("suite: 5", "line 2: suite: expected text, got the number 5; in quotes it is text"),
        ("defaults: {name: x}", "line 2: defaults.name: unknown field name; expected one of category, cliArgs,"),
        ("defaults: {script: []}", "line 2: defaults.script: unknown field script"),
        ("defaults: {tiemout: 5}", "line 2: defaults.tiemout: unknown field tiemout"),
        (
            "config: {globalTimeout: 0}",
            "line 2: config: globalTimeout must be a number of seconds above 0, 86,400 (a day) at most, not 0.0",
        ),
        ("config: {globalTimeout: 5s}", "line 2: config.globalTimeout: expected a number, got '5s'"),
        ("config: {globalTimeout: .inf}", "line 2: config.globalTimeout: expected a number, got the number inf"),
        ("config: {reporting: {formats: [xml]}}", "config.reporting.formats[0]: expected one of console, html,"),
        ("config: {parallel: {maxWorkers: 0}}", "line 2: config.parallel: maxWorkers must be 1 or more, not 0"),
        ("config: {parallel: {enabled: 1}}", "config.parallel.enabled: expected true or false, got the number 1"),
        ("config: {defaultTerminalSize: {cols: 0}}", "config.defaultTerminalSize: cols is 0; a terminal has between"),
        ("config: {engine: pyte}", "config.engine: expected one of ghostty, got 'pyte'"),
        ("config: {cliCommand: ''}", "config.cliCommand: the name of a program is missing"),
        ("config: {defaultEnv: {A: 1}}", "config.defaultEnv.A: expected text, got the number 1; in quotes it"),
        ("config: {defaultEnv: [A=1]}", "config.defaultEnv: expected a mapping, got a list"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, line: str, problem: str) -> None:
    assert_refused(tmp_path, f"tests: []\n{line}", problem)


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("{}", "the field name is missing"),
        ("{name: ''}", "the name of the test is empty"),
        ("{name: first}", "there is a test 'first' already"),
        ("{name: x, comand: y}", "comand: unknown field comand; expected one of category, cliArgs, command,"),
        ("{name: x, command: ''}", "command: the name of a program is missing"),
        ("{name: x, command: []}", "command: the name of a program is missing"),
        ('{name: x, command: "\'a"}', "command: this is not a command line: no closing quotation"),
        ("{name: x, command: [ls, 5]}", "command[1]: expected text, got the number 5; in quotes it is text"),
        ("{name: x, cliArgs: -l}", "cliArgs: expected a list, got '-l'"),
        ("{name: x, command: true}", "command: expected text, got true; in quotes it is text"),
        ("{name: x, category: unit}", "category: expected one of ci, error, extension, interactive, non-inter"),
        ("{name: x, expectedExitCode: '0'}", "expectedExitCode: expected a whole number or null, got '0'"),
        ("{name: x, expectedExitCode: 1.5}", "expectedExitCode: expected a whole number or null, got the numb"),
        ("{name: x, expectedSignal: TERM}", "expectedSignal must be the name of a signal, as SIGTERM, not 'TERM'"),
        ("{name: x, expectedSignal: SIGHUP, expectedExitCode: 0}", "give expectedExitCode or expectedSignal"),
        ("{name: x, timeout: 0}", "timeout must be a number of seconds above 0, 86,400 (a day) at most, not 0.0"),
        ("{name: x, timeout: true}", "timeout: expected a number or null, got true"),
        ("{name: x, retries: -1}", "retries must be 0 or more, not -1"),
        ("{name: x, skip: 1}", "skip: expected true or false or text, got the number 1"),
        ("{name: x, only: please}", "only: expected true or false, got 'please'"),
        ("{name: x, size: {rows: 99999}}", "size: rows is 99999; a terminal has between 1 and 10,000"),
        ("{name: x, size: {width: 5}}", "size.width: unknown field width; expected one of cols, rows"),
        ("{name: x, script: {steps: [{send: 5}]}}", "script.steps[0].send: expected text, got the number 5"),
        (
            "{name: x, script: [{wait: {regex: '['}}]}",
            "script[0].wait.regex: the pattern '[' is not a regular expression",
        ),
        ("{name: x, fixture: {environment: {}}}", "fixture.environment: unknown field environment; expect"),
        ("{name: x, fixture: {config: {userConfig: {1: x}}}}", 'userConfig["1"]: a name must be text, not the number'),
        (
            "{name: x, fixture: {config: {userConfig: {a: .nan}}}}",
            "userConfig.a: $: the number nan has no form",
        ),
        ("{name: x, fixture: {extensions: {skills: [{name: a}]}}}", "skills[0]: the field content is missing"),
        ("{name: x, fixture: {mocks: {apiResponses: [{tools: [[a]]}]}}}", "tools[0]: expected a list of 2, go"),
        ("[x]", "expected a mapping, got a list"),
    ],
)
def test_what_is_wrong_with_a_test_is_said_with_its_place(tmp_path: Path, case: str, problem: str) -> None:
    assert_refused(tmp_path, f"tests:\n  - name: first\n  - {case}", problem, "line 3: tests[1]")


def test_a_test_made_in_python_is_looked_at_likewise() -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, "retries must be 0 or more, not -1"):
        TerminalTestCase(name="x", script=InteractionScript(name="x", steps=()), retries=-1)


def assert_refused(tmp_path: Path, text: str, problem: str, place: str = "") -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)

    with raises(TerminalTestErrorType.INVALID_CONFIG) as refused:
        load_cases(file)

    assert str(refused.value).startswith(f"{file}: {place}")
    assert problem in str(refused.value)
