"""Policies that cannot be read deny every call, and say what is wrong with them."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.matchers import Command, Exact, Glob, Path, Prefix, Regex, regex
from reenact.domain.policy.rules import RULE_MODES, Entry, Policy, Rule
from tests.domain.session.policies import forged

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
    Exact({1, 2}),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    object,
    b"bytes",
    {"type": "exact", "value": 1},
    float("inf"),
]


def policies(rule: Unchecked, deny: tuple[Any, ...] = ()) -> Policies:
    return Policies(tools={"t": Policy("never", (rule, Rule({}, "never")))}, allow=("t",), deny=deny)


def denied(broken: Unchecked, name: Unchecked = "t", told: str = "") -> bool:
    """Return whether these policies deny a call, and say that they cannot be read, and where."""
    verdict = judge(broken, name, {"a": "x"})
    return verdict.decision == "deny" and f"the policies cannot be read: {told}" in verdict.reason


@pytest.mark.parametrize("matcher", BROKEN)
def test_a_broken_matcher_denies_every_call(matcher: Unchecked) -> None:
    for mode in RULE_MODES:
        place = "ConfigurationError: policies.t.rules[0].when.a: "
        assert denied(policies(Rule({"a": matcher}, mode)), told=place)
    assert denied(Policies(deny=(Entry("t*", {"a": matcher}),)), told="ConfigurationError: policies.deny[0].when.a: ")
    allowing = Policies(tools={"t": Policy()}, allow=("t", Entry("t", {"a": matcher})), deny=())
    assert denied(allowing, told="ConfigurationError: policies.allow[1].when.a: ")
    assert denied(policies(Rule({"a": matcher}, "never")), "other")


@pytest.mark.parametrize(
    "rule",
    [None, 5, "never", {"mode": "never"}, forged(Rule({}, "never"), "sometimes"), forged(Rule({}, "never"), ["never"])],
)
def test_what_is_no_rule_denies(rule: Unchecked) -> None:
    assert denied(policies(rule))


@pytest.mark.parametrize("mode", ["sometimes", "", "Always", None, ["never"]])
def test_a_mode_that_there_is_not_is_refused_at_once(mode: Unchecked) -> None:
    with pytest.raises(ConfigurationError, match=r"one of never, required, first, always, not .*policies\.deny"):
        Policy(mode)
    with pytest.raises(ConfigurationError, match="one of never, required, first, always, allow, deny, not"):
        Rule({}, mode)


@pytest.mark.parametrize("when", [None, 5, ["a"], {5: "x"}, {"": "x"}, {"a|": "x"}])
def test_what_is_no_mapping_from_parameters_denies(when: Unchecked) -> None:
    assert denied(policies(Rule(when, "never")), told="ConfigurationError: policies.t.rules[0].when ")
    assert denied(policies(Rule(when, "deny")))


def test_a_plain_mapping_that_would_deny_denies() -> None:
    assert denied(policies({"mode": "deny", "when": {}}))


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
def test_what_is_no_policy_denies(policy: Unchecked) -> None:
    assert denied(Policies(tools={"t": policy}, allow=("t",)))


@pytest.mark.parametrize(
    "tools", [None, 5, "t", [("t", "never")], {"x": Policy("never"), "[z-a]": Policy()}, {"t": Policy("never"), 5: 5}]
)
def test_what_is_no_mapping_of_tools_denies(tools: Unchecked) -> None:
    assert denied(Policies(tools=tools))


@pytest.mark.parametrize("entries", [None, 5, "t", {"t": "deny"}])
def test_what_is_no_list_denies(entries: Unchecked) -> None:
    assert denied(Policies(deny=entries), told="ConfigurationError: policies.deny must be a list of entries, not ")
    assert denied(
        Policies(tools={"t": Policy()}, allow=entries), told="ConfigurationError: policies.allow must be a list "
    )


@pytest.mark.parametrize("entry", [None, 5, ["t"], {"tool": "t"}, Entry(5), Entry(""), Entry("[z-a]")])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - that is what is broken
def test_what_is_no_entry_denies(entry: Unchecked) -> None:
    assert denied(Policies(deny=(entry,)))
    assert denied(Policies(tools={"t": Policy()}, allow=(entry,)))


def test_policies_of_tools_join_those_that_cannot_be_read_and_every_call_is_denied() -> None:
    joined = policies(Rule({"a": Regex("(")}, "deny")).with_own({"t": Policy("always"), "u": Policy("never")})

    assert joined.tools.keys() == {"t", "u"}
    assert joined.tools["t"].mode == "never"
    assert denied(joined, "u")


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
