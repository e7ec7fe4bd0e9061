"""What says the same in several places: which other fields a field of an event has to be taken out of with it.

A path is the name of an event, or of an entry of a feed with `@` before it, and then the names of fields. What is
announced of events is derived from them, so that it says no more than they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from reenact.domain.causes import FORMS
from reenact.domain.stored import STORED

Path: TypeAlias = tuple[str, ...]

ANY: Final = "*"
NEEDS: Final = "@needs"
"""Begins the paths of what a row needs, beside its events, to announce them."""

# Each group is one content. Where the second is false, the copy has another form inside, and goes as a whole.
_GROUPS: Final = (
    (("turn-interrupted.reason", True), ("tool-result.result", False)),
    (("turn-failed.failure.message", True), ("turn-completed.failure.message", True), ("@error.message", True)),
    (("turn-failed.failure.type", True), ("turn-completed.failure.type", True), ("@error.type", True)),
    *(
        ((f"answer-recorded.{field}", True), (f"turn-completed.{field}", True), (f"@message_stop.{field}", True))
        for field in ("stop_sequence", "stop_details")
    ),
    (("answer-recorded.content.signature", True), ("@thinking_end.signature", True)),
    (
        ("answer-recorded.content.input", True),
        ("@tool_call.input", True),
        (f"{NEEDS}.calls.arguments", True),
        ("human-approve-required.calls.arguments", True),
        ("human-approve-required.calls.original", False),
        ("tool-edited.original", True),
        ("tool-edited.edited", True),
        ("human-prompt-required.prompt", False),
        ("human-prompt-required.metadata", False),
        ("human-select-required.prompt", False),
        ("human-select-required.options", False),
        ("human-select-required.metadata", False),
    ),
    (("tool-result.result", True), ("@tool_result.result", True), ("results-recorded.content.content", False)),
    (("human-responded.value", True), ("tool-result.result", False)),
    (("tool-rejected.reason", True), ("tool-result.result", False)),
)
_CONTENTS: Final = tuple(tuple((tuple(name.split(".")), keeps) for name, keeps in group) for group in _GROUPS)


def with_copies(paths: Iterable[Path]) -> set[Path]:
    """Return the paths, and those of all that says the same."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for content in _CONTENTS:
            for place, keeps in content:
                inside = _inside(path, place)
                if inside is not None:
                    waiting += (
                        other + inside if keeps and as_well else other for other, as_well in content if other != place
                    )
    return found


def with_causes(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths, and those of the fields of commands that may say what the events say there."""
    for name, *inside in paths:
        yield (name, *inside)
        for form, (_, places) in FORMS.items():
            for field, references in places.items():
                for event, said, _ in references:
                    if STORED.get(name) is event and inside[:1] in ([said], [ANY]):
                        yield (form, field, *inside[1:])


def _inside(path: Path, place: Path) -> Path | None:
    """Return what of the place the path is about: () is all of it, None is nothing."""
    if any(one not in (ANY, other) for one, other in zip(path, place, strict=False)):
        return None
    return path[len(place) :]
