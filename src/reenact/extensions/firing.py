"""Runs the hooks for an event and combines their verdicts; and a toolbox that runs hooks around its calls."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome, failure
from reenact.actors.environment.tools.running import in_thread
from reenact.actors.environment.tools.toolbox import Runnable, Toolbox
from reenact.domain.errors import ReenactError
from reenact.domain.legible import display_safe
from reenact.domain.tools import ToolSpec, is_object
from reenact.extensions.files import MalformedError, read_json
from reenact.extensions.hooks import Hook
from reenact.extensions.running import LARGEST, HookResult, RunningHooks, run

REFUSES = 2
"""The exit code with which a hook refuses."""
GUARDED = frozenset({"UserPromptSubmit", "PreToolUse"})
"""The events that are blocked if a hook refuses, or prints something invalid."""

_WITH_CONTEXT = frozenset({"SessionStart", "UserPromptSubmit"})
_NO_REASON = "it gave no reason"
_BLANKS = " \t\r\n\ufeff"
"""Characters that may precede JSON."""


class Verdict(msgspec.Struct, frozen=True):
    """The combined result of hooks: why they refuse the event, None if they do not, and context for the model."""

    refusal: str | None = None
    context: str = ""


def verdict_of(event: str, ran: HookResult) -> Verdict:
    """Return the verdict of a hook that has ended with exit code 0 or `REFUSES`.

    Raises:
        MalformedError: its output begins like JSON but is not a valid answer.
    """
    if ran.code == REFUSES:
        return Verdict(ran.err.strip() or _NO_REASON)
    if not ran.out.lstrip(_BLANKS).startswith("{"):
        return Verdict(None, plain_context(event, ran))
    said = _object(ran)
    specific = _specific(said)
    context = specific.get("additionalContext")
    return Verdict(_refusal(said, specific), context if isinstance(context, str) else "")


def plain_context(event: str, ran: HookResult) -> str:
    """Return what the model is told of output that is not JSON."""
    return ran.out.strip() if event in _WITH_CONTEXT else ""


def _object(ran: HookResult) -> dict[str, object]:
    if ran.is_cut:
        raise MalformedError(f"more than {LARGEST:,} bytes of JSON, which are read at most")
    content, _ = read_json(ran.out.lstrip(_BLANKS))
    assert is_object(content)  # it begins with a brace
    return content


def _specific(said: dict[str, object]) -> dict[str, object]:
    specific = said.get("hookSpecificOutput")
    if specific is None:
        return {}
    if not is_object(specific):
        raise MalformedError("`hookSpecificOutput` must be an object")
    return specific


def _refusal(said: dict[str, object], specific: dict[str, object]) -> str | None:
    """Return why the hook refuses, None if it does not; a request that is not supported here is a refusal too."""
    match said.get("continue"):
        case False:
            return _text(said.get("stopReason"))
        case True | None:
            pass
        case other:
            raise MalformedError(f"`continue` is {other!r:.80}, and must be true or false")
    match said.get("decision"):
        case "block":
            return _text(said.get("reason"))
        case "approve" | None:
            pass
        case other:
            raise MalformedError(f"`decision` is {other!r:.80}, and must be 'approve' or 'block'")
    match specific.get("permissionDecision"):
        case "deny":
            return _text(specific.get("permissionDecisionReason"))
        case "ask":
            return "it wants a person to be asked, which a hook cannot have here; policies can"
        case "allow" | None:
            pass
        case other:
            raise MalformedError(f"`permissionDecision` is {other!r:.80}, and must be 'allow', 'deny' or 'ask'")
    if "updatedInput" in specific:
        return "it wants to change the arguments, which a hook cannot do here"
    return None


def _text(reason: object) -> str:
    return reason if isinstance(reason, str) and reason.strip() else _NO_REASON


LONGEST = 10_000
"""Maximum number of characters of a hook's reason or context."""

_SECRETS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"})
_LOG = "REENACT_DB"
_RING = "REENACT_KEYS"


