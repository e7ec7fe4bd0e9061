"""Commands: messages that are written once and sent by name."""

from __future__ import annotations

import hashlib
import re
import shlex
from typing import Final

from reenact.extensions.frontmatter import Document, Extension, Where

_KNOWN: Final = frozenset({"description", "argument-hint"})
_PLACE: Final = re.compile(r"\$(ARGUMENTS(?![A-Za-z0-9_])|[1-9](?![0-9]))")
_COMMAND_LINE: Final = re.compile(r"!`[^`\n]+`")
_CALLED: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:\s+(.*))?", re.DOTALL)


class Command(Extension, kw_only=True):
    """A command: what is sent when somebody types `/NAME`; `digest` is of all of its file."""

    argument_hint: str | None
    body: str
    digest: str

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"/{self.name}" if self.argument_hint is None else f"/{self.name} {self.argument_hint}"

    def message(self, arguments: str) -> str:
        """Return the body with the arguments in their places.

        `$ARGUMENTS` is all of them, `$1` to `$9` are the first nine, as a shell would take them apart; those that are
        not there are empty. Arguments that a body has no place for stand behind it.
        """
        arguments = arguments.strip()
        words = _words(arguments)

        def put(place: re.Match[str]) -> str:
            if place[1] == "ARGUMENTS":
                return arguments
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        message, places = _PLACE.subn(put, self.body)
        return message if places or not arguments else f"{message}\n\nARGUMENTS: {arguments}"


def read_command(document: Document, where: Where) -> Command:
    """Return the command in a file, or raise `MalformedError` if it is none."""
    document.words("allowed-tools")
    document.text("model")
    body = document.filled_body()
    first_line = " ".join(body.split("\n", 1)[0].lstrip("# ").split())
    notes = document.without_effect({*_KNOWN, "name"})
    if _COMMAND_LINE.search(body):
        notes = (*notes, "no command line in it is run: the model reads !`…` as it stands")
    return Command(
        name=document.name(where.name),
        description=document.description() or first_line[:80],
        argument_hint=document.hint("argument-hint"),
        body=body,
        path=where.path,
        source=where.source,
        digest=hashlib.sha256(document.whole.encode()).hexdigest(),
        notes=notes,
    )


def called(line: str) -> tuple[str, str] | None:
    """Return the name and the arguments in a line `/NAME ARGUMENTS`, None if it is no such line."""
    found = _CALLED.fullmatch(line.strip())
    return None if found is None else (found[1], found[2] or "")


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quotation mark that is an apostrophe
        return arguments.split()
