"""What hooks are told, and what is made of what they say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.extensions.firing import Hooks, Verdict
from reenact.extensions.hooks import Hook
from reenact.extensions.running import HookResult


def hook(command: str, event: str = "PreToolUse", matcher: str = "", timeout: float = 60.0) -> Hook:
    return Hook(event=event, matcher=matcher, command=command, timeout=timeout, path="hooks.json", source="user")


def that_ran(ran: HookResult) -> Callable[..., HookResult]:
    """Return what stands for running a command line."""

    def run(*_arguments: object, **_more: object) -> HookResult:
        return ran

    return run


class Fired:
    """Hooks, and what was warned of."""

    def __init__(self, *hooks: Hook, cwd: Path) -> None:
        self.warnings: list[str] = []
        environ = {
            "PATH": "/usr/bin:/bin",
            "ANTHROPIC_API_KEY": "secret",
            "ANTHROPIC_AUTH_TOKEN": "secret",
            "OPENAI_API_KEY": "secret",
            "REENACT_KEYS": "env:RING",
            "RING": "secret",
            "REENACT_DB": "postgresql://me:secret@host/log",
        }
        self.hooks = Hooks(hooks, environ=environ, cwd=cwd, warn=self.warnings.append)

    def __call__(self, event: str = "PreToolUse", about: str = "Bash") -> Verdict:
        return self.hooks.fire(event, "ses_1", about=about, facts={"tool_name": about, "when": 1.5})


def test_a_hook_is_told_of_the_event_as_json(tmp_path: Path) -> None:
    Fired(hook("cat > told.json"), cwd=tmp_path)()

    assert json.loads((tmp_path / "told.json").read_text()) == {
        "session_id": "ses_1",
        "cwd": str(tmp_path),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "when": 1.5,
    }


def test_a_hook_knows_the_project_and_not_what_opens_the_api_or_the_log(tmp_path: Path) -> None:
    Fired(hook("echo $REENACT_PROJECT_DIR $CLAUDE_PROJECT_DIR > told; env >> told"), cwd=tmp_path)()

    place, *environ = (tmp_path / "told").read_text().splitlines()
    assert place == f"{tmp_path} {tmp_path}"
    assert "PATH=/usr/bin:/bin" in environ
    assert not any("secret" in one for one in environ)


def test_a_hook_knows_the_log_that_is_a_file(tmp_path: Path) -> None:
    Hooks([hook("echo $REENACT_DB > told")], environ={"REENACT_DB": "/a/log.db"}, cwd=tmp_path, warn=print).fire(
        "PreToolUse", "ses_1", facts={}
    )

    assert (tmp_path / "told").read_text() == "/a/log.db\n"


UNCLEAR = [
    (HookResult(0, '{"decision": "block", "reason": "xxx', "", is_cut=True), "more than 100,000 bytes of JSON"),
    (HookResult(0, '{"decision": "block"', ""), "it is not valid JSON"),
    (HookResult(0, "{'decision': 'block'}", ""), "it is not valid JSON"),
    (HookResult(0, '{"decision": "block"}\ndone', ""), "it is not valid JSON"),
    (HookResult(0, '{"a": ' * 100_000, ""), "nested more than 100 deep"),
    (HookResult(0, '{"decision": "block", "decision": "approve"}', ""), "the key 'decision' comes twice"),
    (HookResult(0, '{"decision": "deny"}', ""), "`decision` is 'deny', and must be 'approve' or 'block'"),
    (HookResult(0, '{"continue": "false"}', ""), "`continue` is 'false', and must be true or false"),
    (HookResult(0, '{"continue": 0}', ""), "`continue` is 0"),
    (HookResult(0, '{"hookSpecificOutput": 3}', ""), "`hookSpecificOutput` must be an object"),
    (HookResult(0, '{"hookSpecificOutput": {"permissionDecision": "DENY"}}', ""), "`permissionDecision` is 'DENY'"),
    (HookResult(0, '{"hookSpecificOutput": {"permissionDecision": "defer"}}', ""), "`permissionDecision` is 'defer'"),
]


@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit"])
@pytest.mark.parametrize(("ran", "why"), UNCLEAR)
def test_a_guard_that_cannot_be_understood_refuses_and_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: HookResult, why: str, event: str
) -> None:
    monkeypatch.setattr("reenact.extensions.firing.run", that_ran(ran))
    fired = Fired(hook("x", event), cwd=tmp_path)

    refusal = fired(event).refusal

    assert refusal is not None
    assert refusal.startswith("what it printed cannot be understood: ")
    assert why in refusal
    assert fired.warnings == [f"the hook 'x' for {event}: {refusal}"]


@pytest.mark.parametrize("event", ["SessionStart", "PostToolUse", "Stop"])
def test_a_hook_that_guards_nothing_and_cannot_be_understood_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    monkeypatch.setattr("reenact.extensions.firing.run", that_ran(HookResult(0, "{braces}", "")))
    fired = Fired(hook("x", event), cwd=tmp_path)

    verdict = fired(event)

    assert verdict == Verdict(None, "{braces}" if event == "SessionStart" else "")
    (warning,) = fired.warnings
    assert "it is not valid JSON" in warning


def test_a_refusal_that_is_too_long_to_be_read_refuses_all_the_same(tmp_path: Path) -> None:
    long = """printf '{"decision": "block", "reason": "'; head -c 150000 /dev/zero | tr '\\0' x; printf '"}'"""

    refusal = Fired(hook(long), cwd=tmp_path)().refusal

    assert refusal is not None
    assert "more than 100,000 bytes of JSON" in refusal


def test_what_a_hook_says_does_not_drive_a_terminal(tmp_path: Path) -> None:
    fired = Fired(hook(r"printf '\033]0;mine\007\033[2J' >&2; exit 1"), cwd=tmp_path)

    fired()

    (warning,) = fired.warnings
    assert "\\u001b]0;mine" in warning
    assert warning.isprintable()


def test_hooks_behind_one_that_is_stopped_do_not_begin(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()

    Fired(hook("touch ran"), cwd=tmp_path).hooks.fire("PreToolUse", "ses_1", facts={}, stop=stop)

    assert not (tmp_path / "ran").exists()


def test_no_hook_begins_once_all_are_ended_and_what_it_guards_does_not_happen(tmp_path: Path) -> None:
    fired = Fired(hook("touch ran"), cwd=tmp_path)
    fired.hooks.end()

    verdict = fired()

    assert verdict.refusal == "the command is ending"
    assert (fired.warnings, (tmp_path / "ran").exists()) == ([], False)


@pytest.mark.parametrize(
    ("ran", "refusal"),
    [
        (HookResult(2, "", "not here\n"), "not here"),
        (HookResult(2, "", ""), "it gave no reason"),
        (HookResult(0, '{"decision": "block", "reason": "no"}', ""), "no"),
        (HookResult(0, '{"decision": "block"}', ""), "it gave no reason"),
        (HookResult(0, '{"decision": "block", "reason": 3}', ""), "it gave no reason"),
        (HookResult(0, '{"continue": false, "stopReason": "stop"}', ""), "stop"),
        (
            HookResult(
                0, '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "x"}}', ""
            ),
            "x",
        ),
        (
            HookResult(0, '{"hookSpecificOutput": {"permissionDecision": "ask"}}', ""),
            "it wants a person to be asked, which a hook cannot have here; policies can",
        ),
        (
            HookResult(0, '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {}}}', ""),
            "it wants to change the arguments, which a hook cannot do here",
        ),
        (HookResult(0, '{"hookSpecificOutput": {"permissionDecision": "allow"}}', ""), None),
        (HookResult(0, '{"continue": true, "decision": "approve"}', ""), None),
        (HookResult(0, '{"decision": null, "hookSpecificOutput": null}', ""), None),
        (HookResult(0, '\ufeff {"decision": "block", "reason": "no"}', ""), "no"),
        (HookResult(0, "[" * 100_000, ""), None),
        (HookResult(0, "block", ""), None),
        (HookResult(0, "", "words"), None),
    ],
)
def test_a_hook_refuses_by_its_exit_code_or_by_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: HookResult, refusal: str | None
) -> None:
    monkeypatch.setattr("reenact.extensions.firing.run", that_ran(ran))
    fired = Fired(hook("x"), cwd=tmp_path)

    assert fired().refusal == refusal
    assert fired.warnings == []


@pytest.mark.parametrize(
    ("ran", "warning"),
    [
        (
            HookResult(1, '{"decision": "block"}', "oh\nno\n"),
            "the hook 'x' for PreToolUse has failed with exit code 1: oh no",
        ),
        (HookResult(137, "", ""), "the hook 'x' for PreToolUse has failed with exit code 137"),
        (HookResult(None, "", ""), "the hook 'x' for PreToolUse was ended: it ran longer than 60 s"),
    ],
)
def test_a_hook_that_fails_is_warned_of_and_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: HookResult, warning: str
) -> None:
    monkeypatch.setattr("reenact.extensions.firing.run", that_ran(ran))
    fired = Fired(hook("x"), cwd=tmp_path)

    assert fired() == Verdict()
    assert fired.warnings == [warning]


def test_a_hook_that_cannot_be_started_is_warned_of(tmp_path: Path) -> None:
    fired = Fired(hook("x"), cwd=tmp_path / "nowhere")

    assert fired() == Verdict()
    assert fired.warnings == ["the hook 'x' for PreToolUse could not be started: No such file or directory"]


def test_hooks_are_told_in_their_order_until_one_refuses(tmp_path: Path) -> None:
    commands = ("echo 1 >> order", "echo 2 >> order; exit 2", "echo 3 >> order")

    Fired(*map(hook, commands), cwd=tmp_path)()

    assert (tmp_path / "order").read_text() == "1\n2\n"


def test_only_hooks_that_fit_are_told(tmp_path: Path) -> None:
    fired = Fired(hook("exit 2", matcher="Write"), hook("exit 2", event="Stop"), cwd=tmp_path)

    assert fired() == Verdict()
    assert fired.hooks.listen_to("Stop")
    assert not fired.hooks.listen_to("PostToolUse")


@pytest.mark.parametrize(
    ("event", "out", "context"),
    [
        ("UserPromptSubmit", "the time is now\n", "the time is now"),
        ("SessionStart", "the time is now\n", "the time is now"),
        ("PreToolUse", "the time is now\n", ""),
        ("PreToolUse", '{"hookSpecificOutput": {"additionalContext": "careful"}}', "careful"),
        ("UserPromptSubmit", '{"hookSpecificOutput": {"additionalContext": 3}}', ""),
        ("UserPromptSubmit", "x" * 20_000, "x" * 10_000),
    ],
)
def test_what_a_hook_says_besides_is_for_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, out: str, context: str
) -> None:
    monkeypatch.setattr("reenact.extensions.firing.run", that_ran(HookResult(0, out, "")))

    assert Fired(hook("x", event), cwd=tmp_path)(event) == Verdict(None, context)
