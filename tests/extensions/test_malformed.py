"""Files that are not extensions: each is told of with its line and skipped, and the rest is loaded."""

from __future__ import annotations

import functools
import json
import operator
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact._yaml import InvalidYAMLError, read_yaml
from reenact.extensions.files import Problem, read_json
from tests.extensions.malformed import FILES, FORBIDDEN, HOOKS, PLACES, TEXTS, WRONG_HOOKS, Malformed
from tests.extensions.written import Written, loaded


def only_problem(user: Written, project: Written) -> Problem:
    (problem,) = loaded(user, project).problems
    return problem


def told(rows: list[Malformed]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("wrong", rows, ids=[row.kind for row in rows])


@pytest.mark.parametrize("kind", ["skill", "command", "agent"])
@told(FORBIDDEN + TEXTS)
def test_a_text_that_is_none_is_told_of_with_its_line(
    user: Written, project: Written, kind: str, wrong: Malformed
) -> None:
    write = {"skill": project.skill, "command": project.command, "agent": project.agent}[kind]
    path = write("bad", wrong.content)
    write("good", "---\ndescription: d\n---\nbody")

    there = loaded(user, project)

    assert [list(named) for named in (there.skills, there.commands, there.agents) if named] == [["good"]]
    (problem,) = there.problems
    assert (problem.path, problem.line) == (str(path), wrong.line)
    assert wrong.why in problem.message


@pytest.mark.parametrize("kind", ["skill", "command", "agent"])
def test_a_file_with_nothing_in_it_is_told_of(user: Written, project: Written, kind: str) -> None:
    {"skill": project.skill, "command": project.command, "agent": project.agent}[kind]("bad", b"")

    assert " no " in only_problem(user, project).message


@pytest.mark.parametrize(
    ("kind", "header", "why"),
    [
        ("skill", "name: bad", "no `description`"),
        ("agent", "name: bad", "no `description`"),
        ("skill", "description: d\nallowed-tools: 3", "`allowed-tools` must be text or a list of texts, not a number"),
        ("command", "description: d\nallowed-tools: [1]", "`allowed-tools` must be"),
        ("command", "description: d\nmodel: []", "`model` must be text"),
        ("command", "description: d\nargument-hint: 3", "`argument-hint` must be text"),
        ("agent", "description: d\ntools: {a: b}", "`tools` must be text or a list of texts, not a mapping"),
        ("agent", "description: d\nmodel: 4", "`model` must be text"),
        ("agent", "description: d\ncolor: [red]", "`color` must be text"),
    ],
)
def test_fields_of_the_wrong_type_are_told_of(
    user: Written, project: Written, kind: str, header: str, why: str
) -> None:
    {"skill": project.skill, "command": project.command, "agent": project.agent}[kind]("bad", f"---\n{header}\n---\nb")

    problem = only_problem(user, project)

    assert problem.line == (1 if "no `description`" in why else 3)
    assert why in problem.message


@told(HOOKS + WRONG_HOOKS)
def test_hooks_that_are_none_are_told_of_with_their_line(user: Written, project: Written, wrong: Malformed) -> None:
    path = project.hooks(wrong.content)

    found = loaded(user, project)

    assert found.hooks == ()
    (problem,) = found.problems
    assert (problem.path, problem.line) == (str(path), wrong.line)
    assert wrong.why in problem.message


def test_of_hooks_that_are_much_text_each_is_told_of_with_its_line(user: Written, project: Written) -> None:
    good = '{"hooks": [{"command": "x", "timeout": 1.5}]},\n'
    project.hooks(f'{{"Stop": [\n{good * 190}\n{{"hooks": [{{"command": 3}}]}}]}}'.encode())

    assert only_problem(user, project).line == 193


json_documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(max_size=3), inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


@given(document=json_documents)
def test_every_value_has_the_line_on_which_it_stands(document: Any) -> None:  # noqa: ANN401 - any JSON
    text = json.dumps(document, indent=1)

    content, lines = read_json(text)

    assert content == document
    for path, line in lines.items():
        value = functools.reduce(operator.getitem, path, document)
        first = json.dumps(value, indent=1).splitlines()[0]
        assert text.splitlines()[line - 1].strip().rstrip(",").endswith(first)


def test_a_hook_that_is_none_leaves_the_others(user: Written, project: Written) -> None:
    project.hooks({"Foo": [], "Stop": [{"hooks": [{"command": "good"}, {"command": 3}]}]})

    found = loaded(user, project)

    assert [hook.command for hook in found.hooks] == ["good"]
    assert len(found.problems) == 2


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("make", "why"), FILES, ids=[make.__name__ for make, _ in FILES])
def test_what_is_no_file_is_told_of_and_not_waited_for(
    user: Written, project: Written, place: str, make: Callable[[Path], None], why: str
) -> None:
    path = project.folder / place
    path.parent.mkdir(parents=True)
    make(path)
    began = time.monotonic()

    assert only_problem(user, project) == Problem(str(path), None, why)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty"])
