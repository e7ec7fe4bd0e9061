"""Skills: instructions for a kind of task; the model knows name and description, and loads the rest itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from reenact.actors.environment.tools.outcome import ToolOutcome, failure
from reenact.actors.environment.tools.tool import AnyTool, tool
from reenact.extensions.frontmatter import Document, Extension, Where

FILE: Final = "SKILL.md"
TOOL: Final = "skill"
"""The name of the tool by which the model loads one."""

_KNOWN: Final = frozenset({"name", "description", "license", "metadata", "version"})
_INTRODUCTION: Final = (
    "# Skills\n\nThere are instructions for some kinds of tasks. When one of them fits what you are asked, call the "
    f"tool `{TOOL}` with its name before you begin, and follow what it returns.\n"
)


class Skill(Extension, kw_only=True):
    """A skill; `folder` is where its file and those that it speaks of are."""

    body: str
    folder: str


def read_skill(document: Document, where: Where, *, folder: str) -> Skill:
    """Return the skill in a file, or raise `MalformedError` if it is none."""
    document.words("allowed-tools")
    return Skill(
        name=document.name(where.name),
        description=document.must("description", document.description()),
        body=document.filled_body(),
        folder=folder,
        path=where.path,
        source=where.source,
        notes=document.without_effect(_KNOWN),
    )


def told(skills: Iterable[Skill]) -> str:
    """Return what the system prompt says of the skills."""
    return "\n".join((_INTRODUCTION, *(f"- {skill.name}: {skill.description}" for skill in skills)))


def with_skills(system_prompt: str | None, skills: Iterable[Skill]) -> str:
    """Return the system prompt with the skills behind it."""
    return "\n\n".join(filter(None, (system_prompt, told(skills))))


def skill_tool(skills: Mapping[str, Skill]) -> AnyTool:
    """Return a tool that returns the whole of one of these skills."""

    def load(name: str) -> str | ToolOutcome:
        """Load the instructions of a skill.

        Args:
            name: the name of the skill, as the list of skills has it.
        """
        skill = skills.get(name.strip())
        if skill is None:
            return failure(f"There is no skill {name!r}; there are: {', '.join(skills) or 'none'}")
        return f"The files of this skill are in {skill.folder}\n\n{skill.body}"

    return tool(load, name=TOOL, idempotent=True)
