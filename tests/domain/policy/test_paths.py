"""Where a path leads, however it is written."""

from __future__ import annotations

import os
from pathlib import Path as Folder
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.matchers import Path, path, ready
from reenact.domain.policy.patterns import Match, MatchContext
from reenact.domain.policy.rules import Policy, Rule, RuleMode

Unchecked: TypeAlias = Any
"""What the types would forbid."""

YES, PARTLY, UNKNOWN, NO = Match.YES, Match.PARTLY, Match.UNKNOWN, Match.NO
E_ACUTE, E_AND_ACUTE = "caf\u00e9", "cafe\u0301"


def match(matcher: Path, value: object, **sight: Unchecked) -> Match:
    return ready(matcher)(value, MatchContext(**sight)).match


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("/srv/app/**", "/srv/app/a", YES),
        ("/srv/app/**", "/srv/app/a/b", YES),
        ("/srv/app/**", "/srv/app", YES),
        ("/srv/app/**", "/srv/app/", YES),
        ("/srv/app/**", "//srv///app/./a", YES),
        ("/srv/app/**", "/srv/x/../app/a", YES),
        ("/srv/app/**", "/../srv/app/a", YES),
        ("/srv/app/**", "/srv/app/a/../b", YES),
        ("/srv/app/**", "/srv/app/../a", NO),
        ("/srv/app/**", "/srv/app/a/../../b", NO),
        ("/srv/app/**", "/srv/application", NO),
        ("/srv/app/**", "/srv/app%2F..%2F..%2Fetc", NO),
        ("/srv/app/**", "/srv/app/%2e%2e/%2e%2e/etc", YES),
        ("/srv/app/**", "/SRV/app/a", PARTLY),
        ("/srv/APP/**", "/srv/app/a", PARTLY),
        ("/srv/app/**", " /srv/app/a", PARTLY),
        ("/srv/app/**", "/srv/app/a ", YES),
        ("/srv/app/**", "\\srv\\app\\a", PARTLY),
        ("/srv/app/**", "/srv/app\\a", PARTLY),
        ("/srv/app/**", "/srv/app/a\\b", YES),
        ("/srv/app/**", "/srv/app/a\\..\\..\\..\\etc", PARTLY),
        ("/srv/app", "/srv/app", YES),
        ("/srv/app", "/srv/app/a", NO),
        ("/srv/*/a", "/srv/app/a", YES),
        ("/srv/*/a", "/srv/app/b/a", NO),
        ("/srv/*.{py,txt}", "/srv/.py", YES),
        ("/srv/[ab]?", "/srv/ax", YES),
        ("/srv/[*]", "/srv/*", YES),
        ("/srv/[*]", "/srv/a", NO),
        ("/srv/**/a", "/srv/a", YES),
        ("/srv/**/a", "/srv/x/y/a", YES),
        ("/{srv,opt/app}/a", "/opt/app/a", YES),
        ("/", "/", YES),
        ("/", "/..", YES),
        ("/", "/srv", NO),
        ("/**", "/srv", YES),
        ("**", "/srv", YES),
        ("**/.env", "/srv/app/.env", YES),
        ("**/.env", "/.env", YES),
        ("**/.env", "/srv/.env/a", NO),
        ("**/.git/**", "/srv/.git/hooks/a", YES),
        (f"/srv/{E_ACUTE}/**", f"/srv/{E_ACUTE}/a", YES),
        (f"/srv/{E_ACUTE}/**", f"/srv/{E_AND_ACUTE}/a", PARTLY),
        (f"/srv/{E_AND_ACUTE}/**", f"/srv/{E_ACUTE}/a", YES),
        (f"/srv/{E_AND_ACUTE}/**", f"/srv/{E_AND_ACUTE}/a", YES),
        (f"/srv/{E_ACUTE}/**", "/srv/cafe/a", NO),
    ],
)
def test_an_absolute_path_is_worked_out(pattern: str, value: str, found: Match) -> None:
    assert match(path(pattern), value) is found


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("/srv/app/**", "a", YES),
        ("/srv/app/**", ".", YES),
        ("/srv/app/**", "./a/../b", YES),
        ("/srv/app/**", "../a", NO),
        ("/srv/app/**", "a/../../../etc", NO),
        ("/srv/app/**", "a\\..\\..\\b", PARTLY),
        ("src/**", "src/a", YES),
        ("src/**", "/srv/app/src/a", YES),
        ("src/**", "a", NO),
        ("./src", "src", YES),
        (".", "/srv/app", YES),
        ("~/notes/**", "~/notes/a", YES),
        ("~/notes/**", "/home/me/notes/a", YES),
        ("~/notes/**", "../../home/me/notes/a", YES),
        ("~/notes/**", "~/../you/notes/a", NO),
        ("/home/me/**", "~/a", YES),
        ("/home/me", "~", YES),
        ("/srv/app/**", "~/a", PARTLY),
        ("/srv/app/**", "~you", PARTLY),
        ("/home/you/**", "~you/a", UNKNOWN),
        ("/home/you/b", "~you/a", NO),
    ],
)
def test_a_path_goes_on_from_the_directories_that_are_known(pattern: str, value: str, found: Match) -> None:
    assert match(path(pattern), value, cwd="/srv/app", home="/home/me") is found
    assert match(path(pattern, cwd="/srv/x/../app/"), value, cwd="/elsewhere", home="/home/me/.") is found


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("src/**", "src/a", YES),
        ("src/**", "src/../b", NO),
        ("src/**", "../src/a", UNKNOWN),
        ("src/**", "/srv/src/a", UNKNOWN),
        ("src/**", "/srv/a", NO),
        ("src/**", "~/src/a", UNKNOWN),
        ("/srv/**", "src/a", UNKNOWN),
        ("/srv/a", "b", NO),
        ("/srv/a", "a", UNKNOWN),
        ("/etc/passwd", "../../etc/passwd", UNKNOWN),
        ("**/.env", ".env", YES),
        ("**/.env", "../x/.env", YES),
        ("**/.env", "src/a", NO),
        ("**/.git/**", "src/a", UNKNOWN),
        ("~/.ssh/**", "~/.ssh/a", YES),
        ("~/.ssh/**", "~/a/../.ssh/a", YES),
        ("~/.ssh/**", "~/a", NO),
        ("~/.ssh/**", "~/../.ssh/a", UNKNOWN),
        ("~/.ssh/**", "/home/me/.ssh/a", UNKNOWN),
        ("~/.ssh/**", "/srv/a", NO),
        ("~/.ssh/**", ".ssh/a", UNKNOWN),
        ("~", "~", YES),
        ("/etc/**", "~/a", UNKNOWN),
        ("/etc/a", "~/b", NO),
    ],
)
def test_where_a_path_leads_is_not_known_without_the_directory(pattern: str, value: str, found: Match) -> None:
    assert match(path(pattern), value) is found
    assert match(path(pattern), value, cwd="not/absolute", home="") is found


