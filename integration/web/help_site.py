"""Route `/help`: the documentation site, without a login.

It is the same for all installations: no file of it depends on settings or data.
"""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Response, redirect, render_template, send_from_directory
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as BaseResponse

from integration import __version__

BLUEPRINT = "help"
INDEX = "index.html"


def make_blueprint(site_folder: Path, checkout: Path) -> Blueprint:
    """Return the blueprint with the pages in `site_folder`.

    If the site is not built, its pages are those in the folder `docs` of `checkout`, without search.
    """
    blueprint = Blueprint(BLUEPRINT, __name__)

    @blueprint.get("/help")
    def redirect_to_index() -> BaseResponse:
        return redirect("/help/", 308)

    @blueprint.get("/help/")
    def show_index() -> Response | str:
        return show_page(INDEX)

    @blueprint.get("/help/<path:name>")
    def show_page(name: str) -> Response | str:
        if (site_folder / INDEX).is_file():
            return send_from_directory(site_folder, name)
        if name == "_static/help.css":
            return send_from_directory(checkout / "docs_site" / "switchroom" / "static", "help.css")
        documents = checkout / "docs"
        if name.startswith("pictures/"):
            return send_from_directory(documents, name)
        pages = {
            path.relative_to(documents).with_suffix(".html").as_posix(): path
            for path in documents.rglob("*.md")
        }
        if name not in pages:
            raise NotFound
        # Imported here: it parses Markdown, which a built site does not need.
        from integration.web.help_documents import render_document

        title, html = render_document(pages[name])
        return render_template("help_document.html", title=title, body=html, version=__version__)

    return blueprint
