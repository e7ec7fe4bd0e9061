"""Runs the hooks for an event and combines their verdicts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from reenact.domain.legible import harmless
from reenact.extensions.hooks import Hook
from reenact.extensions.running import Running, run
from reenact.extensions.verdicts import GUARDED, REFUSES, UnclearError, Verdict, plain_context, verdict_of

LONGEST: Final = 10_000
"""Characters of what a hook says that anybody is told."""

_SECRETS: Final = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})
_LOG: Final = "REENACT_DB"


class Hooks:
    """The hooks that run, in their order; `warn` is told of those that fail, which changes nothing else.

    `environ` is what they are given, without what opens the API and a URL of the log, in which may be a password. Safe
    for threads.
    """

    def __init__(
        self, hooks: Sequence[Hook], *, environ: Mapping[str, str], cwd: Path, warn: Callable[[str], None]
    ) -> None:
        self._hooks = hooks
        self._cwd = cwd
        self._warn = warn
        places = {"REENACT_PROJECT_DIR": str(cwd), "CLAUDE_PROJECT_DIR": str(cwd)}
        self._environ = without_secrets(environ) | places
        self._running = Running()

    def listen_to(self, *events: str) -> bool:
        """Return whether any hook is told of one of the events."""
        return any(hook.event in events for hook in self._hooks)

    def end(self) -> None:
        """Kill those that run, with what they have started, and let no other one begin. Idempotent."""
        self._running.end()

    def fire(
        self,
        event: str,
        session_id: str,
        *,
        about: str = "",
        facts: Mapping[str, object],
        stop: threading.Event | None = None,
    ) -> Verdict:
        """Tell the hooks that fit, one after the other, until one refuses; `about` is what matchers are held to."""
        context: list[str] = []
        for hook in self._hooks:
            if stop is not None and stop.is_set():
                break
            if hook.event != event or not hook.fits(about):
                continue
            verdict = self._tell(hook, session_id, facts, stop)
            if verdict.refusal is not None:
                return Verdict(verdict.refusal[:LONGEST], "\n\n".join(context))
            if verdict.context:
                context.append(verdict.context[:LONGEST])
        return Verdict(None, "\n\n".join(context))

    def _tell(self, hook: Hook, session_id: str, facts: Mapping[str, object], stop: threading.Event | None) -> Verdict:
        told = {"session_id": session_id, "cwd": str(self._cwd), "hook_event_name": hook.event, **facts}
        given = json.dumps(told, default=str).encode()
        try:
            ran = run(
                hook.command,
                given,
                environ=self._environ,
                cwd=self._cwd,
                timeout=hook.timeout,
                stop=stop,
                running=self._running,
            )
        except OSError as error:
            self._warn(f"{_named(hook)} could not be started: {error.strerror or error}")
            return Verdict()
        if self._running.has_ended:
            return Verdict("the command is ending")
        if ran.code is None:
            if stop is None or not stop.is_set():
                self._warn(f"{_named(hook)} was ended: it ran longer than {hook.timeout:g} s")
            return Verdict()
        if ran.code not in (0, REFUSES):
            said = _on_one_line(ran.err)[:200]
            self._warn(f"{_named(hook)} has failed with exit code {ran.code}{': ' if said else ''}{said}")
            return Verdict()
        try:
            return verdict_of(hook.event, ran)
        except UnclearError as error:
            problem = f"what it printed cannot be understood: {error}"
            self._warn(f"{_named(hook)}: {_on_one_line(problem)}")
            return Verdict(problem) if hook.event in GUARDED else Verdict(None, plain_context(hook.event, ran))


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without what opens the API, and without a URL of the log, in which may be a password."""
    return {
        name: value for name, value in environ.items() if name not in _SECRETS and not (name == _LOG and "://" in value)
    }


def _named(hook: Hook) -> str:
    return f"the hook {hook.command[:80]!r} for {hook.event}"


def _on_one_line(text: str) -> str:
    """Return the text so that a terminal shows it and does not obey it."""
    return harmless(" ".join(text.split()))
