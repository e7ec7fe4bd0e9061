"""What the page on PyPI shows: the README with links that hold everywhere, and where the project is."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]*)((?:#[^)\s]*)?)(?=\))")
PICTURES = (".svg", ".png", ".jpeg")


class MetadataHook(MetadataHookInterface):
    """Makes the links of the README absolute, if `repository` in pyproject.toml is set."""

    def update(self, metadata: dict[str, object]) -> None:
        """Set the README and the URLs."""
        set_to = self.config["repository"]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - untyped
        repository = str(set_to).rstrip("/")  # pyright: ignore[reportUnknownArgumentType] - likewise
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if repository:
            text = absolute(text, repository, f"v{metadata['version']}")
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/v{metadata['version']}/docs/index.md",
                "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, repository: str, tag: str) -> str:
    """Return the text with links into the repository, as it was when the tag was set."""

    def there(found: re.Match[str]) -> str:
        kind = "raw" if found[1].endswith(PICTURES) else "blob"
        return f"{repository}/{kind}/{tag}/{found[1]}{found[2]}"

    return _LINK.sub(there, text)
