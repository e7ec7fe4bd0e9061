"""The page that `--help` prints: purpose, examples and grouped options, as wide as the terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from reenact.cli.parsing.declaration import GROUPS, OTHERS, OUTPUT
from reenact.cli.parsing.options import FORMER

Entry: TypeAlias = tuple[str, str]
"""A term and its meaning."""
Section: TypeAlias = tuple[str, Sequence[Entry]]
_AnyCommand: TypeAlias = TyperCommand | TyperGroup

HELP = ("-h, --help", "Show this.")
EXAMPLE = "$ "
"""Prefix of an example in a docstring; a comment after # says what the example does."""

_WIDEST = 100
_NARROWEST = 24
_TERMS = 28
"""Maximum width of a term that has its meaning beside it."""
_BESIDE = 60
"""Minimum width of a page whose meanings are beside their terms."""


def help_page(command: _AnyCommand, path: str, appendix: Sequence[Section] = (), *, width: int | None = None) -> str:
    """Return the help of the command with this path; the default width is that of the terminal, or 80."""
    columns = shutil.get_terminal_size().columns if width is None else width
    columns = max(_NARROWEST, min(columns, _WIDEST))
    summary, paragraphs, examples = split_help(command)
    commands = list(commands_of(command)) if isinstance(command, TyperGroup) else []
    sections = [("Arguments", list(_arguments(command))), *groups_of(command), ("Commands", commands), *appendix]
    blocks = [
        _filled(summary, columns),
        _filled(_usage(command, path), columns, later="         "),
        *(_filled(paragraph, columns) for paragraph in paragraphs),
        _example_lines(examples, columns),
        *([f"{title}:", *entry_lines(entries, columns, "  ")] for title, entries in sections if entries),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def split_help(command: _AnyCommand) -> tuple[str, list[str], list[Entry]]:
    """Split a command's help into its summary, the paragraphs after it, and its examples with their comments."""
    paragraphs: list[str] = []
    examples: list[Entry] = []
    for block in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = block.splitlines()
        if lines and all(line.startswith(EXAMPLE) for line in lines):
            examples += [_example(line.removeprefix(EXAMPLE)) for line in lines]
        else:
            paragraphs.append(" ".join(block.split()))
    return paragraphs[0] if paragraphs else "", paragraphs[1:], examples


def groups_of(command: _AnyCommand) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the groups of the command's visible options."""
    options = [param for param in command.params if isinstance(param, TyperOption) and not param.hidden]
    for title in GROUPS:
        entries = [_entry(option) for option in options if (option.rich_help_panel or OTHERS) == title]
        if title == OUTPUT:
            entries.append(HELP)
        if entries:
            yield title, entries


def spellings(option: TyperOption) -> list[str]:
    """Return the names of the option, shortest first, without former names."""
    return sorted((name for name in option.opts if name not in FORMER), key=len)


def commands_of(group: TyperGroup) -> Iterator[Entry]:
    """Yield the group's visible commands, each with the first sentence of its summary."""
    for name, command in group.commands.items():
        if isinstance(command, TyperCommand | TyperGroup) and not command.hidden:
            yield name, _first_sentence(split_help(command)[0])


def _entry(option: TyperOption) -> Entry:
    value = "" if option.is_flag else f" {option.metavar or 'TEXT'}"
    return f"{', '.join(spellings(option))}{value}", option.help or ""


def _arguments(command: _AnyCommand) -> Iterator[Entry]:
    for param in command.params:
        if isinstance(param, TyperArgument) and not param.hidden:
            yield param.metavar or param.name.upper(), param.help or ""


def _example(line: str) -> Entry:
    what, _, why = line.partition("  # ")
    return what.strip(), why.strip()


def _first_sentence(text: str) -> str:
    return re.split(r"[.:;] |\.$", text, maxsplit=1)[0]


def entry_lines(entries: Sequence[Entry], width: int, margin: str = "") -> Iterator[str]:
    """Yield the entries as lines: each meaning beside its term, or below it if the page is narrow or the term wide."""
    widest = max((len(term) for term, _ in entries if len(term) <= _TERMS), default=0)
    indent = " " * (len(margin) + (widest + 2 if width >= _BESIDE else 4))
    for term, meaning in entries:
        head, lines = f"{margin}{term}", _filled(meaning, width, indent)
        if lines and len(head) < len(indent):
            lines[0] = f"{head}{lines[0][len(head) :]}"
        else:
            yield head
        yield from lines


def _usage(command: _AnyCommand, path: str) -> str:
    arguments = "".join(f" {term}" for term, _ in _arguments(command))
    return f"Usage: {path} [OPTIONS]{arguments}{' [COMMAND …]' if isinstance(command, TyperGroup) else ''}"


def _example_lines(examples: Sequence[Entry], width: int) -> list[str]:
    """Return the examples so that they can be copied and run: each with its comment beside it, or above it."""
    lines = ["Examples:"] if examples else []
    longest = max((len(what) for what, _ in examples), default=0)
    beside = all(2 + longest + 4 + len(why) <= width for _, why in examples)
    for what, why in examples:
        if beside:
            lines.append(f"  {what:<{longest}}{f'  # {why}' if why else ''}".rstrip())
        else:
            lines += _filled(f"# {why}", width, "  ", "  # ") if why else []
            lines.append(f"  {what}")
    return lines


def _filled(text: str, width: int, first: str = "", later: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )
