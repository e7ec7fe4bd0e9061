"""A toolbox that asks hooks before each call and tells them after it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import msgspec

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome, failure
from reenact.actors.environment.tools.running import in_thread
from reenact.actors.environment.tools.toolbox import Runnable, Toolbox
from reenact.domain.errors import ReenactError
from reenact.domain.tools import ToolSpec
from reenact.extensions.firing import Hooks, Verdict


class GuardedToolbox(Toolbox):
    """The tools of another toolbox: what `PreToolUse` refuses is not run, and the model reads why.

    What `PostToolUse` has to say of a call that was run, the model reads behind its result.
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
        timeout: float | None = None,  # noqa: ASYNC109 - as the inner one has it
    ) -> ToolOutcome:
        """Ask the hooks, run the tool, and tell the hooks; what a hook refuses is an outcome that says so."""
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
