"""Skills: instructions for a kind of task, of which the model knows name and description, and loads the rest itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from reenact.extensions.frontmatter import read_document

FILE: Final = "SKILL.md"
TOOL: Final = "skill"
"""The name of the tool by which the model loads one."""

_KNOWN: Final = frozenset({"name", "description", "license", "metadata", "version"})
_INTRODUCTION: Final = (
    "# Skills\n\nThere are instructions for some kinds of tasks. When one of them fits what you are asked, call the "
    f"tool `{TOOL}` with its name before you begin, and follow what it returns.\n"
)


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill; `folder` is where its file and those that it speaks of are."""

    name: str
    description: str
    body: str
    folder: str
    path: str
    source: str
    notes: tuple[str, ...] = ()


def read_skill(text: str, *, name: str, path: str, folder: str, source: str) -> Skill:
    """Return the skill in the text of a file; `name` is that of its folder, and holds if the file says none.

    Raises:
        MalformedError: it is none.
    """
    document = read_document(text)
    document.words("allowed-tools")
    return Skill(
        name=document.name(name),
        description=document.must("description", document.description()),
        body=document.filled_body(),
        folder=folder,
        path=path,
        source=source,
        notes=document.without_effect(_KNOWN),
    )


def told(skills: Iterable[Skill]) -> str:
    """Return what the system prompt says of the skills."""
    return "\n".join((_INTRODUCTION, *(f"- {skill.name}: {skill.description}" for skill in skills)))


def with_skills(system_prompt: str | None, skills: Iterable[Skill]) -> str:
    """Return the system prompt with the skills behind it."""
    return "\n\n".join(filter(None, (system_prompt, told(skills))))
