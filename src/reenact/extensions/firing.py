"""Telling hooks of what happens, and hearing what they make of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact.domain.tools import is_object
from reenact.extensions.hooks import Hook
from reenact.extensions.running import Ran, run

REFUSES: Final = 2
"""The exit code by which a hook refuses."""
LONGEST: Final = 10_000
"""Characters of what a hook says that anybody is told."""

_SECRET: Final = "ANTHROPIC_API_KEY"  # noqa: S105 - the name of it
_WITH_CONTEXT: Final = frozenset({"SessionStart", "UserPromptSubmit"})
_NO_REASON: Final = "it gave no reason"


class Verdict(msgspec.Struct, frozen=True):
    """What hooks make of an event: why they refuse it, None if they do not, and what the model is to know besides."""

    refusal: str | None = None
    context: str = ""


class Hooks:
    """The hooks that run, in their order; `warn` is told of those that fail, which changes nothing else.

    `environ` is what they are given, without the key of the API. Safe for threads.
    """

    def __init__(
        self, hooks: Sequence[Hook], *, environ: Mapping[str, str], cwd: Path, warn: Callable[[str], None]
    ) -> None:
        self._hooks = hooks
        self._cwd = cwd
        self._warn = warn
        places = {"REENACT_PROJECT_DIR": str(cwd), "CLAUDE_PROJECT_DIR": str(cwd)}
        self._environ = {name: value for name, value in environ.items() if name != _SECRET} | places

    def listen_to(self, *events: str) -> bool:
        """Return whether any hook is told of one of the events."""
        return any(hook.event in events for hook in self._hooks)

    def fire(
        self,
        event: str,
        session_id: str,
        *,
        about: str = "",
        facts: Mapping[str, Any],
        stop: threading.Event | None = None,
    ) -> Verdict:
        """Tell the hooks that fit, one after the other, until one refuses; `about` is what matchers are held to."""
        context: list[str] = []
        for hook in self._hooks:
            if hook.event != event or not hook.fits(about):
                continue
            verdict = self._tell(hook, session_id, facts, stop)
            if verdict.refusal is not None:
                return Verdict(verdict.refusal[:LONGEST], "\n\n".join(context))
            if verdict.context:
                context.append(verdict.context[:LONGEST])
        return Verdict(None, "\n\n".join(context))

    def _tell(self, hook: Hook, session_id: str, facts: Mapping[str, Any], stop: threading.Event | None) -> Verdict:
        told = {"session_id": session_id, "cwd": str(self._cwd), "hook_event_name": hook.event, **facts}
        given = json.dumps(told, default=str).encode()
        try:
            ran = run(hook.command, given, environ=self._environ, cwd=self._cwd, timeout=hook.timeout, stop=stop)
        except OSError as error:
            self._warn(f"{_named(hook)} could not be started: {error.strerror or error}")
            return Verdict()
        if ran.code is None:
            if stop is None or not stop.is_set():
                self._warn(f"{_named(hook)} was ended: it ran longer than {hook.timeout:g} s")
            return Verdict()
        if ran.code not in (0, REFUSES):
            said = " ".join(ran.err.split())[:200]
            self._warn(f"{_named(hook)} has failed with exit code {ran.code}{': ' if said else ''}{said}")
            return Verdict()
        return _verdict(hook.event, ran)


def _verdict(event: str, ran: Ran) -> Verdict:
    if ran.code == REFUSES:
        return Verdict(ran.err.strip() or _NO_REASON)
    said = _json(ran.out)
    if said is None:
        return Verdict(None, ran.out.strip() if event in _WITH_CONTEXT else "")
    specific = said.get("hookSpecificOutput")
    specific = specific if is_object(specific) else {}
    context = specific.get("additionalContext")
    return Verdict(_refusal(said, specific), context if isinstance(context, str) else "")


def _refusal(said: dict[str, Any], specific: dict[str, Any]) -> str | None:
    """Return why a hook refuses, in any of the ways to say it; what it wants and cannot have here is refused too."""
    if said.get("continue") is False:
        return _text(said.get("stopReason"))
    if said.get("decision") == "block":
        return _text(said.get("reason"))
    match specific.get("permissionDecision"):
        case "deny":
            return _text(specific.get("permissionDecisionReason"))
        case "ask":
            return "it wants a person to be asked, which a hook cannot have here; policies can"
        case _:
            pass
    if "updatedInput" in specific:
        return "it wants to change the arguments, which a hook cannot do here"
    return None


def _text(reason: object) -> str:
    return reason if isinstance(reason, str) and reason.strip() else _NO_REASON


def _json(out: str) -> dict[str, Any] | None:
    if not out.lstrip().startswith("{"):
        return None
    try:
        content = json.loads(out)
    except (ValueError, RecursionError):
        return None
    return content if is_object(content) else None


def _named(hook: Hook) -> str:
    return f"the hook {hook.command[:80]!r} for {hook.event}"
