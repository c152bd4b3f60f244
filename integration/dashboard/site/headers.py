"""Security headers of every response."""

from __future__ import annotations

from flask import Flask, Response, request

HELP_BLUEPRINT = "help"
"""Blueprint of the documentation site (`web/help_site.py`)."""

_SOURCES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Only static/js/html.js makes nodes from text, by the policy `switchroom`.
CONTENT_SECURITY_POLICY = f"{_SOURCES}; require-trusted-types-for 'script'; trusted-types switchroom"
HELP_SECURITY_POLICY = _SOURCES
"""Policy of `/help`. The search of Sphinx makes nodes from the text of its own pages, without a policy."""

# Not `no-referrer`: browsers would then send `Origin: null` with the forms of the dashboard.
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_HSTS = "max-age=31536000"


def install(app: Flask) -> None:
    """Add the headers to every response of `app`."""
    app.after_request(add_headers)


def add_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers[name] = value
    is_help = request.blueprint == HELP_BLUEPRINT
    if is_help:
        response.headers["Content-Security-Policy"] = HELP_SECURITY_POLICY
    if request.is_secure:
        response.headers["Strict-Transport-Security"] = _HSTS
    # Static files and help may be cached, because they are the same for all users. A client of the REST API
    # may store a read and compares it before each use (facade/entity_tags.py).
    is_compared = response.headers.get("Cache-Control") == "private, no-cache"
    if (request.endpoint != "static" and not is_help and not is_compared) or response.status_code >= 400:
        response.headers["Cache-Control"] = "no-store"
    return response