def test_a_device_is_not_opened(user: Written, project: Written, device: str) -> None:
    user.file("commands/x", b"")
    (user.folder / "commands" / "bad.md").symlink_to(device)

    assert only_problem(user, project).message == "it is not a regular file"


@pytest.mark.parametrize("path", ["skills", "commands", "agents"])
def test_a_file_is_no_folder(user: Written, project: Written, path: str) -> None:
    project.file(path, b"")

    assert only_problem(user, project) == Problem(str(project.folder / path), None, "it must be a folder")


@pytest.mark.parametrize("path", ["commands/bad.md", "commands", "skills/bad", "skills/bad/SKILL.md", "hooks.json"])
@pytest.mark.parametrize("target", ["{itself}", "nowhere"])
def test_links_that_lead_to_themselves_or_nowhere_are_told_of(
    user: Written, project: Written, path: str, target: str
) -> None:
    for written in (user, project):
        link = written.folder / path
        link.parent.mkdir(parents=True)
        link.symlink_to(link if target == "{itself}" else target)

    problems = loaded(user, project).problems

    assert len(problems) == 2
    assert all("it is a link" in problem.message or "no such file" in problem.message for problem in problems)


def test_two_links_that_lead_to_each_other_are_told_of(user: Written, project: Written) -> None:
    (project.folder / "skills").mkdir(parents=True)
    (project.folder / "skills" / "a").symlink_to("b")
    (project.folder / "skills" / "b").symlink_to("a")

    problems = loaded(user, project).problems

    assert [problem.message for problem in problems] == ["it is a link in a cycle of links"] * 2


def test_a_folder_that_is_linked_into_itself_is_read_once(user: Written, project: Written) -> None:
    project.command("fix")
    (project.folder / "commands" / "again").symlink_to(".")
    (project.folder / "skills").symlink_to(".")

    found = loaded(user, project)

    assert list(found.commands) == ["fix"]
    assert not found.skills


def test_a_folder_without_a_skill_in_it_is_told_of(user: Written, project: Written) -> None:
    (project.folder / "skills" / "empty").mkdir(parents=True)

    assert "there is no such file" in only_problem(user, project).message


