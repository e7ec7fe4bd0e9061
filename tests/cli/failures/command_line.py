"""What cannot be done as it was asked for: options, files that they name, sessions."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.cli.failures.rows import Call, Row, Said, Section, asks, calls, error, misused
from tests.cli.failures.stage import Stage

HELLO = "Hello from the fake API!\n"


def settings(content: str) -> Callable[[Stage], Call]:
    """Return what asks in a project that has these settings."""

    def happens(stage: Stage) -> Call:
        stage.file(".reenact/settings.json", content)
        return Call()

    return happens


def names(option: str, name: str, content: str | bytes) -> Callable[[Stage], Call]:
    """Return what asks with an option that names a file of this content."""

    def happens(stage: Stage) -> Call:
        return Call(arguments=("-p", "Hello", option, stage.file(name, content)))

    return happens


def piped(stage: Stage) -> Call:
    """Ask with an option that names a pipe which nobody writes."""
    os.mkfifo(stage.directory / "policy.json")
    return Call(arguments=("-p", "Hello", "--policy", "policy.json"))


def huge(stage: Stage) -> Call:
    """Ask with an option that names a file in which there is much of nothing."""
    with (stage.directory / "policy.json").open("wb") as file:
        file.truncate(10_000_001)
    return Call(arguments=("-p", "Hello", "--policy", "policy.json"))


OPTIONS = Section(
    "Options",
    (
        Row(
            what="an unknown option",
            happens=calls("--nonsense"),
            code=2,
            type="invalid_arguments",
            says=misused("`reenact` has no option --nonsense. …"),
        ),
        Row(
            what="an option without its value",
            happens=calls("-p"),
            code=2,
            type="invalid_arguments",
            says=misused("Option '-p' requires an argument."),
        ),
        Row(
            what="an option in place of another one's value",
            happens=calls("-p", "--continue"),
            code=2,
            type="invalid_arguments",
            says=misused("-p has no value, for --continue is an option; --print=--continue would mean it"),
        ),
        Row(
            what="a log without a name",
            happens=asks("--db", ""),
            code=2,
            type="invalid_arguments",
            says=misused("--db names a file, or a postgresql:// URL, and not nothing"),
        ),
        Row(
            what="a device instead of a log",
            happens=asks("--db", "/dev/null"),
            code=2,
            type="log_unusable",
            says=error("/dev/null is a device, which keeps nothing; choose a file"),
        ),
        Row(
            what="a value that an option does not take",
            happens=asks("--timeout", "soon"),
            code=2,
            type="invalid_arguments",
            says=misused("--timeout must be a number of seconds above 0, at most 1,000,000, not soon"),
        ),
        Row(
            what="a number out of its range",
            happens=asks("--timeout", "0"),
            code=2,
            type="invalid_arguments",
            says=misused("--timeout must be a number of seconds above 0, at most 1,000,000, not 0"),
        ),
        Row(
            what="an unknown subcommand",
            happens=calls("nonsense"),
            code=2,
            type="invalid_arguments",
            says=misused("there is no command 'nonsense'. …"),
        ),
        Row(
            what="two sessions named",
            happens=asks("--continue", "--resume", "ses_1"),
            code=2,
            type="invalid_arguments",
            says=misused("--continue and --resume name two sessions; give one of them"),
        ),
        Row(
            what="an option of a new session with an existing one",
            happens=asks("--continue", "--max-turns", "3"),
            code=2,
            type="invalid_configuration",
            says=error("--max-turns is for a new session; one that goes on keeps what it was created with"),
        ),
        Row(
            what="`--max-cost` without a price of the model that is asked",
            happens=asks("--max-cost", "1", "--price", "claude-x=3,15", "--model", "claude-y"),
            code=2,
            type="invalid_configuration",
            says=error(
                "what session ses_… costs has a limit (--max-cost), and claude-y has no price (there is one for "
                "claude-x): --price claude-y=IN,OUT, per million tokens"
            ),
            requests=0,
        ),
        Row(
            what="a blank prompt",
            happens=calls("-p", " "),
            code=2,
            type="invalid_message",
            says=error("the message is empty; say something"),
        ),
        Row(
            what="a prompt that is not UTF-8",
            happens=lambda stage: Call(arguments=("-p", "-"), stdin=b"Good \xff"),
            code=2,
            type="invalid_input",
            says=error("standard input is not UTF-8: see byte 5 of what was read"),
        ),
        Row(
            what="no prompt (in JSON, or in a build)",
            happens=lambda stage: Call(arguments=(), variables={"CI": "true"}),
            code=2,
            type="no_input",
            says=error("there is no prompt: give -p TEXT, or the prompts as lines of standard input"),
        ),
        Row(
            what="a session that does not exist",
            happens=asks("--resume", "ses_none"),
            code=2,
            type="session_not_found",
            says=error("session 'ses_none' does not exist", "`reenact sessions` lists those that there are"),
        ),
        Row(
            what="`--continue` with nothing to continue",
            happens=asks("--continue"),
            code=2,
            type="nothing_to_continue",
            says=error("there is no session to continue in this log; begin one without --continue"),
        ),
    ),
)

FILES = Section(
    "Files that options name",
    (
        Row(
            what="`--mcp-config` with a file that does not exist",
            happens=asks("--mcp-config", "none.json"),
            code=2,
            type="invalid_configuration",
            says=error("--mcp-config none.json: it cannot be read (No such file or directory)"),
        ),
        Row(
            what="`--mcp-config` that is not JSON",
            happens=names("--mcp-config", "mcp.json", "{"),
            code=2,
            type="invalid_configuration",
            says=error("--mcp-config mcp.json: it is not valid JSON: …"),
        ),
        Row(
            what="`--mcp-config` with an invalid server",
            happens=names("--mcp-config", "mcp.json", '{"mcpServers": {"files": {"command": 1}}}'),
            code=2,
            type="invalid_configuration",
            says=error("--mcp-config mcp.json: mcpServers.files: …"),
        ),
        Row(
            what="`--mcp-config` that is a device",
            happens=asks("--mcp-config", "/dev/zero"),
            code=2,
            type="invalid_configuration",
            says=error("--mcp-config /dev/zero: it is not a regular file; …"),
        ),
        Row(
            what="`--policy` with a pipe that nobody writes to",
            happens=piped,
            code=2,
            type="invalid_configuration",
            says=error("--policy policy.json: it is not a regular file; …"),
        ),
        Row(
            what="`--policy` that is huge",
            happens=huge,
            code=2,
            type="invalid_configuration",
            says=error("--policy policy.json: it has more than 10,000,000 bytes, which are read at most"),
        ),
        Row(
            what="`--policy` that is not a policy",
            happens=names("--policy", "policy.json", '{"deny": 1}'),
            code=2,
            type="invalid_configuration",
            says=error("--policy policy.json: …"),
        ),
        Row(
            what="`--tools` with a module that does not exist",
            happens=asks("--tools", "none.py"),
            code=2,
            type="invalid_configuration",
            says=error("--tools none.py: …there is no such file…"),
        ),
        Row(
            what="`--tools` with a mistake in the grammar",
            happens=names("--tools", "wrong.py", "def f(:\n"),
            code=2,
            type="invalid_configuration",
            says=error("--tools wrong.py: …wrong.py, line 1: SyntaxError: …"),
        ),
        Row(
            what="`--tools` that raise when they are loaded",
            happens=names("--tools", "raising.py", "\nraise ConnectionError('timed out')\n"),
            code=2,
            type="invalid_configuration",
            says=error("--tools raising.py: …raising.py, line 2: ConnectionError: timed out"),
        ),
        Row(
            what="`--tools` that end the program when they are loaded",
            happens=names("--tools", "ending.py", "import sys\nsys.exit(0)\n"),
            code=2,
            type="invalid_configuration",
            says=error("--tools ending.py: …ending.py, line 2: SystemExit: 0"),
        ),
        Row(
            what="`--tools` with a module without tools",
            happens=names("--tools", "empty.py", "x = 1\n"),
            code=2,
            type="invalid_configuration",
            says=error("--tools empty.py: there is no tool in it; write `@tool`, from reenact, above a function, …"),
        ),
    ),
)

SETTINGS = Section(
    "Environment and settings",
    (
        Row(
            what="no key: the mock answers, and says so",
            happens=asks(ANTHROPIC_API_KEY=""),
            code=0,
            out="Hello from mock!\n",
            says=(
                Said("info", "the mock answers, from its script 'default'; set ANTHROPIC_API_KEY to talk to Claude…"),
            ),
            asked=True,
        ),
        Row(
            what="a blank key: likewise",
            happens=asks(ANTHROPIC_API_KEY=" \t"),
            code=0,
            out="Hello from mock!\n",
            says=(
                Said("info", "the mock answers, from its script 'default'; set ANTHROPIC_API_KEY to talk to Claude…"),
            ),
            asked=True,
        ),
        Row(
            what="a key that no header takes",
            happens=lambda stage: Call(variables={"ANTHROPIC_API_KEY": f"{stage.environ['ANTHROPIC_API_KEY']}\nabc"}),
            code=2,
            type="invalid_configuration",
            says=error("the API key has a blank or a line end at place 24 of 27, as no key has; copy it again (ANT…)"),
        ),
        Row(
            what="an address without a scheme",
            happens=asks(ANTHROPIC_BASE_URL="localhost:8080"),
            code=2,
            type="invalid_configuration",
            says=error(
                "'localhost:8080' cannot be the address of the API; an address is like https://api.anthropic.com or …"
            ),
        ),
        Row(
            what="an address with an invalid host",
            happens=asks(ANTHROPIC_BASE_URL="http://api..example"),
            code=2,
            type="invalid_configuration",
            says=error(
                "'http://api..example' cannot be the address of the API; "
                "an address is like https://api.anthropic.com or …"
            ),
        ),
        Row(
            what="an invalid address of a proxy",
            happens=asks(HTTPS_PROXY="nonsense://proxy.example"),
            code=2,
            type="invalid_configuration",
            says=error(
                "'nonsense://proxy.example' cannot be the address of a proxy (HTTPS_PROXY); an address is like http://…"
            ),
        ),
        Row(
            what="a file of certificates that does not exist",
            happens=asks(ANTHROPIC_BASE_URL="https://127.0.0.1:1", SSL_CERT_FILE="none.pem"),
            code=2,
            type="invalid_configuration",
            says=error("the certificates in none.pem cannot be read (SSL_CERT_FILE): No such file or directory"),
        ),
        Row(
            what="a file without certificates",
            happens=lambda stage: Call(
                variables={
                    "ANTHROPIC_BASE_URL": "https://127.0.0.1:1",
                    "SSL_CERT_FILE": stage.file("own.pem", "no such luck"),
                }
            ),
            code=2,
            type="invalid_configuration",
            says=error("the certificates in own.pem cannot be read (SSL_CERT_FILE): they are not certificates"),
        ),
        Row(
            what="`settings.json` that is not JSON",
            happens=settings('{"model":\n'),
            code=2,
            type="invalid_configuration",
            says=error("….reenact/settings.json:…: it is not valid JSON: …"),
        ),
        Row(
            what="`settings.json` with a value of another type",
            happens=settings('{"model":\n1}'),
            code=2,
            type="invalid_configuration",
            says=error("….reenact/settings.json:…: model must be a text that is not blank"),
        ),
        Row(
            what="an unknown scenario of the mock",
            happens=asks(MOCK_LLM="1", MOCK_SCENARIO="tragedy"),
            code=2,
            type="unknown_scenario",
            says=error("there is no scenario 'tragedy'; defined are: …"),
        ),
    ),
)
SECTIONS = (OPTIONS, FILES, SETTINGS)
