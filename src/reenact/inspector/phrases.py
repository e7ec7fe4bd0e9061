"""Short texts about events on the pages of a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from reenact.domain.history.explanation import AnyEvent, sentence
from reenact.domain.loop.asking import Question
from reenact.domain.loop.events import ToolEdited
from reenact.domain.messages import instant
from reenact.inspector.relations import Call
from reenact.inspector.text import count, duration, line, within
from reenact.inspector.values import KEY, as_text, size_of
from reenact.projections.log import name_of

_ID = re.compile(r"\b(agt|msg|ses|trn)_[0-9a-z]{12,}([0-9a-z]{6}(?:_\d+)?)\b")
_WAS, _IS = Markup("<del>{}</del>"), Markup("<ins>{}</ins>")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_CACHED = "cache_read_input_tokens"


def with_short_ids(text: str) -> str:
    """Return the sentence with Reenact's ids shortened to a part that distinguishes them."""
    return _ID.sub(r"\1_…\2", text)


def sentence_about(event: AnyEvent) -> str:
    """Return a sentence about the event."""
    return with_short_ids(sentence(event))


def tokens_in(usage: Mapping[str, object]) -> int:
    """Return how many tokens the model was given."""
    return sum(_number(usage.get(name)) for name in _INPUT)


def used(usage: Mapping[str, object]) -> str:
    """Return a text about the tokens of an answer, as far as they are known."""
    if not usage:
        return "tokens unknown"
    cached = _number(usage.get(_CACHED))
    told = f"{count(tokens_in(usage))} tokens in{f', {count(cached)} of them cached' if cached else ''}"
    return f"{told} · {count(_number(usage.get('output_tokens')))} out"


def outcome(call: Call) -> Markup:
    """Return a call's result in one line."""
    if call.result_value is None or not call.result_value.pieces:
        return Markup("nothing")
    text = call.result_value.text
    if call.is_error or isinstance(call.result, str) or not size_of(call.result):
        return line(text, 160)
    return Markup("{}, {} characters").format(size_of(call.result), count(len(text)))


def beginning(text: str, room: int) -> Markup:
    """Return as much of the text as fits into `room` bytes of a page."""
    html, length = within(text, room)
    return html if length == len(text) else html + "…"


def asked(question: Question, room: int) -> Markup:
    """Return a question to a person with its options, cut to `room` bytes of a page."""
    options = (f"\n- {option.label}" for option in question.options or ())
    return beginning("".join((question.prompt, *options)), room)


def edits(event: ToolEdited, room: int) -> tuple[Markup, bool]:
    """Return a person's changes to arguments, in at most `room` bytes of a page, and whether these are all."""
    parts: list[Markup] = []
    for name in (*event.edited, *(name for name in event.original if name not in event.edited)):
        before, after = ([as_text(each[name])] if name in each else [] for each in (event.original, event.edited))
        if before == after:
            continue
        if room <= 0:
            return Markup("\n").join(parts), False
        marked = [form.format(beginning(text, room)) for form, some in ((_WAS, before), (_IS, after)) for text in some]
        parts.append(KEY.format(line(name)) + Markup("\n").join(marked))
        room -= len(parts[-1].encode())
    return Markup("\n").join(parts), True


def moment(microseconds: int) -> str:
    """Return the local day and minute, for microseconds since 1970-01-01 UTC."""
    return f"{instant(microseconds).astimezone():%d %b %H:%M}"


def percent(number: float) -> str:
    """Return a share of the width."""
    return f"{number:.2f}%"


def brief(seconds: float) -> str:
    """Return a long time in its largest unit."""
    for name, length in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= length:
            return f"{seconds // length:.0f} {name}"
    return duration(seconds)


def _number(value: object) -> int:
    return value if type(value) is int else 0


PHRASES: Sequence[Callable[..., object]] = (
    *(asked, beginning, brief, edits, instant, name_of),
    *(outcome, percent, sentence_about, tokens_in, used),
)
"""The template filters of these pages, named as the functions are."""
