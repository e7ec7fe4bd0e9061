"""The tools of one agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome, failure, outcome_of
from reenact.actors.environment.tools.tool import Tool
from reenact.domain.tools import MCPServer, ToolSpec


class AgentTools:
    def __init__(
        self,
        tools: Sequence[Tool[..., Any] | ToolSpec],
        specs: Sequence[ToolSpec],
        servers: Sequence[MCPServer],
    ) -> None:
        self._tools = {one.spec.name: one for one in tools if isinstance(one, Tool)}
        self._specs = tuple(specs)

    async def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        tool = self._tools.get(name)
        if tool is None:
            return failure(f"Tool not found: {name}")
        try:
            return outcome_of(await tool.run(arguments, context), tool=name)
        except Exception as error:
            return failure(str(error))

    async def aclose(self) -> None:
        pass
