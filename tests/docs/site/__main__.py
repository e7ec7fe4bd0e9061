"""Builds the site, without a network: pages in HTML and their twins in Markdown, and `llms.txt`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bs4 import BeautifulSoup
from sphinx.cmd.build import build_main

from tests.docs.site import pages
from tests.docs.site.llms import llms_txt, twin

CONFIGURATION = Path(__file__).parent


def main(arguments: Sequence[str]) -> int:
    """Build the site into a directory; return 0 if nothing is wrong with it."""
    (target,) = (Path(argument) for argument in arguments)
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="reenact-site-") as work:
        staged = Path(work) / "pages"
        pages.stage(staged)
        strict = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "auto"]
        code = build_main([*strict, "-c", str(CONFIGURATION), "-d", f"{work}/doctrees", str(staged), str(target)])
    if code:
        return code
    for name in pages.listed():
        (target / f"{name}.html.md").write_text(twin(name), encoding="utf-8")
    (target / "llms.txt").write_text(llms_txt(), encoding="utf-8")
    (target / ".buildinfo").unlink(missing_ok=True)
    foreign = sorted(set(loaded_from_elsewhere(target)))
    for line in foreign:
        print(f"a page of the site needs a network: {line}", file=sys.stderr)
    return 1 if foreign else 0


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """Yield what pages load from other hosts when they are looked at; links that somebody follows are none of it."""
    for page in site.rglob("*.html"):
        for tag in BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find_all(["link", "script", "img"]):
            address = str(tag.get("src") or (tag.get("href") if tag.get("rel") != ["canonical"] else "") or "")
            if address.startswith(("http:", "https:", "//")):
                yield f"{page.relative_to(site)} loads {address}"
    for sheet in site.rglob("*.css"):
        if "url(http" in sheet.read_text(encoding="utf-8") or "@import" in sheet.read_text(encoding="utf-8"):
            yield f"{sheet.relative_to(site)} loads something"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
