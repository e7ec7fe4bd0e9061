"""A `.reenact`, written for a test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reenact.extensions.loading import Extensions, load

SKILL = "---\nname: {name}\ndescription: Reviews code\n---\nLook for mistakes.\n"
COMMAND = "---\ndescription: Fixes an issue\nargument-hint: NUMBER\n---\nFix issue $1 of $ARGUMENTS.\n"
AGENT = "---\ndescription: Reviews code\n---\nYou review code.\n"


@dataclass(frozen=True)
class Written:
    """Where extensions are written: the folder that has a `.reenact`."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / ".reenact"

    def skill(self, name: str, content: str | bytes = SKILL) -> Path:
        return self.file(
            f"skills/{name}/SKILL.md", content.replace("{name}", name) if isinstance(content, str) else content
        )

    def command(self, name: str, content: str | bytes = COMMAND) -> Path:
        return self.file(f"commands/{name}.md", content)

    def agent(self, name: str, content: str | bytes = AGENT) -> Path:
        return self.file(f"agents/{name}.md", content)

    def hooks(self, content: Any) -> Path:  # noqa: ANN401 - any JSON, or bytes
        return self.file("hooks.json", content if isinstance(content, bytes) else json.dumps(content))

    def hook(self, event: str, command: str, **fields: Any) -> Path:  # noqa: ANN401 - matcher and timeout
        group = {"matcher": fields.pop("matcher", ""), "hooks": [{"type": "command", "command": command, **fields}]}
        return self.hooks({event: [group]})

    def file(self, path: str, content: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


def loaded(user: Written, project: Written, *, trusted: bool = True, reserved: tuple[str, ...] = ()) -> Extensions:
    return load(user.root, project.root, is_trusted=lambda _path, _digest: trusted, reserved=reserved)
