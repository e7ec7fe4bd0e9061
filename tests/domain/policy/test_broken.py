"""A policy that cannot be read fails closed: where it would deny, it denies, anywhere else a person is asked."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.matchers import Command, Exact, Glob, Path, Prefix, Regex, regex
from reenact.domain.policy.rules import Entry, Policy, Rule
from tests.domain.policies import forged

Unchecked: TypeAlias = Any
"""What the types would forbid."""

BROKEN: list[Any] = [
    Regex("("),
    Regex("(?=a)"),
    Regex(r"(a)\1"),
    Regex(5),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - that is what is broken
    Prefix(None),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Glob(b"x"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Glob("[z-a]"),
    Glob("{a,b}" * 9),
    Path(""),
    Path("/srv/../etc"),
    Path("/srv", cwd="srv"),
    Path("/srv", cwd=5),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Command(""),
    Command("a | b | c | d"),
    Exact(float("nan")),
    Exact({1, 2}),
    object,
    b"bytes",
    {"type": "exact", "value": 1},
    float("inf"),
]
CALLS: list[dict[str, Any]] = [{"a": "x"}, {"a": 5}, {}, {"b": "x"}]


def policies(rule: Unchecked, deny: tuple[Any, ...] = ()) -> Policies:
    return Policies(tools={"t": Policy("never", (rule, Rule({}, "never")))}, allow=("t",), deny=deny)


@pytest.mark.parametrize("matcher", BROKEN)
@pytest.mark.parametrize("arguments", CALLS, ids=str)
def test_a_broken_matcher_denies_in_a_rule_that_denies_and_asks_in_any_other(
    matcher: Unchecked, arguments: dict[str, Any]
) -> None:
    assert judge(policies(Rule({"a": matcher}, "deny")), "t", arguments).decision == "deny"
    for mode in ("never", "allow", "first", "required", "always"):
        verdict = judge(policies(Rule({"a": matcher}, mode)), "t", arguments)
        assert verdict.decision == "ask"
        assert verdict.reason.startswith("rules[0] of its policy cannot be read: when.a: ")


@pytest.mark.parametrize("matcher", BROKEN)
@pytest.mark.parametrize("arguments", CALLS, ids=str)
def test_a_broken_entry_denies_all_of_its_tools_and_allows_none(matcher: Unchecked, arguments: dict[str, Any]) -> None:
    denying = Policies(deny=(Entry("t*", {"a": matcher}),))
    allowing = Policies(tools={"t": Policy()}, allow=(Entry("t", {"a": matcher}),), deny=())

    denied = judge(denying, "t", arguments)
    assert denied.decision == "deny"
    assert denied.reason.startswith("an entry of the deny list cannot be read: when.a: ")
    assert judge(denying, "other", arguments).decision == "run"
    assert judge(allowing, "t", arguments).decision == "ask"


@pytest.mark.parametrize(
    "rule",
    [None, 5, "never", {"mode": "never"}, forged(Rule({}, "never"), "sometimes"), forged(Rule({}, "never"), ["never"])],
)
def test_what_is_no_rule_asks(rule: Unchecked) -> None:
    assert judge(policies(rule), "t", {}).decision == "ask"


@pytest.mark.parametrize("mode", ["sometimes", "", "Always", None, ["never"]])
def test_a_mode_that_there_is_not_is_refused_at_once(mode: Unchecked) -> None:
    with pytest.raises(ConfigurationError, match=r"one of never, required, first, always, not .*policies\.deny"):
        Policy(mode)
    with pytest.raises(ConfigurationError, match="one of never, required, first, always, allow, deny, not"):
        Rule({}, mode)


@pytest.mark.parametrize("when", [None, 5, ["a"], {5: "x"}, {"": "x"}, {"a|": "x"}])
def test_what_is_no_mapping_from_parameters_fails_closed(when: Unchecked) -> None:
    assert judge(policies(Rule(when, "never")), "t", {}).decision == "ask"
    assert judge(policies(Rule(when, "deny")), "t", {}).decision == "deny"


def test_a_plain_mapping_that_would_deny_denies() -> None:
    assert judge(policies({"mode": "deny", "when": {}}), "t", {}).decision == "deny"


@pytest.mark.parametrize(
    "policy",
    [
        5,
        "never",
        {"mode": "never"},
        forged(Policy(), "sometimes"),
        forged(Policy(), ["never"]),
        Policy("never", None),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - that is what is broken
        Policy("never", "deny"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ],
    ids=repr,
)
def test_what_is_no_policy_asks(policy: Unchecked) -> None:
    verdict = judge(Policies(tools={"t": policy}, allow=("t",)), "t", {})

    assert verdict.decision == "ask"
    assert "cannot be read" in verdict.reason


@pytest.mark.parametrize(
    "tools", [None, 5, "t", [("t", "never")], {"x": Policy("never"), "[z-a]": Policy()}, {"t": Policy("never"), 5: 5}]
)
def test_what_is_no_mapping_of_tools_asks(tools: Unchecked) -> None:
    assert judge(Policies(tools=tools), "t", {}).decision == "ask"


@pytest.mark.parametrize("deny", [None, 5, "t", {"t": "deny"}])
def test_what_is_no_deny_list_denies_everything(deny: Unchecked) -> None:
    assert judge(Policies(deny=deny), "t", {}).decision == "deny"


@pytest.mark.parametrize("entry", [None, 5, ["t"], {"tool": "t"}, Entry(5), Entry(""), Entry("[z-a]")])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - that is what is broken
def test_what_is_no_entry_denies_everything_and_allows_nothing(entry: Unchecked) -> None:
    assert judge(Policies(deny=(entry,)), "t", {}).decision == "deny"
    assert judge(Policies(tools={"t": Policy()}, allow=(entry,)), "t", {}).decision == "ask"


@pytest.mark.parametrize("allow", [None, 5, "t", {"t": 1}])
def test_what_is_no_allow_list_allows_nothing(allow: Unchecked) -> None:
    assert judge(Policies(tools={"t": Policy()}, allow=allow), "t", {}).decision == "ask"


@pytest.mark.parametrize("garbage", [None, 5, {}, Policy("never"), object()])
def test_what_are_no_policies_deny_everything(garbage: Unchecked) -> None:
    verdict = judge(garbage, "t", {})

    assert verdict.decision == "deny"
    assert "cannot be read" in verdict.reason


@pytest.mark.parametrize("name", [None, 5, ["t"], {}])
def test_a_name_that_is_none_fails_closed(name: Unchecked) -> None:
    some = Policies(tools={"t": Policy("never")}, deny=("x*",))

    assert judge(some, name, {}).decision == "deny"
    assert judge(Policies(deny=()), ["t"], {}).decision == "ask"  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - that is what is broken


def test_a_regular_expression_that_is_too_large_for_the_text_denies() -> None:
    large = Rule({"a": regex("a{0,900}b")}, "deny")

    assert judge(policies(large), "t", {"a": "a" * 20_000}).decision == "deny"
    assert judge(policies(large), "t", {"a": "a" * 200}).decision == "run"