def test_a_folder_of_too_many_files_is_not_read(
    user: Written, project: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.extensions.files.MOST", 2)
    for number in range(3):
        project.command(f"c{number}")

    assert only_problem(user, project).message == "it has more than 2 entries"


@pytest.mark.parametrize("call", ["os.open", "os.scandir", "os.read"])
def test_what_may_not_be_read_is_told_of(
    user: Written, project: Written, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_arguments: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    project.command("fix")
    with monkeypatch.context() as patch:
        patch.setattr(f"reenact.extensions.files.{call}", refuse)
        problems = loaded(user, project).problems

    assert {problem.message for problem in problems} == {"it cannot be read: Permission denied"}


def test_a_name_that_is_no_utf_8_is_told_of(user: Written, project: Written) -> None:
    folder = project.folder / "commands"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/b\xff.md")).write_text("body")

    problem = only_problem(user, project)

    assert "is not a name" in problem.message
    assert problem.path.endswith("b\ufffd.md")


yaml_like = st.text(st.sampled_from("ab1 \t\n:-[]{}&*!|>'\"%@`#,?~.\\\u2028é\x85"), max_size=60)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["Stop", "PreToolUse", "(", "command"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Stop", "PreToolUse", "hooks", "matcher", "command", "type"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
contents = st.one_of(
    st.binary(max_size=80),
    yaml_like.map(lambda header: f"---\ndescription: d\n{header}\n---\nbody".encode()),
    st.text(st.characters(codec="utf-8"), max_size=60).map(lambda header: f"---\n{header}\n---\nbody".encode()),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.text(st.sampled_from('{}[]":,Stop0123456789.eE+- \\u'), max_size=40).map(str.encode),
)


@given(content=contents)
@example(content=b"---\n? [a]\n: b\n---\nbody")
@example(content=b"---\n{a: b}: c\n---\nbody")
@example(content=b"---\n2001-01-01T99:99:99Z: 1\n---\nbody")
@example(content=b"---\n<<: [a, b]\n---\nbody")
@example(content=b"---\nx: 0o99999999\n---\nbody")
@example(content=b"---\n%TAG ! tag:x,2000:\n---\nbody")
def test_property_18_extension_error_handling(content: bytes) -> None:
    """Property 18: Extension Error Handling (requirements 7.5)."""
    with TemporaryDirectory() as directory:
        project = Written(Path(directory))
        paths = [project.skill("x", content), project.command("x", content), project.agent("x", content)]
        paths.append(project.hooks(content))
        project.command("good")

        found = loaded(project, project)

    told = {problem.path for problem in found.problems}
    assert "good" in found.commands
    assert all(problem.message for problem in found.problems)
    assert told | {one.path for named in (found.skills, found.commands, found.agents) for one in named.values()} >= {
        str(path) for path in paths[:3]
    }, "a file is loaded or told of"


@pytest.mark.parametrize("header", ["x: !!bool maybe", "x: !!int", "? - [{a: b}, {c: d}]\n: e", "? {[a]: b}\n: c"])
def test_yaml_that_no_constructor_expects_is_told_of_as_well(user: Written, project: Written, header: str) -> None:
    project.command("bad", f"---\n{header}\n---\nbody")

    assert "front matter" in only_problem(user, project).message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("%YAML 1.21\n---\na: b", "line 1, column 1: it says that it is of another version than YAML 1.2"),
        ("\n%YAML 1.999999999999\n---\na: b", "line 2, column 1: it says that it is of another version"),
        ("%YAML 1.2\n", "line 2, column 1: a line `---` is to follow the lines that begin with `%`"),
        ("%YAML", "line 1, column 6: expected a digit, but found the end"),
        (f"a: 0x{'f' * 9_000}", "line 1, column 4: the number has 9,002 digits; 1,000 are read at most"),
    ],
)
def test_yaml_that_its_parser_does_not_expect_is_no_yaml(text: str, problem: str) -> None:
    with pytest.raises(InvalidYAMLError) as refused:
        read_yaml(text)

    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize("raised", [AssertionError, KeyError, TypeError, AttributeError, RecursionError])
def test_whatever_the_parser_raises_is_told_of(
    user: Written, project: Written, monkeypatch: pytest.MonkeyPatch, raised: type[Exception]
) -> None:
    def fail(*_arguments: object) -> None:
        raise raised

    monkeypatch.setattr("ruamel.yaml.YAML.parse", fail)
    project.command("bad", "---\na: b\n---\nbody")

    assert f"failed with {raised.__name__}" in only_problem(user, project).message


def test_a_folder_of_skills_that_may_be_listed_and_not_entered_is_told_of(
    user: Written, project: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.skill("review")
    project.command("fix")
    stat = Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if "skills" in path.parts[:-1]:
            raise PermissionError(13, "Permission denied")
        return stat(path, follow_symlinks=follow_symlinks)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refuse)
        found = loaded(user, project)

    assert list(found.commands) == ["fix"]
    (problem,) = found.problems
    assert problem == Problem(str(project.folder / "skills" / "review"), None, "it cannot be read: Permission denied")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (a_link_to_nowhere, "it is a link that leads nowhere"),
        (a_link_to_itself, "it is a link in a cycle of links"),
        (Path.touch, "it must be a folder"),
        (os.mkfifo, "it must be a folder"),
    ],
)
def test_a_reenact_that_is_no_folder_is_told_of_once(
    user: Written, project: Written, make: Callable[[Path], None], why: str
) -> None:
    make(project.folder)

    assert only_problem(user, project) == Problem(str(project.folder), None, why)


