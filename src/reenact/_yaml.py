"""YAML 1.2, read as data alone: no tags, no anchors, no key twice."""

from __future__ import annotations

from typing import Final

from reenact.domain.errors import InvalidInputError

LARGEST: Final = 1_000_000
"""Characters that are read at most; what people write by hand has far fewer."""
_DEEPEST: Final = 100


class InvalidYAMLError(InvalidInputError):
    """The text is no YAML, or more than data; `line` and `column` say where, counted from 1, if that is known."""

    code = "invalid_yaml"

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column


def read_yaml(text: str) -> object:
    """Return what the text holds: dicts, lists, strings, numbers, booleans, dates and None.

    Anchors and aliases are refused: by them a short text could mean an endless one.

    Raises:
        InvalidYAMLError: it is no YAML, or has two documents, a key twice, an anchor or a tag, or is too large.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - most runs read none
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415 - likewise
    from ruamel.yaml.reader import ReaderError  # noqa: PLC0415 - likewise

    if len(text) > LARGEST:
        raise InvalidYAMLError(f"it has {len(text):,} characters; {LARGEST:,} are read at most")
    try:
        _check_plain(text)
        content: object = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        said = error.problem or error.context or "it cannot be read"
        raise InvalidYAMLError(said, *_place(error.problem_mark or error.context_mark)) from error
    except ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        raise InvalidYAMLError(f"the character U+{error.character:04X} is not allowed in YAML", line, column) from error
    except YAMLError as error:
        raise InvalidYAMLError(str(error).strip().replace("\n", " ")) from error
    except InvalidYAMLError:  # a ValueError, too
        raise
    except (ValueError, RecursionError) as error:  # a date of the 31st of February
        raise InvalidYAMLError(str(error)) from error
    except (LookupError, TypeError) as error:  # a key that is a list with a mapping in it, say
        raise InvalidYAMLError(f"it cannot be read: {error}") from error
    return content


def _check_plain(text: str) -> None:
    """Raise `InvalidYAMLError` if the text has more than data in it, or nests it too deeply."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - likewise
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent  # noqa: PLC0415

    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        mark = event.start_mark
        if isinstance(event, NodeEvent) and event.anchor is not None:
            what = "an alias" if isinstance(event, AliasEvent) else "an anchor"
            raise InvalidYAMLError(f"{what} is not read here; write what it stands for", *_place(mark))
        if getattr(event, "tag", None) is not None:
            raise InvalidYAMLError("a tag is not read here", *_place(mark))
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST:
            raise InvalidYAMLError(f"it is nested more than {_DEEPEST} deep", *_place(mark))


def _place(mark: object) -> tuple[int | None, int | None]:
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    return (None, None) if line is None or column is None else (line + 1, column + 1)
