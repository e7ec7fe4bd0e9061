"""The tool by which a model loads a skill."""

from __future__ import annotations

from collections.abc import Mapping

from reenact.actors.environment.tools.outcome import ToolOutcome, failure
from reenact.actors.environment.tools.tool import AnyTool, tool
from reenact.extensions.skills import TOOL, Skill


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
