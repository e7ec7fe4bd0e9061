"""Whether a call runs, waits for a person, or is answered with an error."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.matchers import command, exact, glob, path, prefix, regex
from reenact.domain.policy.reading import policies_of
from reenact.domain.policy.rules import Entry, Mode, Policy, Rule, RuleMode, Verdict, call_digest

Unchecked: TypeAlias = Any
"""What the types would forbid."""

CALL: dict[str, Any] = {"path": "/srv/app/a.txt", "content": "Hello"}


def under(policy: Policy, *, allow: tuple[Entry | str, ...] = (), deny: tuple[Entry | str, ...] = ()) -> Policies:
    return Policies(tools={"write": policy}, allow=allow, deny=deny)


def decided(policies: Policies, arguments: dict[str, Any] = CALL, asked: tuple[str, ...] = ()) -> str:
    return judge(policies, "write", arguments, asked).decision


def test_a_tool_without_a_policy_runs() -> None:
    policies = Policies(tools={"other": Policy("always")})

    assert judge(policies, "write", CALL) == Verdict("run", "no policy is set for it")


@pytest.mark.parametrize(
    ("mode", "plain", "approved", "allowed"),
    [
        ("never", "run", "run", "run"),
        ("first", "ask", "run", "run"),
        ("required", "ask", "ask", "run"),
        ("always", "ask", "ask", "ask"),
    ],
)
def test_a_mode_says_who_is_asked(mode: Mode, plain: str, approved: str, allowed: str) -> None:
    policy = Policy(mode)

    assert decided(under(policy)) == plain
    assert decided(under(policy), asked=(call_digest("write", CALL),)) == approved
    assert decided(under(policy, allow=("write",))) == allowed


def test_an_approval_is_of_the_same_name_and_arguments_only() -> None:
    policies = under(Policy("first"))

    assert decided(policies, asked=(call_digest("other", CALL), call_digest("write", {}))) == "ask"
    assert decided(policies, asked=(call_digest("write", CALL, "revision"),)) == "ask"


def test_who_is_asked_is_told_why() -> None:
    policies = under(Policy(rules=(Rule({"path": path("/srv/**")}, "always"),)))

    assert judge(policies, "write", CALL).reason == "rules[0] of its policy asks about it for its `path`"
    assert judge(under(Policy()), "write", CALL).reason == "its policy asks about it"


@pytest.mark.parametrize("mode", ["never", "first", "required", "always"])
def test_deny_beats_every_mode_and_the_allow_list(mode: Mode) -> None:
    policy = Policy(mode)

    assert decided(under(policy, allow=("write",), deny=("write",))) == "deny"
    assert decided(under(policy, allow=("write",), deny=(Entry("w*", {"path": path("/srv/**")}),))) == "deny"


def test_an_entry_of_a_list_is_about_the_tools_that_its_wildcards_fit() -> None:
    policies = Policies(deny=("{read,write}_*",))

    assert judge(policies, "write_file", {}).decision == "deny"
    assert judge(policies, "unwrite_file", {}).decision == "run"


def test_an_entry_about_several_parameters_wants_all_of_them() -> None:
    policies = Policies(deny=(Entry("*", {"path": path("/srv/**"), "content": prefix("H")}, reason="no greetings"),))

    denied = judge(policies, "write", CALL)

    assert denied == Verdict("deny", "the deny list forbids it for its `path` and `content`: no greetings")
    assert judge(policies, "write", {"path": "/srv/a", "content": "Bye"}).decision == "run"
    assert judge(policies, "write", {"path": "/srv/a"}).decision == "run"


def test_the_first_rule_that_matches_decides() -> None:
    policies = under(
        Policy(
            "never",
            (
                Rule({"path": path("/srv/app/**")}, "never"),
                Rule({"path": path("/srv/**")}, "always"),
            ),
        )
    )

    assert decided(policies, {"path": "/srv/app/a"}) == "run"
    assert decided(policies, {"path": "/srv/a"}) == "ask"


@pytest.mark.parametrize("mode", ["never", "first", "required"])
def test_a_call_that_no_rule_matches_is_required(mode: Mode) -> None:
    rules = (Rule({"path": path("/tmp/**")}, "never"),)  # noqa: S108 - only a name here

    assert decided(under(Policy(mode, rules))) == "ask"
    assert decided(under(Policy(mode, rules)), asked=(call_digest("write", CALL),)) == "ask"
    assert decided(under(Policy(mode, rules), allow=("write",))) == "run"
    assert decided(under(Policy("always", rules), allow=("write",))) == "ask"


def test_a_rule_without_parameters_is_for_all_calls() -> None:
    assert decided(under(Policy("always", (Rule({}, "allow"),)))) == "run"


def test_all_parameters_of_a_rule_must_match() -> None:
    policies = under(Policy(rules=(Rule({"path": path("/srv/**"), "content": "Hello"}, "never"),)))

    assert decided(policies) == "run"
    assert decided(policies, {**CALL, "content": "Bye"}) == "ask"


def test_a_rule_that_denies_denies_wherever_it_stands() -> None:
    rules = (Rule({}, "never"), Rule({"path": path("/srv/app/**")}, "deny"))

    verdict = judge(under(Policy("never", rules), allow=("write",)), "write", CALL)

    assert verdict == Verdict("deny", "rules[1] of its policy denies it for its `path`")


def test_a_rule_may_name_several_parameters_which_must_all_match_to_let_a_call_run() -> None:
    policies = under(Policy(rules=(Rule({"path|to": path("/srv/**")}, "never"),)))

    assert decided(policies, {"path": "/srv/a"}) == "run"
    assert decided(policies, {"to": "/srv/a", "path": "/srv/b"}) == "run"
    assert decided(policies, {"to": "/srv/a", "path": "/etc/b"}) == "ask"
    assert decided(policies, {"other": "/srv/a"}) == "ask"


def test_a_rule_may_name_several_parameters_of_which_one_is_enough_to_deny() -> None:
    policies = under(Policy(rules=(Rule({"path|to": path("/srv/**")}, "deny"), Rule({}, "never"))))

    assert decided(policies, {"to": "/srv/a", "path": "/etc/b"}) == "deny"
    assert decided(policies, {"to": "/etc/a", "path": "/etc/b"}) == "run"


TEXTUAL = [prefix("/srv"), glob("/srv*"), regex("/srv.*"), path("/srv/**"), command("/srv")]


@pytest.mark.parametrize("matcher", TEXTUAL)
@pytest.mark.parametrize("value", [5, True, 1.5, [], {}, ["other", 5], {"path": "/srv/a"}, "\0" * 100_001])
def test_a_value_that_cannot_be_judged_lets_nothing_run(matcher: Unchecked, value: object) -> None:
    runs = under(Policy(rules=(Rule({"path": matcher}, "allow"),)))
    denies = under(Policy(rules=(Rule({"path": matcher}, "deny"), Rule({}, "never"))))
    asks = under(Policy(rules=(Rule({"path": matcher}, "first"), Rule({}, "never"))), allow=("write",))

    assert decided(runs, {"path": value}) == "ask"
    assert decided(denies, {"path": value}) == "deny"
    assert decided(asks, {"path": value}, asked=(call_digest("write", {"path": value}),)) == "ask"


@pytest.mark.parametrize("matcher", TEXTUAL)
@pytest.mark.parametrize("arguments", [{}, {"path": None}])
def test_a_value_that_is_left_out_lets_nothing_run(matcher: Unchecked, arguments: dict[str, Any]) -> None:
    runs = under(Policy(rules=(Rule({"path": matcher}, "allow"),)))
    denies = under(Policy(rules=(Rule({"path": matcher}, "deny"), Rule({}, "never"))))
    asks = under(Policy(rules=(Rule({"path": matcher}, "always"), Rule({}, "never"))))
    listed = under(Policy("never"), deny=(Entry("write", {"path": matcher}),))

    assert decided(runs, arguments) == "ask"
    assert judge(denies, "write", arguments) == Verdict(
        "ask", "rules[0] of its policy may deny it for its `path`; nobody can tell: the call leaves it out"
    )
    assert decided(asks, arguments) == "ask"
    assert decided(listed, arguments) == "run"


@pytest.mark.parametrize("mode", ["deny", "always"])
def test_a_value_that_is_left_out_is_equal_to_nothing(mode: RuleMode) -> None:
    policies = under(Policy(rules=(Rule({"force": True}, mode), Rule({}, "never"))))

    assert decided(policies, {}) == "run"
    assert decided(policies, {"force": False}) == "run"
    assert decided(policies, {"force": None}) == "run"
    assert decided(policies, {"force": True}) == ("deny" if mode == "deny" else "ask")


def test_what_matches_in_part_is_decided_by_the_strictest_rule_that_may_match() -> None:
    policies = under(
        Policy(
            rules=(
                Rule({"c": command("git *")}, "first"),
                Rule({"c": command("make *")}, "always"),
                Rule({"c": command("git status && make")}, "first"),
                Rule({}, "never"),
            )
        )
    )
    both = {"c": "git fetch && make all"}

    assert decided(policies, both, asked=(call_digest("write", both),)) == "ask"
    assert decided(policies, {"c": "ls; ls"}) == "run"
    alone = {"c": "git fetch"}
    assert decided(policies, alone, asked=(call_digest("write", alone),)) == "run"
    redirected = {"c": "git fetch 2>&1"}
    assert decided(policies, redirected, asked=(call_digest("write", redirected),)) == "run"


def test_what_a_rule_that_lets_run_matches_in_part_is_left_to_the_rules_behind_it() -> None:
    policies = under(Policy(rules=(Rule({"c": command("git *")}, "never"), Rule({"c": command("git *")}, "always"))))

    assert decided(policies, {"c": "git fetch"}) == "run"
    assert decided(policies, {"c": "git fetch 2>&1"}) == "ask"


class Evil:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never compare me")

    def __hash__(self) -> int:
        return 1


def test_a_matcher_that_raises_lets_nothing_run() -> None:
    def broken(name: str) -> str:
        raise OSError(f"{name} is a loop")

    runs = under(Policy(rules=(Rule({"path": path("/srv/**")}, "allow"),)))
    denies = under(Policy(rules=(Rule({"path": path("/srv/**")}, "deny"), Rule({}, "never"))))

    assert judge(runs, "write", CALL, resolve=broken).decision == "ask"
    denied = judge(denies, "write", CALL, resolve=broken)
    assert denied.decision == "deny"
    assert "OSError: /srv/app/a.txt is a loop" in denied.reason
    assert judge(Policies(), "write", CALL, resolve=broken).decision == "run", "the built-in list is advisory"


def test_a_value_that_raises_lets_nothing_run() -> None:
    policy = Policy(rules=(Rule({"a": exact({"b": 1})}, "deny"), Rule({"a": exact({"b": 2})}, "never")))

    assert decided(under(policy), {"a": {Evil(): 1, "b": Evil()}}) != "run"
    assert decided(under(Policy("first")), {"a": Evil()}, asked=("x",)) == "ask"


def test_nesting_without_end_lets_nothing_run() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    wanted: list[Any] = []
    for _ in range(300):
        wanted = [wanted]
    rules = (Rule({"a": exact([wanted])}, "deny"), Rule({}, "never"))

    assert decided(under(Policy("first")), {"a": deep}, asked=("x",)) == "ask"
    assert decided(under(Policy(rules=rules)), {"a": deep}) == "run", "it is found to be another one soon enough"
    assert decided(under(Policy(rules=(Rule({"a": deep}, "never"),))), {"a": deep}) == "deny", "no policy can be read"
    assert decided(under(Policy(rules=(Rule({"a": deep}, "deny"),))), {"a": deep}) == "deny"


@pytest.mark.parametrize("arguments", [None, "path", ["path"], 5, {"path"}])
def test_a_call_whose_arguments_are_no_object_is_denied(arguments: Unchecked) -> None:
    verdict = judge(Policies(), "write", arguments)

    assert verdict.decision == "deny"
    assert "not an object" in verdict.reason


@pytest.mark.parametrize(
    ("tools", "name", "decision"),
    [
        ({"send_*": "always"}, "send_mail", "ask"),
        ({"send_*": "always"}, "Send_mail", "run"),
        ({"*": "always"}, "anything", "ask"),
        ({"send_?": "always", "send_*": "never"}, "send_a", "ask"),
        ({"send_*": "never", "*_a": Policy("never", (Rule({}, "deny"),))}, "send_a", "deny"),
        ({"send_*": "always", "send_mail": "never"}, "send_mail", "run"),
        ({"send_mail": "always", "*": "never"}, "send_mail", "ask"),
        ({"{send,get}_mail": "always", "*": "never"}, "get_mail", "ask"),
        ({"{a,b}": "never", "a": "always"}, "a", "ask"),
        ({"{a,b}": "never", "a": "always"}, "b", "run"),
        ({"[ab]x": "always"}, "bx", "ask"),
        ({"[!ab]x": "always"}, "bx", "run"),
    ],
)
def test_of_policies_whose_wildcards_match_the_strictest_holds_and_an_exact_name_goes_before_them(
    tools: Unchecked, name: str, decision: str
) -> None:
    assert judge(policies_of({"tools": tools, "deny": []}), name, {}).decision == decision
