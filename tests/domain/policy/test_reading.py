"""Policies from plain mappings, from values, and from what is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, TypeAlias

import msgspec
import pytest

from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.plain import made
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.lists import BUILT_IN_DENY_LIST
from reenact.domain.policy.matchers import command, exact, glob, path, prefix, regex
from reenact.domain.policy.reading import policies_by_image, policies_of
from reenact.domain.policy.rules import Entry, Policy, Rule

Unchecked: TypeAlias = Any
"""What the types would forbid."""

EVERYTHING = Policies(
    tools={
        "write_file": Policy(
            "always",
            (
                Rule({"path": path("/srv/**"), "dir": path("src", cwd="/srv")}, "never"),
                Rule(
                    {"name": prefix("a"), "kind": glob("*.py"), "id": regex("[0-9]+"), "run": command("ls *")}, "first"
                ),
                Rule(
                    {"n": 1, "m": 1.0, "b": True, "s": "x", "z": None, "l": [1, {"a": 2}], "o": exact({"a": 1})}, "deny"
                ),
                Rule({}, "allow"),
            ),
        ),
        "read_file": Policy("never"),
        "bash": Policy("required"),
    },
    allow=("read_*", Entry("bash", {"command": command("git status")})),
    deny=(*BUILT_IN_DENY_LIST, "deploy", Entry("bash", {"cmd|command": command("rm")}, "no", advisory=True)),
)
PLAIN: dict[str, Any] = {
    "tools": {
        "write_file": {
            "mode": "always",
            "rules": [
                {
                    "when": {
                        "path": {"type": "path", "pattern": "/srv/**"},
                        "dir": {"type": "path", "pattern": "src", "cwd": "/srv"},
                    },
                    "mode": "never",
                },
                {
                    "when": {
                        "name": {"type": "prefix", "text": "a"},
                        "kind": {"type": "glob", "pattern": "*.py"},
                        "id": {"type": "regex", "pattern": "[0-9]+"},
                        "run": {"type": "command", "pattern": "ls *"},
                    },
                    "mode": "first",
                },
                {
                    "when": {
                        "n": 1,
                        "m": 1.0,
                        "b": True,
                        "s": "x",
                        "z": None,
                        "l": [1, {"a": 2}],
                        "o": {"type": "exact", "value": {"a": 1}},
                    },
                    "mode": "deny",
                },
                {"when": {}, "mode": "allow"},
            ],
        },
        "read_file": "never",
        "bash": {},
    },
    "allow": ["read_*", {"tool": "bash", "when": {"command": {"type": "command", "pattern": "git status"}}}],
    "deny": [
        "@built-in",
        "deploy",
        {
            "tool": "bash",
            "when": {"cmd|command": {"type": "command", "pattern": "rm"}},
            "reason": "no",
            "advisory": True,
        },
    ],
}


def test_policies_are_read_from_plain_mappings() -> None:
    assert policies_of(PLAIN) == EVERYTHING
    assert policies_of(json.loads(json.dumps(PLAIN))).revision == EVERYTHING.revision


def test_policies_that_are_policies_stay_what_they_are() -> None:
    assert policies_of(EVERYTHING) == EVERYTHING
    assert policies_of(policies_of(PLAIN)) == EVERYTHING


def test_nothing_said_means_the_built_in_deny_list() -> None:
    assert policies_of(None) == policies_of({}) == policies_of(Policies()) == Policies()
    assert policies_of({"deny": ["@built-in"]}).deny is BUILT_IN_DENY_LIST
    assert policies_of({"deny": []}).deny == ()


def test_a_mapping_from_tools_to_policies_will_do() -> None:
    policies = policies_of({"bash": "always", "read": Policy("never"), "tools": "first"})

    assert policies == Policies(tools={"bash": Policy("always"), "read": Policy("never"), "tools": Policy("first")})


def test_tuples_and_lists_are_the_same() -> None:
    rule = {"when": {"a": (1, 2)}, "mode": "never"}

    assert policies_of({"t": {"rules": (rule,)}}) == policies_of({"t": {"rules": [{**rule, "when": {"a": [1, 2]}}]}})


@pytest.mark.parametrize("codec", [msgspec.json, msgspec.msgpack])
def test_policies_are_stored_and_read_again(codec: Unchecked) -> None:
    for policies in (EVERYTHING, Policies(), Policies(deny=())):
        again = codec.decode(codec.encode(policies), type=Policies)

        assert again == policies
        assert again.revision == policies.revision
        assert again.deny is BUILT_IN_DENY_LIST or policies is not Policies()


def test_the_built_in_deny_list_is_not_stored_with_those_who_have_it_anyway() -> None:
    stored = msgspec.json.encode(Policies(tools={"t": Policy("never")}))

    assert stored == b'{"tools":{"t":{"mode":"never"}}}'
    assert msgspec.json.decode(stored, type=Policies).deny is BUILT_IN_DENY_LIST


def test_what_was_stored_judges_as_before() -> None:
    again = msgspec.json.decode(msgspec.json.encode(EVERYTHING), type=Policies)

    for call in ({"path": "/srv/a", "dir": "src"}, {"path": "/etc/a"}, {"command": "reboot"}, {}):
        assert judge(again, "write_file", call) == judge(EVERYTHING, "write_file", call)


def test_a_revision_changes_with_every_change() -> None:
    others = [
        Policies(),
        Policies(deny=()),
        Policies(deny=("a",)),
        Policies(allow=("a",), deny=()),
        Policies(tools={"a": Policy()}),
        Policies(tools={"a": Policy("never")}),
        Policies(tools={"b": Policy("never")}),
        Policies(tools={"a": Policy("never", (Rule({}, "never"),))}),
        Policies(tools={"a": Policy("never", (Rule({"a": 1}, "never"),))}),
        Policies(tools={"a": Policy("never", (Rule({"a": 1.0}, "never"),))}),
        Policies(tools={"a": Policy("never", (Rule({"a": True}, "never"),))}),
        Policies(tools={"a": Policy("never", (Rule({"a": "1"}, "never"),))}),
        Policies(tools={"a": Policy("never", (Rule({"a": prefix("1")}, "never"),))}),
        Policies(tools={"a": Policy("never", (Rule({"a": glob("1")}, "never"),))}),
    ]

    assert len({policies.revision for policies in others}) == len(others)


def test_a_revision_does_not_depend_on_the_order_of_keys() -> None:
    one = Policies(tools={"a": Policy(rules=(Rule({"x": 1, "y": 2}, "never"),)), "b": Policy()})
    two = Policies(tools={"b": Policy(), "a": Policy(rules=(Rule({"y": 2, "x": 1}, "never"),))})

    assert one.revision == two.revision


def test_a_revision_is_the_same_in_every_process() -> None:
    told = {"u": "always", "t": {"rules": [{"when": {"a": 1.5}, "mode": "first"}]}}
    code = f"from reenact.domain.policy.reading import policies_of; print(policies_of({told!r}).revision)"

    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert seen == {policies_of(told).revision}


def test_a_revision_is_the_same_in_every_version() -> None:
    assert policies_of({**PLAIN, "deny": PLAIN["deny"][1:]}).revision == (
        "097b6258ed0fae3c286090d8142bc091a6f8fd7f87d7e39c3fd41048e4eba010"
    )


def test_the_revision_of_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        _ = Policies(tools={"t": Policy(rules=(Rule({"a": made(exact, object())}, "never"),))}).revision


REFUSED: list[tuple[Any, str]] = [
    (5, "policies must be a mapping from tools to policies, not 5"),
    ("always", "policies must be a mapping"),
    ([], "policies must be a mapping"),
    ({5: "never"}, "policies has the key 5; its keys are texts"),
    ({"tools": []}, "policies.tools must be a mapping from tools to policies"),
    ({"bash": 5}, "policies.bash must be a mode, or a mapping with mode, rules, not 5"),
    ({"bash": "sometimes"}, "policies.bash.mode must be one of never, required, first, always, not 'sometimes'"),
    ({"bash": "deny"}, "not 'deny'; for a tool that must never run, use policies.deny"),
    ({"bash": {"mode": 5}}, "policies.bash.mode must be one of"),
    ({"bash": {"modes": "never"}}, "policies.bash has 'modes', which means nothing here; it takes mode, rules"),
    ({"bash": {"rules": {}}}, "policies.bash.rules must be a list of rules, not {}"),
    ({"bash": {"rules": ["never"]}}, r"policies.bash.rules[0] must be a mapping with when, mode, not 'never'"),
    ({"bash": {"rules": [{"when": {}}]}}, "policies.bash.rules[0] has no mode; it takes when, mode"),
    ({"bash": {"rules": [{"mode": "never"}]}}, "policies.bash.rules[0] has no when"),
    (
        {"bash": {"rules": [{"when": {}, "mode": "no"}]}},
        "policies.bash.rules[0].mode must be one of never, required, first, always, allow, deny, not 'no'",
    ),
    (
        {"bash": {"rules": [{"when": [], "mode": "deny"}]}},
        "policies.bash.rules[0].when must be a mapping from parameters to matchers, not []",
    ),
    ({"bash": {"rules": [{"when": {"a|": 1}, "mode": "deny"}]}}, "policies.bash.rules[0].when has the key 'a|'"),
    (
        {"tools": {"write_file": Policy(rules=(Rule({"path": path("/a/..")}, "deny"),))}},
        "policies.write_file.rules[0].when.path: the path pattern '/a/..' has '..' in it",
    ),
    (
        {"t": {"rules": [{"when": {"a": regex("(")}, "mode": "deny"}]}},
        "policies.t.rules[0].when.a: '(' is not a regular expression",
    ),
    (
        {"t": {"rules": [{"when": {"a": {"type": "regexp"}}, "mode": "deny"}]}},
        "a mapping must be a matcher, its type one of exact, prefix, glob, regex, path, command, not ",
    ),
    ({"t": {"rules": [{"when": {"a": {"b": 1}}, "mode": "deny"}]}}, "not None; to match an object"),
    ({"t": {"rules": [{"when": {"a": {"type": ["path"]}}, "mode": "deny"}]}}, "its type one of"),
    (
        {"t": {"rules": [{"when": {"a": {"type": "path"}}, "mode": "deny"}]}},
        "policies.t.rules[0].when.a has no pattern; it takes pattern, cwd",
    ),
    (
        {"t": {"rules": [{"when": {"a": {"type": "glob", "pattern": "*", "flags": 1}}, "mode": "deny"}]}},
        "policies.t.rules[0].when.a has 'flags'",
    ),
    (
        {"t": {"rules": [{"when": {"a": {"type": "glob", "pattern": 5}}, "mode": "deny"}]}},
        "policies.t.rules[0].when.a: glob must be a text, not 5",
    ),
    ({"t": {"rules": [{"when": {"a": {5: 5}}, "mode": "deny"}]}}, "policies.t.rules[0].when.a has the key 5"),
    (
        {"t": {"rules": [{"when": {"a": object}, "mode": "deny"}]}},
        "policies.t.rules[0].when.a: <class 'object'> is not a matcher: give exact(",
    ),
    (
        {"t": {"rules": [{"when": {"a": float("nan")}, "mode": "deny"}]}},
        "policies.t.rules[0].when.a: nan is not a JSON value",
    ),
    ({"t": {"rules": [{"when": {"a": made(exact, {1: {2}})}, "mode": "deny"}]}}, "is not a JSON value"),
    ({"allow": "bash"}, "policies.allow must be a list of entries, not 'bash'"),
    (
        {"allow": [5]},
        "policies.allow[0] must be the name of a tool, or a mapping with tool, when, reason, advisory, not 5",
    ),
    ({"allow": [""]}, "policies.allow[0]: tool must be the name of a tool"),
    ({"deny": {"bash": 1}}, "policies.deny must be a list of entries"),
    ({"deny": ["[z-a]"]}, "policies.deny[0]: the wildcards of '[z-a]' cannot be read"),
    ({"deny": [{}]}, "policies.deny[0] has no tool"),
    ({"deny": [{"tool": 5}]}, "policies.deny[0].tool: tool must be the name of a tool"),
    ({"deny": [{"tool": "a", "when": {"c": command("")}}]}, "policies.deny[0].when.c: '' is not a command pattern"),
    ({"deny": [{"tool": "a", "reason": 5}]}, "policies.deny[0].reason must be text, not 5"),
    ({"deny": [{"tool": "a", "advisory": 1}]}, "policies.deny[0].advisory must be true or false, not 1"),
    ({"deny": ["a", Entry(5)]}, "policies.deny[1].tool: tool must be the name of a tool"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - that is what is broken
]
"""What cannot work, and what is said of it."""


@pytest.mark.parametrize(("value", "told"), REFUSED)
def test_what_cannot_work_is_named_with_its_place(value: Unchecked, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        policies_of(value)

    assert told in str(refused.value)


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(ConfigurationError, match=r"policies\.t\.rules\[0\]\.when\.a"):
        policies_of({"t": {"rules": [{"when": {"a": deep}, "mode": "deny"}]}})


@pytest.mark.parametrize("entry", ["@bulit-in", "[", "bash[", "bash]", "two words"])
@pytest.mark.parametrize("which", ["allow", "deny"])
def test_an_entry_that_no_tool_could_have_as_its_name_is_a_slip_and_is_refused(entry: str, which: str) -> None:
    with pytest.raises(ConfigurationError, match="no tool could be named"):
        policies_of({which: [entry]})


@pytest.mark.parametrize("entry", ["@bulit-in", "bash["])
def test_such_an_entry_in_a_list_that_nobody_has_read_denies_all(entry: str) -> None:
    assert judge(Policies(deny=(entry,)), "bash", {"command": "ls"}).decision == "deny"


def test_an_entry_may_be_a_mapping_with_nothing_but_its_tool() -> None:
    assert policies_of({"deny": [{"tool": "deploy"}], "allow": [Entry("read")]}) == Policies(
        allow=(Entry("read"),), deny=(Entry("deploy"),)
    )


MATCHER: Unchecked = path("/srv")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Policy("never"), "policies must be a mapping from tools to policies, not Policy"),
        (Entry("t"), "policies must be a mapping from tools to policies, not Entry"),
        ({"t": Rule({}, "never")}, "policies.t must be a mode, or a mapping with mode, rules, not Rule"),
        (
            {"t": Policy(rules=(Rule(MATCHER, "never"),))},
            "when must be a mapping from parameters to matchers, not Path",
        ),
        ({"deny": [Policy()]}, "policies.deny.0. must be the name of a tool, or a mapping with tool, .*, not Policy"),
    ],
)
def test_a_value_of_another_kind_is_not_read_as_a_mapping(value: Unchecked, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        policies_of(value)


def test_policies_of_some_images_stand_beside_those_of_all_others() -> None:
    assert policies_by_image({"pay": "always"}) == (Policies({"pay": Policy("always")}), {})
    assert policies_by_image({"images": {"clerk": {"deny": ["pay"]}}}) == (None, {"clerk": Policies(deny=("pay",))})
    assert policies_by_image({"policies": {"pay": "never"}, "images": {}}) == (Policies({"pay": Policy("never")}), {})


@pytest.mark.parametrize("tools", [{"policies": "always"}, {"images": "always", "pay": "never"}])
def test_tools_may_be_named_like_the_parts(tools: dict[str, str]) -> None:
    assert policies_by_image(tools) == (policies_of(tools), {})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"images": ["clerk"]}, "images must be a mapping from ids of images to policies"),
        ({"images": {"clerk": {"pay": "sometimes"}}}, "images.clerk: policies.pay.mode must be one of"),
        ({"images": {}, "policies": {"pay": "sometimes"}}, "policies.pay.mode must be one of"),
        ([], "policies must be a mapping"),
    ],
)
def test_the_image_whose_policies_cannot_work_is_named(value: object, problem: str) -> None:
    with pytest.raises(ConfigurationError, match="^" + problem):
        policies_by_image(value)
