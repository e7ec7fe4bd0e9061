"""The help teaches: every option in one group, examples that work as they stand, in whatever width there is."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.core import TyperArgument, TyperCommand, TyperGroup

from reenact.cli.app import app
from reenact.cli.parsing.commands import options_of
from reenact.cli.parsing.help_page import groups_of, help_page, split_help
from tests.cli.conftest import Run
from tests.examples import examples

ROOT: TyperGroup = typer.main.get_group(app)


def every_command(command: TyperCommand | TyperGroup, path: str) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    yield path, command
    if isinstance(command, TyperGroup):
        for name, one in command.commands.items():
            assert isinstance(one, TyperCommand | TyperGroup)
            yield from every_command(one, f"{path} {name}")


COMMANDS = dict(every_command(ROOT, "reenact"))
EXAMPLES = [(path, what) for path, command in COMMANDS.items() for what, _ in split_help(command)[2]]


@pytest.fixture(params=COMMANDS)
def path(request: pytest.FixtureRequest) -> str:
    """Return the words that call a command; each has its turn."""
    return str(request.param)


def test_every_option_is_in_exactly_one_group(path: str) -> None:
    shown = Counter(
        name.split()[0] for _, entries in groups_of(COMMANDS[path]) for term, _ in entries for name in term.split(", ")
    )

    assert shown == Counter([*options_of(COMMANDS[path]), "-h", "--help"])


def test_every_option_and_argument_is_explained_in_a_sentence(path: str) -> None:
    explained = {term: words for _, entries in groups_of(COMMANDS[path]) for term, words in entries}
    explained |= {one.name: one.help or "" for one in COMMANDS[path].params if isinstance(one, TyperArgument)}

    assert [term for term, words in explained.items() if not re.fullmatch(r"[A-Z`].*[.}]", words)] == []


def test_an_argument_that_may_be_left_out_and_no_other_stands_in_brackets(path: str) -> None:
    arguments = [one for one in COMMANDS[path].params if isinstance(one, TyperArgument)]

    assert [one.metavar for one in arguments if str(one.metavar).startswith("[") == one.required] == []


def test_every_command_has_an_example(path: str) -> None:
    summary, _, examples = split_help(COMMANDS[path])

    assert summary.endswith(".")
    assert examples
    assert all(path in what for what, _ in examples)


@pytest.mark.parametrize(("path", "what"), EXAMPLES, ids=[what for _, what in EXAMPLES])
def test_every_example_can_be_read(
    path: str, what: str, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    monkeypatch.setenv("HOME", environ["HOME"])
    found = re.search(r"(?:^|\| |\()(reenact\b[^|)]*)", what)
    assert found is not None

    command = ROOT(shlex.split(found[1])[1:], prog_name="reenact", standalone_mode=False)

    assert callable(command), "what is asked for is still to be done"


def test_the_examples_of_the_command_itself_work_one_after_the_other(run: Run) -> None:
    examples = [what for what, _ in split_help(ROOT)[2]]
    assert 6 <= len(examples) <= 8

    for what in examples:
        said, _, called = what.rpartition(" | ")
        stdin = " ".join(shlex.split(said)[1:]).encode()
        done = run(*shlex.split(called)[1:], stdin=stdin)

        assert (what, done.code) == (what, 0)
        assert done.out or what in ("reenact", "reenact --tools reenact:ask_user"), what


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_there_is_room(path: str, width: int) -> None:
    page = help_page(COMMANDS[path], path, getattr(COMMANDS[path], "appendix", ()), width=width)

    room = min(width, 100)
    commands = {what for what, _ in split_help(COMMANDS[path])[2]}
    texts = [line for line in page.splitlines() if line.strip() not in commands]
    assert [line for line in texts if len(line) > room and len(line.split()) > 1] == []
    assert not set(page) & set("\x1b\b\f\t")
    assert page == page.strip()
    assert "\n\n\n" not in page


def test_a_long_example_stands_on_one_line_so_that_it_works_when_it_is_copied() -> None:
    page = help_page(ROOT, "reenact", width=40)

    assert '\n  reenact -p "Say hello" --max-turns 5 --timeout 60\n' in page


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(0, 200))
def test_every_width_has_the_same_words(path: str, width: int) -> None:
    def words(page: str) -> Counter[str]:
        return Counter(word for word in page.split() if word != "#")

    assert words(help_page(COMMANDS[path], path, width=width)) == words(help_page(COMMANDS[path], path, width=80))


def test_help_is_asked_for_in_several_ways(run: Run) -> None:
    of_log = run("log", "--help")

    assert of_log.code == 0
    assert of_log.out == run("log", "-h").out == run("help", "log").out
    assert run("--help").out == run("-h").out == run("help").out
    assert run("extensions", "trust", "-h").out == run("help", "extensions", "trust").out
    assert of_log.err == ""


def test_the_help_says_what_it_is_and_where_to_read_on(run: Run) -> None:
    shown = run("--help").out

    assert shown.splitlines()[0] == "Talk to an agent whose every event is kept."
    for word in ("Usage:", "Examples:", "Conversation:", "Tools and limits:", "Where things are:", "Output:"):
        assert word in shown
    for word in ("Exit codes:", "Environment:", "Files:", "docs/command-line.md", "reenact help COMMAND"):
        assert word in shown


def test_the_width_is_that_of_the_terminal(run: Run) -> None:
    narrow, wide = (run("--help", COLUMNS=columns).out.splitlines() for columns in ("60", "120"))

    assert max(map(len, narrow)) <= 60
    assert 80 < max(map(len, wide)) <= 100


def test_help_is_given_whatever_is_wrong_with_settings(run: Run, environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".reenact")
    folder.mkdir()
    (folder / "settings.json").write_text("{")

    assert [run(*words).code for words in (["-h"], ["log", "-h"], ["help", "log"], ["--version"])] == [0, 0, 0, 0]
