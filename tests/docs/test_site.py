"""The site has every page, every public name and every command; what it is built of needs no network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.docs import api
from tests.docs.names import MODULES
from tests.docs.pages import PAGES, ROOT
from tests.docs.site import commands, pages
from tests.docs.site.__main__ import loaded_from_elsewhere
from tests.docs.site.llms import llms_txt, twin
from tests.docs.site.navigation import FROM_ROOT

WRITTEN = [name for name in pages.listed() if not pages.made(name)]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [pages.source(name) for name in WRITTEN]

    assert len(set(pages.listed())) == len(list(pages.listed()))
    assert set(listed) == {*PAGES, *(ROOT / name for name in FROM_ROOT)}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_link_of_a_page_leads_somewhere_on_the_site(name: str) -> None:
    known = {f"{page}.md" for page in pages.listed()} | {place for _, place in pages.files(name)}
    links = re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", re.sub(r"(?ms)^```.*?^```$", "", pages.text(name)))

    dead = [link for link in links if os.path.normpath(Path(name).parent / link) not in known]

    assert dead == []


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name(module: str) -> None:
    page = api.page(module)

    missing = [name for where, name, _, _ in api.exports() if where == module and f"\n### {name}\n" not in page]

    assert missing == []


def test_every_public_name_and_method_makes_a_promise() -> None:
    assert list(api.undocumented()) == [], "write a docstring: the reference is made of them"


def test_the_site_has_the_help_of_every_command() -> None:
    page = commands.page()

    names = [name for name, _ in commands.commands()]

    assert {"reenact", "reenact serve", "reenact extensions trust"} <= set(names)
    assert [name for name in names if f"\n## {name}\n" not in page or f"Usage: {name}" not in page] == []


def test_the_list_for_language_models_has_every_page_and_what_it_is_about() -> None:
    lines = [line for line in llms_txt().splitlines() if line.startswith("- ")]

    assert [re.findall(r"\((.+?)\.html\.md\): \S", line) for line in lines] == [[name] for name in pages.listed()]


def test_the_links_of_a_twin_lead_to_twins() -> None:
    page = twin("asking")

    assert "](structured-output.html.md)" in page
    assert re.findall(r"\]\([^)]*(?<!\.html)\.md[)#]", page) == []


def test_a_page_that_needs_a_network_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<a href="https://example.org"></a><img src="a.png">')
    (tmp_path / "bad.html").write_text('<script src="https://cdn.example.org/a.js"></script>')
    (tmp_path / "bad.css").write_text("@import url(//example.org/font.css)")

    assert sorted(loaded_from_elsewhere(tmp_path)) == [
        "bad.css loads something",
        "bad.html loads https://cdn.example.org/a.js",
    ]
