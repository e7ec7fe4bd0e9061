"""How Sphinx makes the site of the pages."""

from __future__ import annotations

import html
import os
from importlib.metadata import version as version_of

from sphinx.application import Sphinx

project = "Reenact"
author = "The authors of Reenact"
version = release = version_of("reenact")
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["files/**"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"Reenact {release}"
html_baseurl = os.environ.get("REENACT_SITE", "")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options: dict[str, object] = {"top_of_page_buttons": []}
pygments_style = "default"
nitpicky = True
# What follows a program is what it prints, which no lexer knows.
suppress_warnings = ["misc.highlighting_failure"]


def setup(app: Sphinx) -> None:
    """Have each page name its twin in Markdown."""
    app.connect("html-page-context", _name_twin)


def _name_twin(app: Sphinx, pagename: str, template: str, context: dict[str, object], doctree: object) -> None:
    if doctree is not None:
        twin = html.escape(f"{pagename.rpartition('/')[2]}.html.md")
        context["metatags"] = f'{context.get("metatags", "")}<link rel="alternate" type="text/markdown" href="{twin}">'
