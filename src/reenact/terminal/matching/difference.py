"""Diffs of texts for people: short however long the texts are, with invisible characters shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from os.path import commonprefix
from typing import Final, NamedTuple

from reenact.terminal.text import look_at, shown

WINDOW: Final = 199
"""Lines of each text that are compared, from the first difference on."""
_CONTEXT: Final = 3
_LATEST: Final = 500


class _Line(NamedTuple):
    """A line of a text that counts, what it is compared by, and its number."""

    text: str
    key: str
    number: int


def unified(
    expected: str,
    actual: str,
    *,
    key: Callable[[str], str] = str,
    names: tuple[str, str] = ("expected", "actual"),
    first: int = 1,
) -> str:
    """Return the difference as a unified diff: `-` is expected, `+` is there.

    Lines with equal keys are equal, and a line with an empty key does not count. Lines are shown as
    `reenact.terminal.text` says. Of each text, 199 lines from the first difference on are compared at most;
    the diff says how many it leaves out. `first` is the number of the first line of the actual text.
    """
    before, after = _lines(expected), _lines(actual)
    above = max(0, _in_common(before, after) - _CONTEXT)
    below = max(0, _in_common(before[above:][::-1], after[above:][::-1]) - _CONTEXT)
    old = _side(before[above : len(before) - below], key, 1 + above)
    new = _side(after[above : len(after) - below], key, first + above)
    start = max(0, _in_common([line.key for line in old], [line.key for line in new]) - _CONTEXT)
    old_left, new_left = (max(0, len(side) - start - WINDOW) for side in (old, new))
    old, new = old[start : start + WINDOW], new[start : start + WINDOW]
    diff = [f"--- {names[0]}", f"+++ {names[1]}"]
    matcher = SequenceMatcher(None, [line.key for line in old], [line.key for line in new], autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        diff.append(f"@@ -{_range(old[old_from:old_to])} +{_range(new[new_from:new_to])} @@")
        for tag, i, j, k, m in group:
            there = [line.text for line in new[k:m]]
            if tag == "equal":
                diff.extend(" " + shown(line) for line in there)
            else:
                diff.extend(_changed([line.text for line in old[i:j]], there))
    if old_left or new_left:
        diff.append(f"… not compared: {old_left:,} more lines of what is expected, {new_left:,} of what is there")
    return "\n".join(diff)


def resembling(expected: str, actual: str, *, key: Callable[[str], str] = str) -> tuple[str, int]:
    """Return the lines of the actual text that are most like the expected ones, and the number of the first of them.

    They are looked for in its last 500 lines. If the expected text ends within a line, so does what is returned.
    """
    wanted = [key(line.removesuffix("\n"))[:_LATEST] for line in _lines(expected)[:WINDOW]] or [""]
    lines = _lines(actual)
    before = max(0, len(lines) - _LATEST)
    lines = lines[before:]
    keys = [key(line.removesuffix("\n"))[:_LATEST] for line in lines]
    anchor = next((number for number, line in enumerate(wanted) if line.strip()), 0)
    matcher = SequenceMatcher(None, "", wanted[anchor], autojunk=False)
    scores: list[float] = []
    for at, line in enumerate(keys):
        matcher.set_seq1(line)
        behind = zip(wanted[anchor + 1 :], keys[at + 1 :], strict=False)
        scores.append(matcher.quick_ratio() + sum(one == other for one, other in behind))
    best = max(range(len(scores)), key=scores.__getitem__, default=0)
    start = max(0, best - anchor)
    nearest = "".join(lines[start : start + len(wanted)])
    return nearest if expected.endswith("\n") else nearest.removesuffix("\n"), before + start + 1


def first_difference(expected: str, actual: str) -> str:
    """Return where the texts begin to differ, in words: `line 3, column 5`, counted from 1."""
    same = len(commonprefix((expected, actual)))  # noqa: RUF071 - of characters, no paths
    before = expected[:same]
    return f"line {before.count(chr(10)) + 1}, column {same - before.rfind(chr(10))}"


def _side(lines: Sequence[str], key: Callable[[str], str], first: int) -> list[_Line]:
    """Return the lines that count."""
    every = (_Line(line, key(line), number) for number, line in enumerate(lines, first))
    return [line for line in every if line.key]


def _range(lines: Sequence[_Line]) -> str:
    """Return the number of the first line and how many there are, as diffs have it."""
    return f"{lines[0].number if lines else 0},{len(lines)}"


def _lines(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [line + "\n" for line in ended] + ([last] if last else [])


def _in_common(old: Sequence[str], new: Sequence[str]) -> int:
    shorter = min(len(old), len(new))
    return next((at for at in range(shorter) if old[at] != new[at]), shorter)


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    looks = [look_at(one, other) for one, other in zip(old, new, strict=False)]
    for sign, lines in (("-", old), ("+", new)):
        for number, line in enumerate(lines):
            yield sign + shown(line, looks[number] if number < len(looks) else look_at(line, ""))
