"""Documents of a checkout as plain pages.

`/help` shows them where the site is not built.
The product also runs from a checkout without a build. The pages have neither search nor table of contents.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

_LINK = re.compile(r"^(?!https?:)([\w/-]*)\.md(#.*)?$")


def render_document(path: Path) -> tuple[str, str]:
    """Return title and HTML of a Markdown file.

    Headings have the anchors of the built site. Links to files outside of the folder lead nowhere.
    """
    # HTML in the text is shown as text.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(path.read_text("utf-8"))
    title = ""
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            title = title or following.content
            words = re.sub(r"[^\w\- ]", "", following.content.lower()).strip()
            token.attrSet("id", words.replace(" ", "-"))
    for link in (child for token in tokens for child in token.children or () if child.type == "link_open"):
        target = str(link.attrGet("href"))
        if match := _LINK.match(target):
            link.attrSet("href", f"{match[1]}.html{match[2] or ''}")
        elif target.startswith("../"):
            del link.attrs["href"]
    return title, parser.renderer.render(tokens, parser.options, {})
