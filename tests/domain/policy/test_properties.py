"""What holds for every policy and every call: it is judged, deny stays deny, and a digest is of one call only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, reject
from hypothesis import strategies as st

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.lists import BUILT_IN_DENY_LIST
from reenact.domain.policy.matchers import Command, Exact, Glob, Path, Prefix, Regex
from reenact.domain.policy.reading import policies_of
from reenact.domain.policy.rules import Entry, Policy, Rule, Verdict, call_digest
from tests.domain.session.policies import forged

NAMES = ("command", "path", "a", "b")
TOOLS = ("bash", "write", "t*")

words = st.text("ab/.*~ $'\"\\;|()`\0\n{}?[]é", max_size=8)
texts = st.one_of(
    words, st.text(max_size=5), st.sampled_from(["/srv/a", "rm -rf /", "git status", "~/.ssh/id_rsa", "a b"])
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.floats(), texts)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)

matchers: st.SearchStrategy[Any] = st.one_of(
    st.builds(Exact, values),
    st.builds(Prefix, texts),
    st.builds(Glob, texts),
    st.builds(Regex, texts),
    st.builds(Path, texts, cwd=st.sampled_from([None, "/srv"])),
    st.builds(Command, texts),
)
whens: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from((*NAMES, "a|b")), st.one_of(matchers, values), max_size=2
)
modes = st.sampled_from(["never", "required", "first", "always"])
rules: st.SearchStrategy[Any] = st.builds(Rule, whens, st.one_of(modes, st.sampled_from(["allow", "deny"])))
entries: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(TOOLS), st.builds(Entry, st.sampled_from(TOOLS), whens, st.just("why"), st.booleans())
)
policies = st.builds(
    Policies,
    st.dictionaries(
        st.sampled_from(TOOLS), st.builds(Policy, modes, st.lists(rules, max_size=3).map(tuple)), max_size=2
    ),
    st.lists(entries, max_size=2).map(tuple),
    st.one_of(st.just(BUILT_IN_DENY_LIST), st.lists(entries, max_size=2).map(tuple)),
)

junk: st.SearchStrategy[Any] = st.one_of(values, matchers, rules, entries, st.just(object()), st.binary(max_size=2))
odd_rules = st.builds(forged, st.builds(Rule, junk, modes), junk)
odd_policies = st.builds(forged, st.builds(Policy, modes, junk), junk)
garbage: st.SearchStrategy[Any] = st.one_of(
    junk,
    st.builds(Policies, junk, junk, junk),
    st.builds(
        Policies,
        st.dictionaries(
            st.sampled_from(TOOLS),
            st.one_of(
                junk,
                odd_policies,
                st.builds(Policy, modes, st.lists(junk, max_size=2).map(tuple)),
            ),
            max_size=2,
        ),
        st.lists(junk, max_size=2).map(tuple),
        st.lists(junk, max_size=2).map(tuple),
    ),
    st.builds(
        Policies,
        st.fixed_dictionaries({"bash": st.builds(Policy, modes, st.tuples(odd_rules))}),
        st.just(()),
        st.tuples(st.builds(Entry, junk, junk, junk, junk)),
    ),
)
resolvers: st.SearchStrategy[Callable[[str], str] | None] = st.sampled_from(
    [None, str.upper, lambda path: f"/srv{path}"]
)


@given(garbage, st.one_of(st.sampled_from(TOOLS), junk), st.one_of(arguments, junk), junk, resolvers)
def test_nothing_makes_judging_raise(
    policies: Any,  # noqa: ANN401 - garbage
    name: Any,  # noqa: ANN401 - likewise
    arguments: Any,  # noqa: ANN401 - likewise
    asked: Any,  # noqa: ANN401 - likewise
    resolve: Callable[[str], str] | None,
) -> None:
    verdict = judge(policies, name, arguments, asked, cwd="/srv", home="~", resolve=resolve)

    assert isinstance(verdict, Verdict)
    assert verdict.decision in {"run", "ask", "deny"}
    assert verdict.reason


@given(policies, arguments, rules, st.integers(0, 3), entries)
def test_to_deny_more_never_lets_more_run(
    policies: Policies,
    arguments: dict[str, Any],
    rule: Rule,
    place: int,
    entry: Entry | str,
) -> None:
    denying = Rule(rule.when, "deny")
    before = judge(policies, "bash", arguments)
    policy = policies.tools.get("bash", Policy("never", (Rule({}, "never"),)))
    ruled = Policy(policy.mode, (*policy.rules[:place], denying, *policy.rules[place:]))

    by_rule = judge(Policies({**policies.tools, "bash": ruled}, policies.allow, policies.deny), "bash", arguments)
    by_entry = judge(Policies(policies.tools, policies.allow, (entry, *policies.deny)), "bash", arguments)

    for after in (by_rule, by_entry):
        assert before.decision != "deny" or after.decision == "deny"
        assert before.decision != "ask" or after.decision != "run"


@given(policies, arguments, st.sampled_from(["never", "allow"]))
def test_what_cannot_be_read_never_lets_more_run(policies: Policies, arguments: dict[str, Any], mode: Any) -> None:  # noqa: ANN401 - one of the modes
    policy = policies.tools.get("bash", Policy())
    broken = Policy(policy.mode, (Rule({"a": Regex("(")}, mode), *policy.rules))

    after = judge(Policies({"bash": broken}, ("*",), policies.deny), "bash", arguments)

    assert after.decision != "run"


@given(policies, arguments)
def test_to_allow_more_never_denies_more(policies: Policies, arguments: dict[str, Any]) -> None:
    before = judge(policies, "bash", arguments)

    after = judge(Policies(policies.tools, (*policies.allow, "*"), policies.deny), "bash", arguments)

    assert (before.decision == "deny") == (after.decision == "deny")
    assert before.decision != "run" or after.decision == "run"


@given(policies, arguments)
def test_policies_that_can_be_read_judge_the_same_after_being_stored(
    policies: Policies, arguments: dict[str, Any]
) -> None:
    try:
        read = policies_of(policies)
    except ConfigurationError:
        reject()

    again = msgspec.json.decode(msgspec.json.encode(read), type=Policies)

    assert policies_of(again) == again == read
    assert again.revision == read.revision
    assert judge(again, "bash", arguments) == judge(policies, "bash", arguments)


@given(values, values)
def test_digests_are_the_same_only_for_the_same_json(one: object, other: object) -> None:
    assert (call_digest("t", {"a": one}) == call_digest("t", {"a": other})) == (told(one) == told(other))


@given(st.text(max_size=3), st.text(max_size=3), arguments, st.text(max_size=2), st.text(max_size=2))
def test_digests_tell_names_arguments_and_revisions_apart(
    name: str, other: str, arguments: dict[str, Any], revision: str, later: str
) -> None:
    same = call_digest(name, arguments, revision) == call_digest(other, arguments, later)

    assert same == (name == other and revision == later)


@given(st.dictionaries(texts, values, max_size=5), st.randoms(use_true_random=False))
def test_a_digest_does_not_depend_on_the_order_of_keys(arguments: dict[str, Any], chance: Any) -> None:  # noqa: ANN401 - a `random.Random`
    keys = list(arguments)
    chance.shuffle(keys)

    assert call_digest("t", {key: arguments[key] for key in keys}) == call_digest("t", arguments)


def test_a_digest_is_the_same_in_every_version() -> None:
    arguments: dict[str, Any] = {"b": [1, 1.0, True, None, "é\ud800\U0001f600"], "a": {}}

    assert call_digest("t", arguments, "r") == "b83ae2787b9245be03e5ba13cad03fc9b3ed95c644d9b840ddbe804c42e0698f"


def test_numbers_that_json_tells_apart_have_different_digests() -> None:
    several: list[Any] = [1, 1.0, True, "1", 1.5, -0.0, 0.0, 0, None, [], {}, ""]

    seen = {call_digest("t", {"a": value}) for value in several}

    assert len(seen) == len(several)
    assert call_digest("t", {"a": "\U0001f600"}) != call_digest("t", {"a": "\ud83d\ude00"})


def told(value: object) -> str:
    """Return what a value is in JSON, with its keys in order, by another way than the code's."""
    if isinstance(value, dict):
        pairs = sorted((json.dumps(key), told(one)) for key, one in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any JSON
        return f"{{{pairs}}}"
    if isinstance(value, list):
        return f"[{','.join(told(one) for one in value)}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any JSON
    return f"{type(value).__name__}:{value!r}"