@pytest.mark.parametrize(
    ("path", "told", "why"),
    [
        ("commands/sub/x.md", "commands/sub", "put it into commands itself"),
        ("agents/sub/x.md", "agents/sub", "put it into agents itself"),
        ("commands/UP.MD", "commands/UP.MD", "its name must end in .md"),
        ("skills/review.md", "skills/review.md", "a folder with a SKILL.md in it"),
    ],
)
def test_what_looks_like_an_extension_and_is_none_is_told_of(
    user: Written, project: Written, path: str, told: str, why: str
) -> None:
    project.file(path, "---\ndescription: d\n---\nbody")

    problem = only_problem(user, project)

    assert problem.path == str(project.folder / told)
    assert why in problem.message


def test_of_the_problems_of_a_file_the_first_are_told_one_by_one_and_its_size_costs_little(
    user: Written, project: Written
) -> None:
    project.hooks("{{{}}}".format(",\n".join(f'"e{number}": 1' for number in range(70_000))).encode())
    began = time.monotonic()

    problems = loaded(user, project).problems

    assert [problem.line for problem in problems] == [*range(1, 21), None]
    assert problems[-1].message == "and 69,980 more"
    assert time.monotonic() - began < 30, "each line was looked for from the beginning"


def test_a_file_may_have_so_many_hooks(user: Written, project: Written) -> None:
    hook = {"matcher": "(?:a|b)" * 70, "hooks": [{"command": "x"}]}
    project.hooks({"PreToolUse": [hook] * 201})

    found = loaded(user, project)

    assert len(found.hooks) == 200
    assert [problem.message for problem in found.problems] == [
        "PreToolUse[200].hooks[0]: it is not read, because 200 others come before it"
    ]


def test_of_each_kind_so_many_are_read(user: Written, project: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.extensions.loading.MOST", 2)
    for number in range(3):
        project.command(f"c{number}")
        project.skill(f"s{number}")

    found = loaded(user, project)

    assert (list(found.commands), list(found.skills)) == (["c0", "c1"], ["s0", "s1"])
    assert {problem.message for problem in found.problems} == {"it has 3 of them; the first 2 are read"}


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("LARGEST_IN_ALL", "the front matter of the files has more than 50 characters together"),
        ("MOST_IN_ALL", "the files have more than 50 bytes together"),
    ],
)
def test_of_all_the_files_together_so_much_is_read(
    user: Written, project: Written, monkeypatch: pytest.MonkeyPatch, limit: str, why: str
) -> None:
    monkeypatch.setattr(f"reenact.extensions.loading.{limit}", 50)
    for name in ("a", "b", "c"):
        project.command(name, "---\ndescription: one\nname: " + name + "\n---\nb")

    found = loaded(user, project)

    assert list(found.commands) == (["a", "b"] if limit == "LARGEST_IN_ALL" else ["a"])
    assert {problem.message for problem in found.problems} == {f"it is not read: {why}"}
