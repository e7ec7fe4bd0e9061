"""What is loaded from a user and a project, by what names, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reenact.extensions.loading import Extensions, withheld_of
from tests.examples import examples
from tests.extensions.written import AGENT, COMMAND, Written, loaded

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)
lines = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40)
bodies = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(str.strip)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@given(name=names, description=lines, body=bodies, hint=lines)
def test_property_17_extension_loading(name: str, description: str, body: str, hint: str) -> None:
    """Property 17: Extension Loading (requirements 7.1, 7.2, 7.3, 7.4)."""
    with TemporaryDirectory() as directory:
        project = Written(Path(directory))
        header = f"---\nname: {quoted(name)}\ndescription: {quoted(description)}\n"
        project.skill(name, f"{header}---\n{body}")
        project.command(name, f"{header}argument-hint: {quoted(hint)}\n---\n{body}")
        project.agent(name, f"{header}tools: Read, Write\n---\n{body}")
        project.hook("PreToolUse", body, matcher="Read|Write")

        found = loaded(project, project)

    assert found.problems == ()
    assert (found.skills[name].description, found.skills[name].body) == (description, body.strip())
    assert (found.commands[name].description, found.commands[name].argument_hint) == (description, hint)
    assert body.strip() in found.commands[name].message("") or "$" in body
    assert (found.agents[name].prompt, found.agents[name].tools) == (body.strip(), ("Read", "Write"))
    assert found.hooks[0].command == body
    assert found.hooks[0].fits("Write")


def test_nothing_is_there_where_nobody_has_written_anything(user: Written, project: Written) -> None:
    found = loaded(user, project)

    assert found == Extensions()


def test_what_the_project_has_stands_for_what_the_user_has(user: Written, project: Written) -> None:
    of_user = user.command("fix", "the user's")
    user.command("other", "the user's")
    of_project = project.command("fix", "the project's")

    found = loaded(user, project)

    assert {name: one.body for name, one in found.commands.items()} == {
        "fix": "the project's",
        "other": "the user's",
    }
    assert found.replaced == {str(of_project): str(of_user)}


def test_what_is_passed_over_in_the_project_leaves_the_users_in_its_place(user: Written, project: Written) -> None:
    user.agent("reviewer")
    project.agent("reviewer", "without a description")

    found = loaded(user, project)

    assert found.agents["reviewer"].source == "user"
    assert len(found.problems) == 1


def test_hooks_of_user_and_project_all_run_and_the_users_first(user: Written, project: Written) -> None:
    user.hook("Stop", "first")
    project.hook("Stop", "second")

    found = loaded(user, project)

    assert [hook.command for hook in found.hooks] == ["first", "second"]


def test_hooks_and_commands_of_a_project_that_nobody_trusts_are_told_of_and_do_not_run(
    user: Written, project: Written
) -> None:
    project.hook("Stop", "rm -rf /")
    project.command("fix")
    project.skill("review")
    project.agent("boss")

    found = loaded(user, project, trusted=False)

    assert (found.hooks, found.commands) == ((), {})
    assert found.withheld is not None
    assert [hook.command for hook in found.withheld.hooks] == ["rm -rf /"]
    assert list(found.withheld.commands) == ["fix"]
    assert (list(found.skills), list(found.agents)) == (["review"], ["boss"])
    assert found.trusting(found.withheld) == loaded(user, project)


def test_the_users_command_is_in_force_until_that_of_the_project_is_trusted(user: Written, project: Written) -> None:
    of_user = user.command("fix", "mine")
    of_project = project.command("fix", "theirs")
    project.command("go")
    project.command("help")

    before = loaded(user, project, trusted=False, reserved=("help",))
    after = loaded(user, project, reserved=("help",))

    assert (before.commands["fix"].body, before.replaced) == ("mine", {})
    assert (before.untrusted, before.hidden) == (("go",), ("help",))
    assert (after.commands["fix"].body, after.replaced) == ("theirs", {str(of_project): str(of_user)})
    assert (after.untrusted, after.hidden) == ((), ("help",))


def digest(project: Written) -> str:
    withheld, _ = withheld_of(project.root)
    return "" if withheld is None else withheld.digest


CHANGES: list[Callable[[Written], object]] = [
    lambda project: project.command("fix", "Fix $2"),
    lambda project: project.command("fix", "---\ndescription: another\n---\nFix $1"),
    lambda project: project.command("more", "More"),
    lambda project: (project.folder / "commands/fix.md").unlink(),
    lambda project: (project.folder / "commands/fix.md").rename(project.folder / "commands/other.md"),
    lambda project: project.hook("Stop", "false"),
    lambda project: project.hook("SessionStart", "true"),
    lambda project: (project.folder / "hooks.json").unlink(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_changed_of_hooks_and_commands_is_something_else_to_be_trusted(
    project: Written, change: Callable[[Written], object]
) -> None:
    project.command("fix", "Fix $1")
    project.command("go", "Go")
    project.hook("Stop", "true")
    before = digest(project)

    change(project)

    assert digest(project) not in ("", before)


def test_what_is_no_hook_and_no_command_changes_nothing_about_trust(project: Written) -> None:
    project.command("fix", "Fix $1")
    before = digest(project)

    project.command("bad", b"\xff")
    project.agent("boss")
    project.skill("review")
    project.file("commands/notes.txt", "x")

    assert digest(project) == before


@given(
    one=st.dictionaries(names, st.sampled_from(["a", "b", "a b"]), min_size=1, max_size=3),
    other=st.dictionaries(names, st.sampled_from(["a", "b", "a b"]), min_size=1, max_size=3),
)
@example(one={"a": "b", "c": "d"}, other={"a": "d", "c": "b"})
@settings(max_examples=examples(30))
def test_other_commands_have_another_digest(one: dict[str, str], other: dict[str, str]) -> None:
    found: list[str] = []
    for commands in (one, other):
        with TemporaryDirectory() as directory:
            project = Written(Path(directory))
            for name, body in commands.items():
                project.command(name, body)
            found.append(digest(project))

    assert (found[0] == found[1]) is (one == other)


def test_a_user_at_home_is_no_project_of_somebody_else(user: Written) -> None:
    user.hook("Stop", "mine")
    user.command("fix")

    found = loaded(user, user)

    assert [hook.command for hook in found.hooks] == ["mine"]
    assert found.replaced == {}


def test_a_name_in_the_file_holds_and_that_of_the_file_if_there_is_none(user: Written, project: Written) -> None:
    project.agent("file", "---\nname: told\ndescription: d\n---\nbody")
    project.agent("other")

    assert list(loaded(user, project).agents) == ["other", "told"]


def test_of_two_of_the_same_name_the_first_holds_and_the_other_is_told_of(user: Written, project: Written) -> None:
    first = project.agent("a", "---\nname: same\ndescription: first\n---\nbody")
    second = project.agent("b", "---\nname: same\ndescription: second\n---\nbody")

    found = loaded(user, project)

    assert found.agents["same"].description == "first"
    assert [problem.path for problem in found.problems] == [str(second)]
    assert str(first) in found.problems[0].message


def test_a_command_needs_no_front_matter(user: Written, project: Written) -> None:
    project.command("plain", "# Make tests\n\nWrite tests for $1")

    command = loaded(user, project).commands["plain"]

    assert command.description == "Make tests"
    assert command.usage == "/plain"


@pytest.mark.parametrize(
    ("hint", "usage"),
    [
        ("NUMBER", "/fix NUMBER"),
        ("'[a] [b]'", "/fix [a] [b]"),
        ("[number, title]", "/fix [number, title]"),
    ],
)
def test_an_argument_hint_may_look_like_a_list(user: Written, project: Written, hint: str, usage: str) -> None:
    project.command("fix", f"---\nargument-hint: {hint}\n---\nFix")

    assert loaded(user, project).commands["fix"].usage == usage


def test_a_command_of_the_name_of_a_built_in_one_is_hidden(user: Written, project: Written) -> None:
    project.command("help")
    project.command("fix")

    assert loaded(user, project, reserved=("help", "exit")).hidden == ("help",)


def test_keys_that_mean_nothing_here_are_no_problem_and_are_told_of(user: Written, project: Written) -> None:
    project.skill("one", "---\ndescription: d\nallowed-tools: [Read]\nlicense: MIT\nfoo: 1\n---\nbody")
    project.command("two", "---\nmodel: opus\nallowed-tools: Bash(git *)\n---\nbody with !`ls`")
    project.agent("three", "---\ndescription: d\ncolor: red\nmodel: opus\n---\nbody")

    found = loaded(user, project)

    assert found.problems == ()
    assert found.skills["one"].notes == ("without effect here: allowed-tools, foo",)
    assert found.commands["two"].notes[0] == "without effect here: model, allowed-tools"
    assert "no command line in it is run" in found.commands["two"].notes[1]
    assert "the model is that of the session" in found.agents["three"].notes[0]
    assert found.agents["three"].model is None


def test_files_beside_the_extensions_are_left_alone(user: Written, project: Written) -> None:
    for path in ("skills/README.md", "commands/notes.txt", "commands/.hidden.md", "agents/old.md~", "settings.json"):
        project.file(path, b"\xff")

    assert loaded(user, project).problems == ()


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_the_text(user: Written, project: Written) -> None:
    project.agent("dos", ("\ufeff" + AGENT).replace("\n", "\r\n"))

    found = loaded(user, project)

    assert found.agents["dos"].prompt == "You review code."


def test_links_are_followed_by_a_user_anywhere_and_in_a_project_inside_of_it(
    user: Written, project: Written, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text(COMMAND)
    inside = project.root / "docs.md"
    inside.write_text(COMMAND)
    for written in (user, project):
        (written.folder / "commands").mkdir(parents=True)
    (user.folder / "commands" / "linked.md").symlink_to(elsewhere)
    (project.folder / "commands" / "inside.md").symlink_to("../../docs.md")
    (project.folder / "commands" / "outside.md").symlink_to(elsewhere)

    found = loaded(user, project)

    assert list(found.commands) == ["inside", "linked"]
    assert [(Path(problem.path).name, problem.message) for problem in found.problems] == [
        ("outside.md", "it is a link that leads out of the project, and is not followed")
    ]


def test_a_whole_folder_may_not_be_a_link_out_of_the_project_either(
    user: Written, project: Written, tmp_path: Path
) -> None:
    outside = Written(tmp_path / "outside")
    outside.skill("review")
    outside.hook("Stop", "true")
    project.folder.symlink_to(outside.folder)

    found = loaded(user, project)

    assert (found.skills, found.hooks) == ({}, ())
    assert all("leads out of the project" in problem.message for problem in found.problems)


def test_a_hook_file_may_have_the_form_of_a_plugin(user: Written, project: Written) -> None:
    project.hooks({"description": "mine", "hooks": {"Stop": [{"hooks": [{"command": "true", "timeout": 2}]}]}})

    found = loaded(user, project)

    assert found.problems == ()
    assert [(hook.event, hook.command, hook.timeout) for hook in found.hooks] == [("Stop", "true", 2.0)]


@pytest.mark.parametrize(
    ("matcher", "fits", "misses"),
    [
        ("Bash", "Bash", "BashOutput"),
        ("Edit|Write", "Write", "Writer"),
        ("Notebook.*", "NotebookEdit", "Edit"),
        ("mcp__.*__write", "mcp__files__write", "write"),
    ],
)
def test_a_matcher_has_to_match_the_whole_name(
    user: Written, project: Written, matcher: str, fits: str, misses: str
) -> None:
    project.hook("PreToolUse", "true", matcher=matcher)

    (hook,) = loaded(user, project).hooks

    assert hook.fits(fits)
    assert not hook.fits(misses)


@pytest.mark.parametrize("matcher", ["", "*"])
def test_no_matcher_matches_everything(user: Written, project: Written, matcher: str) -> None:
    project.hook("PreToolUse", "true", matcher=matcher)

    (hook,) = loaded(user, project).hooks

    assert hook.fits("anything")