class Hooks:
    """The hooks that run, in their order; `warn` reports those that fail, which has no other effect.

    The hooks get the variables of `environ` without secrets (see `without_secrets`). Thread-safe.
    """

    def __init__(
        self, hooks: Sequence[Hook], *, environ: Mapping[str, str], cwd: Path, warn: Callable[[str], None]
    ) -> None:
        self._hooks = hooks
        self._cwd = cwd
        self._warn = warn
        places = {"REENACT_PROJECT_DIR": str(cwd), "CLAUDE_PROJECT_DIR": str(cwd)}
        self._environ = without_secrets(environ) | places
        self._running = RunningHooks()

    def listen_to(self, event: str) -> bool:
        """Return whether there is a hook for the event."""
        return any(hook.event == event for hook in self._hooks)

    def end(self) -> None:
        """Kill the hooks that run and their child processes, and start no further ones. Idempotent."""
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
        """Run the hooks for the event in order until one refuses; `about` is what their matchers are compared with."""
        context: list[str] = []
        for hook in self._hooks:
            if stop is not None and stop.is_set():
                break
            if hook.event != event or not hook.fits(about):
                continue
            verdict = self._run(hook, session_id, facts, stop)
            if verdict.refusal is not None:
                return Verdict(verdict.refusal[:LONGEST], "\n\n".join(context))
            if verdict.context:
                context.append(verdict.context[:LONGEST])
        return Verdict(None, "\n\n".join(context))

    def _run(self, hook: Hook, session_id: str, facts: Mapping[str, object], stop: threading.Event | None) -> Verdict:
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
            self._warn(f"{_title(hook)} could not be started: {error.strerror or error}")
            return Verdict()
        if self._running.has_ended:
            return Verdict("the command is ending")
        if ran.code is None:
            if stop is None or not stop.is_set():
                self._warn(f"{_title(hook)} was ended: it ran longer than {hook.timeout:g} s")
            return Verdict()
        if ran.code not in (0, REFUSES):
            said = _on_one_line(ran.err)[:200]
            self._warn(f"{_title(hook)} has failed with exit code {ran.code}{': ' if said else ''}{said}")
            return Verdict()
        try:
            return verdict_of(hook.event, ran)
        except MalformedError as error:
            problem = f"what it printed cannot be understood: {error.message}"
            self._warn(f"{_title(hook)}: {_on_one_line(problem)}")
            return Verdict(problem) if hook.event in GUARDED else Verdict(None, plain_context(hook.event, ran))


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without keys of an API or the log, and without the log's URL, which may have a password."""
    secrets = {*_SECRETS, environ.get(_RING, "").removeprefix("env:")}
    return {
        name: value for name, value in environ.items() if name not in secrets and not (name == _LOG and "://" in value)
    }


def _title(hook: Hook) -> str:
    return f"the hook {hook.command[:80]!r} for {hook.event}"


def _on_one_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    return display_safe(" ".join(text.split()))


class GuardedToolbox(Toolbox):
    """Wraps a toolbox: a call that `PreToolUse` refuses is not run, and the model gets the reason.

    What a hook for `PostToolUse` says about a call is added to its result for the model.
    """

    def __init__(self, inner: Toolbox, hooks: Hooks, session_id: str) -> None:
        super().__init__()
        self._inner = inner
        self._hooks = hooks
        self._session_id = session_id

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._inner.specs()

    def get(self, name: str) -> Runnable | None:
        return self._inner.get(name)

    async def connect(self) -> dict[str, ReenactError]:
        return await self._inner.connect()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - same signature as the base class
    ) -> ToolOutcome:
        """Run the hooks before the call, the tool, and the hooks after it; a refusal is returned as a failure."""
        facts = {"tool_name": name, "tool_input": dict(arguments), "tool_use_id": context.call_id if context else ""}
        asked = await self._fire("PreToolUse", name, facts)
        if asked.refusal is not None:
            return failure(f"{name} was not run, for a hook refuses it: {asked.refusal}")
        outcome = await self._inner.call(name, arguments, context, timeout=timeout)
        if outcome.is_error:
            return outcome
        told = await self._fire("PostToolUse", name, facts | {"tool_response": outcome.result})
        return _with_note(_with_note(outcome, asked.context), told.refusal or told.context)

    async def _fire(self, event: str, name: str, facts: Mapping[str, object]) -> Verdict:
        if not self._hooks.listen_to(event):
            return Verdict()
        stop = threading.Event()

        def fire() -> Verdict:
            return self._hooks.fire(event, self._session_id, about=name, facts=facts, stop=stop)

        try:
            return await in_thread(fire, f"reenact-hook-{name}")
        except asyncio.CancelledError:
            stop.set()
            raise


def _with_note(outcome: ToolOutcome, note: str) -> ToolOutcome:
    if not note:
        return outcome
    said = f"A hook says: {note}"
    if isinstance(outcome.content, str):
        text = f"{outcome.content}\n\n{said}".lstrip()
        return msgspec.structs.replace(outcome, content=text, result=text)
    blocks = (*outcome.content, {"type": "text", "text": said})
    return msgspec.structs.replace(outcome, content=blocks, result=list(blocks))
