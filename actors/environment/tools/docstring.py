"""What a docstring says of a function, and of each of its parameters, in the style of Google, of NumPy or of Sphinx."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

Entry: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""The names of the parameters, and the lines that describe them."""

_GOOGLE: Final = re.compile(r"(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Params)\s*:\s*")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?!:)\s*(.*)")
_NUMPY: Final = re.compile(r"(?:Other )?Parameters\s*")
_NUMPY_RULE: Final = re.compile(r"-{3,}\s*")
_NUMPY_ENTRY: Final = re.compile(r"([\w*]+(?:\s*,\s*[\w*]+)*)\s*(?::.*)?")
_SPHINX: Final = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_TYPE: Final = re.compile(r":type\s+\w+\s*:.*")


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return the docstring without what it says of parameters, and that by the parameters' names."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    text: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        end, entries = _parameters_at(lines, at)
        if end == at:
            text.append(lines[at])
            end += 1
        for names, described in entries:
            parameters |= dict.fromkeys(names, _joined(described))
        at = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip(), parameters


def _parameters_at(lines: Sequence[str], at: int) -> tuple[int, Sequence[Entry]]:
    """Return where the description of parameters that begins here ends, here if none begins, and what it says."""
    line = lines[at]
    if _GOOGLE.fullmatch(line):
        end = _end_of_indented(lines, at + 1, blanks=True)
        return end, list(_google(lines[at + 1 : end]))
    if _NUMPY.fullmatch(line) and at + 1 < len(lines) and _NUMPY_RULE.fullmatch(lines[at + 1]):
        end = next((n for n in range(at + 2, len(lines) - 1) if _NUMPY_RULE.fullmatch(lines[n + 1])), len(lines))
        return end, list(_numpy(lines[at + 2 : end]))
    if found := _SPHINX.fullmatch(line):
        end = _end_of_indented(lines, at + 1, blanks=False)
        return end, [([found[1]], [found[2], *lines[at + 1 : end]])]
    return (at + 1 if _SPHINX_TYPE.fullmatch(line) else at), []


def _end_of_indented(lines: Sequence[str], start: int, *, blanks: bool) -> int:
    end = start
    while end < len(lines) and (lines[end][:1].isspace() or (blanks and not lines[end])):
        end += 1
    return end


def _google(lines: Sequence[str]) -> Iterator[Entry]:
    margin = min((_indent(line) for line in lines if line), default=0)
    described: list[str] = []
    for line in lines:
        if line and _indent(line) == margin and (found := _GOOGLE_ENTRY.fullmatch(line.strip())):
            described = [found[2]]
            yield [found[1]], described
        else:
            described.append(line)


def _numpy(lines: Sequence[str]) -> Iterator[Entry]:
    described: list[str] = []
    for line in lines:
        if line and not _indent(line) and (found := _NUMPY_ENTRY.fullmatch(line)):
            described = []
            yield [name.strip(" *") for name in found[1].split(",")], described
        else:
            described.append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
