"""Security headers of every response."""

from __future__ import annotations

from flask import Flask, Response, request

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    # Only static/js/html.js makes nodes from text, by the policy `switchroom`.
    "require-trusted-types-for 'script'; trusted-types switchroom"
)

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
    if request.is_secure:
        response.headers["Strict-Transport-Security"] = _HSTS
    # Only static files may be cached, because they are the same for all users.
    if request.endpoint != "static" or response.status_code >= 400:
        response.headers["Cache-Control"] = "no-store"
    return response
