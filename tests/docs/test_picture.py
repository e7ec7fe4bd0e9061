"""The picture in the README is the chat as it is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import README
from tests.docs.picture import PICTURE, picture
from tests.started.programs import Programs

HOW = "draw it anew, and look at it: .venv/bin/python -m tests.docs.picture"
LARGEST = 60_000
"""Bytes."""


def test_the_picture_shows_the_chat_as_it_looks(programs: Programs, tmp_path: Path) -> None:
    drawn = picture(programs, tmp_path)

    assert PICTURE.read_text(encoding="utf-8") == drawn, HOW
    assert str(tmp_path) not in drawn
    assert len(drawn.encode()) < LARGEST


def test_the_readme_shows_the_picture_and_says_what_is_on_it() -> None:
    (shown,) = re.findall(r"!\[([^\]]+)\]\(docs/chat\.svg\)", README.read_text(encoding="utf-8"))

    assert all(word in shown for word in ("approved", "heading", "list", "code", "commands"))
