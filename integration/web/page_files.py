"""Check of the templates and styles of pages at the start."""

from __future__ import annotations

from pathlib import Path

from flask import Flask
from jinja2 import TemplateError

from integration.core.health import Health

HEALTH_NAME = "pages"
"""Name of the health check."""

TEMPLATES = ("base.html", "login.html", "live.html")
"""Templates without which no user can work.

All others are in the same folder. Compiling them would take 0.3 s.
"""

STATIC_FILES = ("app.css", "js/app.js")


def check(app: Flask, health: Health) -> None:
    """Report to `health` whether the pages of `app` can be rendered.

    Without pages the process is not ready, but it runs: the receiver stores webhooks.
    """
    health.watch(HEALTH_NAME, essential=True)
    problem = _find_problem(app)
    if problem is None:
        health.ok(HEALTH_NAME)
    else:
        health.fail(HEALTH_NAME, problem)


def _find_problem(app: Flask) -> str | None:
    folder = Path(app.root_path, app.template_folder or "")
    for name in TEMPLATES:
        try:
            app.jinja_env.get_template(name)
        except (TemplateError, OSError, UnicodeDecodeError) as error:
            return _describe(folder / name, f"{type(error).__name__}: {error}")
    for name in STATIC_FILES:
        path = Path(app.static_folder or "", name)
        if not path.is_file():
            return _describe(path, "the file is missing")
    return None


def _describe(path: Path, fault: str) -> str:
    return f"Pages cannot be shown: {path} cannot be used ({fault}). Install Switchroom again and restart it."
