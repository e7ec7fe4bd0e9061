"""`reenact replay` with policies, limits and prices: what would be otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.audit import Audit
from reenact.domain.session.agent import ReceivedAnswer
from reenact.domain.session.state import SessionCreated
from tests.cli.conftest import Run
from tests.domain.history.retraced import Remembering
from tests.domain.session.examples import HELLO
from tests.verification.sample import make_log
from tests.verification.test_replay import Foreign, Kept, steps_of, written

pytestmark = pytest.mark.sqlite_only("files, by their paths")
Policy = Callable[[object], str]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which a tool has run in session a, and one waits for a person in session b."""
    return make_log(tmp_path_factory.mktemp("made") / "log.db")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Return what writes policies to a file, whose path it returns."""

    def policy(content: object) -> str:
        path = tmp_path / "policy.json"
        path.write_text(json.dumps(content))
        return str(path)

    return policy


def test_calls_that_would_be_judged_otherwise_are_listed_and_counted(run: Run, log: Path, policy: Policy) -> None:
    stricter = policy(
        {"add": "always", "pay": {"mode": "required", "rules": [{"when": {"amount": 3}, "mode": "deny"}]}}
    )

    outcome = run("replay", "--db", str(log), "--policy", stricter)

    a, call_of_a, b, call_of_b, z, last = outcome.out.splitlines()
    assert outcome.code == 1
    assert a == "a  1 of 1 decision would be otherwise"
    assert call_of_a.split(maxsplit=2)[2] == (
        'add {"left":1,"right":2} ran (no policy is set for it) and would be asked about (its policy asks about it)'
    )
    assert b == "b  1 of 1 decision would be otherwise"
    assert "was asked about (its policy asks about it) and would be denied" in call_of_b
    assert call_of_b.endswith("(rules[0] of its policy denies it for its `amount`)")
    assert z == "z  nothing would be otherwise: 0 decisions"
    assert last == "3 histories: 1 call would be denied, 1 call would be asked about"


def test_one_session_may_be_named(run: Run, log: Path, policy: Policy) -> None:
    outcome = run("replay", "b", "--db", str(log), "--policy", policy({"pay": "never"}))

    assert outcome.out.splitlines()[-1] == "1 history: 1 call would run"


def test_turns_that_would_end_are_listed_and_counted(run: Run, log: Path) -> None:
    outcome = run("replay", "a", "--db", str(log), "--max-turns", "1")

    told, turn, last = outcome.out.splitlines()
    assert outcome.code == 1
    assert told.startswith("a  1 of ")
    assert "the turn went on (no limit is reached) and would be ended by max_steps_exceeded" in turn
    assert turn.endswith("(the limit of 1 steps is reached)")
    assert last == "1 history: 1 turn would be ended by max_steps_exceeded"


def test_prices_and_a_limit_of_costs_are_supposed_together(run: Run, tmp_path: Path) -> None:
    world = Remembering()
    world.create("a")
    world.run("a")
    world.say("a")
    usage = {"output_tokens": 10}
    world.answer("a", ReceivedAnswer(message_id="m", content=HELLO, stop_reason="end_turn", usage=usage, model="large"))
    world.say("a")
    log = str(written(tmp_path / "log.db", [Kept("session/a", step.events, step.cause) for step in world.steps["a"]]))

    assert run("replay", "--db", log, "--max-cost", "0.5").code == 0
    outcome = run("replay", "--db", log, "--max-cost", "0.5", "--price", "large=0,100000")

    assert outcome.code == 1
    assert outcome.out.splitlines()[1].endswith(
        "would be ended by cost_limit_exceeded (1 were spent, more than the limit of 0.5)"
    )
    assert outcome.out.splitlines()[2] == "1 history: 1 turn would be ended by cost_limit_exceeded"


def test_where_nothing_would_be_otherwise_the_command_succeeds(run: Run, log: Path, policy: Policy) -> None:
    of_another = {"images": {"another": {"add": "always"}}, "policies": {}}

    outcome = run("replay", "--db", str(log), "--policy", policy(of_another))

    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "3 histories, nothing would be otherwise")


def test_each_history_is_an_object_for_programs(run: Run, log: Path, policy: Policy) -> None:
    found = run("replay", "--db", str(log), "--policy", policy({"add": "always"}), "--output-format", "json").objects

    assert [(one["session_id"], one["decisions"], len(one["otherwise"])) for one in found] == [
        ("a", 1, 1),
        ("b", 1, 0),
        ("z", 0, 0),
    ]
    assert found[0]["otherwise"][0]["arguments"] == {"left": 1, "right": 2}
    assert found[0]["otherwise"][0]["decided"] == {
        "decision": "ask",
        "reason": "its policy asks about it",
        "limit": None,
    }


def test_exports_and_folders_of_them_are_looked_at(run: Run, log: Path, tmp_path: Path, policy: Policy) -> None:
    folder = tmp_path / "golden"
    folder.mkdir()
    with Audit.open(log) as audit:
        audit.export(folder / "some.jsonl", sessions=["b"], feeds=False)

    outcome = run("replay", str(folder), "--policy", policy({"add": "always"}))
    found = run("replay", str(folder), "--policy", policy({"pay": "never"}))

    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "1 history, nothing would be otherwise")
    assert found.code == 1
    assert found.out.splitlines()[0].startswith(f"{folder / 'some.jsonl'}  b  1 of")


def test_what_cannot_be_read_fails_the_command(run: Run, log: Path, tmp_path: Path) -> None:
    begun = next(step for step in steps_of(log) if isinstance(step.events[0], SessionCreated))
    broken = written(tmp_path / "broken.db", [begun, Kept(begun.stream, [Foreign(1)])])
    (tmp_path / "broken.jsonl").write_text("{}\n")

    outcome = run("replay", str(broken), str(tmp_path / "broken.jsonl"), "--max-turns", "1")

    assert outcome.code == 1
    assert "cannot be read: the log holds an event of the unknown type" in outcome.out
    assert outcome.out.splitlines()[-1] == "2 histories: 2 histories cannot be read to the end"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            {"images": {"i": {"add": "sometimes"}}},
            "images.i: policies.add.mode must be one of never, required, first, always",
        ),
        ({"add": {"rules": [{"when": dict[str, object]()}]}}, "policies.add.rules[0] has no mode"),
    ],
)
def test_a_file_that_cannot_be_policies_is_said_with_the_place(
    run: Run, log: Path, policy: Policy, content: object, problem: str
) -> None:
    outcome = run("replay", "--db", str(log), "--policy", policy(content))

    assert outcome.code == 2
    assert problem in " ".join(outcome.err.split())
    assert outcome.out == ""


@pytest.mark.parametrize(
    "option", [("--max-turns", "0"), ("--max-cost", "-1"), ("--price", "m=x"), ("--policy", "gone.json")]
)
def test_what_cannot_be_supposed_is_bad_usage(run: Run, log: Path, option: tuple[str, str]) -> None:
    outcome = run("replay", "--db", str(log), *option)

    assert outcome.code == 2
    assert option[0] in outcome.err