@pytest.mark.parametrize(
    ("pattern", "value", "cwd", "found"),
    [
        ("C:/work/**", "C:/work/a", None, YES),
        ("C:/work/**", "c:\\work\\a", None, YES),
        ("c:/work/**", "C:/work/x/../a", None, YES),
        ("C:/work/**", "C:\\work\\..\\a", None, NO),
        ("C:/work/**", "D:/work/a", None, NO),
        ("C:/work/**", "a\\b", "C:\\work", YES),
        ("C:/work/**", "..\\b", "C:\\work", NO),
        ("C:/work/**", "/work/a", "/srv", NO),
        ("/srv/**", "C:/a", "/srv", PARTLY),
        ("/srv/**", "C:a", "/srv", YES),
        ("C:", "C:", None, YES),
        ("C:/**", "C:", None, YES),
        ("src/**", "src\\a", "C:/work", YES),
    ],
)
def test_a_drive_is_where_a_path_may_begin(pattern: str, value: str, cwd: str | None, found: Match) -> None:
    assert match(path(pattern), value, cwd=cwd) is found


@pytest.mark.parametrize(
    "value",
    ["", "  ", "/srv/a\0", "/srv/a\nb", "\x7f", "file:///srv/a", "https://srv/a", " File:/srv/a", "/srv/" * 1_000],
)
def test_what_is_no_path_is_not_known(value: str) -> None:
    assert match(path("/srv/**"), value) is UNKNOWN
    assert match(path("**"), value) is UNKNOWN


def test_a_list_of_paths_matches_if_all_of_them_do() -> None:
    assert match(path("/srv/**"), ["/srv/a", "/srv/b"]) is YES
    assert match(path("/srv/**"), ["/srv/a", "/etc/b"]) is PARTLY
    assert match(path("/srv/**"), ["/etc/a", "b"]) is UNKNOWN
    assert match(path("/srv/**"), ["/etc/a", "/etc/b"]) is NO
    assert match(path("/srv/**"), ["/etc/a", 5]) is UNKNOWN
    assert match(path("/srv/**"), []) is UNKNOWN


