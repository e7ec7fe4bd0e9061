"""Agents: images beside that of the session, each for one kind of task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from reenact.domain.image import Definition, Image, define, known_policies
from reenact.extensions.frontmatter import Document, Extension, Where
from reenact.extensions.skills import TOOL, Skill, with_skills

_KNOWN: Final = frozenset({"name", "description", "tools", "model", "color"})
_CALLED: Final = re.compile(r"@([A-Za-z0-9][A-Za-z0-9_-]{0,63})\s+(.+)", re.DOTALL)
_AS_THE_SESSION: Final = frozenset({"inherit", "sonnet", "opus", "haiku"})
"""`inherit`, and short names that the API does not know."""


class Agent(Extension, kw_only=True):
    """An agent: `prompt` is its system prompt, `tools` those that it may call, None if it has all of the session's."""

    prompt: str
    tools: tuple[str, ...] | None
    model: str | None

    @property
    def image_id(self) -> str:
        """The id of its image."""
        return f"agent-{self.name}"


def read_agent(document: Document, where: Where) -> Agent:
    """Return the agent in a file, or raise `MalformedError` if it is none."""
    document.text("color")
    model = document.text("model")
    notes = document.without_effect(_KNOWN)
    if model in _AS_THE_SESSION:
        notes = notes if model == "inherit" else (*notes, f"the model is that of the session: {model!r} names none")
        model = None
    return Agent(
        name=document.name(where.name),
        description=document.must("description", document.description()),
        prompt=document.filled_body(),
        tools=document.words("tools"),
        model=model,
        path=where.path,
        source=where.source,
        notes=notes,
    )


def called(line: str) -> tuple[str, str] | None:
    """Return the name and the message in a line `@NAME MESSAGE`, None if it is no such line, or has no message."""
    found = _CALLED.fullmatch(line.strip())
    return None if found is None else (found[1], found[2])


def image_of(agent: Agent, session: Definition, skills: Sequence[Skill]) -> Image:
    """Return the agent's image: the session's model, tools, policies and limits, with what the agent says instead.

    Tools of MCP servers are known only once the servers run, so an agent that names its tools has none of these.
    """
    wanted = agent.tools
    tools = [spec for spec in session.tools if wanted is None or spec.name in wanted]
    api_tools = [one for one in session.api_tools if wanted is None or one.get("name") in wanted]
    loads_skills = bool(skills) and any(spec.name == TOOL for spec in tools)
    image = Image(
        id=agent.image_id,
        name=agent.name,
        model=agent.model or session.model,
        system_prompt=with_skills(agent.prompt, skills) if loads_skills else agent.prompt,
        max_tokens=session.max_tokens,
        tools=(*tools, *api_tools),
        mcp_servers=session.mcp_servers if wanted is None else (),
        policies=session.policies,
        max_steps=session.max_steps,
        max_repeats=session.max_repeats,
        cost_limit=session.cost_limit,
        compress_at=session.compress_at,
    )
    return msgspec.structs.replace(image, policies=known_policies(define(image, agent.image_id)))


def missing_tools(agent: Agent, session: Definition) -> list[str]:
    """Return the tools that the agent names and the session does not have."""
    there = {spec.name for spec in session.tools} | {one.get("name") for one in session.api_tools}
    return [name for name in agent.tools or () if name not in there]
