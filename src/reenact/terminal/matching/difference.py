"""What is different between two texts, for people: short, however long they are, and with nothing that is not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from reenact.terminal.matching.shown import common_end_length, common_length, look_at, shown

WINDOW: Final = 199
"""Lines of each text that are compared, from the first difference on."""
_CONTEXT: Final = 3
_LATEST: Final = 500


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
    `reenact.terminal.matching.shown` says. Of each text, 199 lines from the first difference on are compared at most;
    the diff says how many it leaves out. `first` is the number of the first line of the actual text.
    """
    start, end = _changed_part(expected, actual)
    above = expected.count("\n", 0, start)
    old = _side(expected[start : len(expected) - end], key, 1 + above)
    new = _side(actual[start : len(actual) - end], key, first + above)
    same = _in_common(old.keys, new.keys)
    behind = max(0, _in_common(old.keys[:same:-1], new.keys[:same:-1]) - _CONTEXT)
    old, old_left = old.between(max(0, same - _CONTEXT), len(old.keys) - behind)
    new, new_left = new.between(max(0, same - _CONTEXT), len(new.keys) - behind)
    diff = [f"--- {names[0]}", f"+++ {names[1]}"]
    for group in SequenceMatcher(None, old.keys, new.keys, autojunk=False).get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        diff.append(f"@@ -{old.range(old_from, old_to)} +{new.range(new_from, new_to)} @@")
        for tag, i, j, k, m in group:
            if tag == "equal":
                diff.extend(" " + shown(line) for line in new.lines[k:m])
            else:
                diff.extend(_changed(old.lines[i:j], new.lines[k:m]))
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
    same = common_length(expected, actual)
    before = expected[:same]
    return f"line {before.count(chr(10)) + 1}, column {same - before.rfind(chr(10))}"


@dataclass(frozen=True)
class _Side:
    """The lines of a text that count, with their keys and numbers."""

    lines: Sequence[str]
    keys: Sequence[str]
    numbers: Sequence[int]

    def between(self, start: int, end: int) -> tuple[_Side, int]:
        """Return the lines there, as many as are compared at most, and how many are left out of these."""
        last = min(end, start + WINDOW)
        return _Side(self.lines[start:last], self.keys[start:last], self.numbers[start:last]), end - last

    def range(self, start: int, end: int) -> str:
        """Return the number of a line and how many there are from it on, as diffs have it."""
        return f"{self.numbers[start] if start < end else 0},{end - start}"


def _changed_part(expected: str, actual: str) -> tuple[int, int]:
    """Return how many characters at the beginning and at the end are the same, but for some lines of context.

    They are whole lines, so that only the lines between them have to be looked at one by one.
    """
    start = expected.rfind("\n", 0, common_length(expected, actual)) + 1
    for _ in range(_CONTEXT):
        start = expected.rfind("\n", 0, max(0, start - 1)) + 1
    end = common_end_length(expected[start:], actual[start:])
    for _ in range(_CONTEXT + 1):
        found = expected.find("\n", len(expected) - end)
        end = 0 if found < 0 else len(expected) - found - 1
    return start, end


def _side(text: str, key: Callable[[str], str], first: int) -> _Side:
    every = [(line, key(line), number) for number, line in enumerate(_lines(text), first)]
    counted = [entry for entry in every if entry[1]]
    return _Side([line for line, _, _ in counted], [of_line for _, of_line, _ in counted], [at for _, _, at in counted])


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