def judged(folder: Folder, mode: RuleMode, pattern: str, value: str) -> str:
    policy = Policy(rules=(Rule({"path": path(pattern)}, mode), Rule({}, "deny" if mode == "allow" else "never")))
    policy = Policy(rules=policy.rules[:1]) if mode == "allow" else policy
    return judge(
        Policies(tools={"write": policy}), "write", {"path": value}, cwd=str(folder), resolve=os.path.realpath
    ).decision


@pytest.fixture
def folder(tmp_path: Folder) -> Folder:
    """A directory with what is open and what is secret, and links between them."""
    folder = Folder(os.path.realpath(tmp_path))
    (folder / "open").mkdir()
    (folder / "secret").mkdir()
    (folder / "secret" / "key").write_text("42")
    (folder / "open" / "link").symlink_to(folder / "secret")
    (folder / "alias").symlink_to(folder / "open")
    return folder


@pytest.mark.parametrize(
    ("value", "allowed", "denied"),
    [
        ("open/a", "run", "run"),
        ("open/link/key", "ask", "deny"),
        ("open/link", "ask", "deny"),
        ("open/link/../secret/key", "ask", "deny"),
        ("open/link/../open/a", "run", "run"),
        ("alias/a", "ask", "run"),
        ("secret/key", "ask", "deny"),
        ("secret/../open/a", "run", "run"),
    ],
)
def test_a_link_leads_where_it_leads(folder: Folder, value: str, allowed: str, denied: str) -> None:
    assert judged(folder, "allow", "open/**", value) == allowed
    assert judged(folder, "allow", f"{folder}/open/**", f"{folder}/{value}") == allowed
    assert judged(folder, "deny", f"{folder}/secret/**", value) == denied


def test_a_pattern_may_begin_with_a_link(folder: Folder) -> None:
    assert judged(folder, "allow", "alias/**", "alias/a") == "run"
    assert judged(folder, "allow", "alias/**", "open/a") == "run"
    assert judged(folder, "allow", "alias/**", "alias/link/key") == "ask"
    assert judged(folder, "deny", "alias/**", "open/a") == "deny"
    assert judged(folder, "deny", "open/link/**", "secret/key") == "deny"


def test_links_are_followed_from_the_home_directory(folder: Folder) -> None:
    policies = Policies(tools={"write": Policy(rules=(Rule({"path": path("~/open/**")}, "allow"),))})

    def decided(value: str, home: str | None) -> str:
        return judge(policies, "write", {"path": value}, home=home, resolve=os.path.realpath).decision

    assert decided("~/open/a", str(folder)) == "run"
    assert decided("~/open/link/key", str(folder)) == "ask"
    assert decided("~/open/a", None) == "ask"


def test_links_are_followed_once_for_all_rules(folder: Folder) -> None:
    followed: list[str] = []

    def resolve(name: str) -> str:
        followed.append(name)
        return os.path.realpath(name)

    rules = tuple(Rule({"path": path(f"/a/{number % 2}/**")}, "never") for number in range(10))

    judge(Policies(tools={"write": Policy(rules=rules)}), "write", {"path": "/b"}, resolve=resolve)

    assert sorted(followed) == ["/a/0", "/a/1", "/b"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "1 to 4,096 characters"),
        ("/" * 4_097, "1 to 4,096 characters"),
        ("/srv\\app", "without backslashes"),
        ("/srv\n", "control characters"),
        ("/srv/../etc", "write where it leads"),
        ("/srv/", r"end it in '/\*\*'"),
        ("~you/a", "names a user's home"),
        ("/srv/[z-a]", "cannot be read"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ready(path(pattern))


@pytest.mark.parametrize("cwd", ["srv", "", "~", "/srv\0"])
def test_a_directory_that_is_not_absolute_is_refused(cwd: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an absolute path"):
        ready(path("src/**", cwd=cwd))


@given(st.lists(st.sampled_from(["a", "b", ".", "..", ""]), max_size=8).map("/".join), st.sampled_from(["/", "/a/b/"]))
def test_a_path_is_worked_out_as_the_system_does_it(value: str, start: str) -> None:
    leads = os.path.normpath(start + value).replace("//", "/")
    inside = leads == "/a" or leads.startswith("/a/")

    assert (match(path("/a/**"), start + value) is YES) == inside
    if value and not value.startswith("/"):
        assert (match(path("/a/**"), value, cwd=start) is YES) == inside
