"""Composition of the web application: receiver and all routes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flask import Flask, Response, request

from integration.api import blueprint as own_api
from integration.api.document import build_own_paths
from integration.context import EXTENSION, AppContext
from integration.core.api_responses import build_error_response
from integration.core.body_encodings import ACCEPT_IDENTITY, ENCODED_BODY_MESSAGE, is_compressed
from integration.core.installation import find_assets, find_help_site
from integration.dashboard import pages
from integration.dashboard.calls.live import render_change, render_heartbeat
from integration.dashboard.site import guard, headers, login
from integration.exports import routes as export_routes
from integration.facade.blueprint import make_blueprint as make_facade
from integration.inbox.receive import PATH_PREFIX, Receiver
from integration.live.stream import make_stream
from integration.maintenance.forwarded_requests import EXTENSION as FORWARDED_REQUESTS
from integration.maintenance.forwarded_requests import ForwardedRequests
from integration.settings.api_paths import find_conflicting_base_path, list_base_paths
from integration.settings.data_dir_secrets import WebhookSecrets
from integration.web import health_routes, help_site, page_files, trusted_proxies
from integration.web.inflight import BLOCKING_THREADS
from integration.web.metrics.http_requests import RequestMetrics
from integration.web.metrics.registry import Metrics
from integration.web.request_limits import RequestLimits, find_line_error

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

UNGUARDED_ENDPOINTS = ("static", "wall", "health", "help", "facade", "api", "exports")
"""Endpoints and blueprints that authenticate requests themselves or need no authentication (promise S4)."""


def make_dispatcher(context: AppContext, site: Flask, metrics: Metrics) -> WSGIApplication:
    """Return the WSGI application: receiver for webhooks, `site` for other requests.

    The receiver needs no request limits, because it reads no body before the secret is verified.
    """
    receiver = trusted_proxies.TrustedProxies(
        Receiver(context.inbox, context.settings.webhooks, WebhookSecrets(context.settings)),
        context.settings.server.trusted_proxies,
        site.extensions[FORWARDED_REQUESTS].record,
    )
    # A fifth for slow bodies, a fifth for slow readers, at most half for live streams: a tenth remains.
    limited_site = RequestLimits(site, BLOCKING_THREADS // 5)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        target = receiver if environ["PATH_INFO"].startswith(PATH_PREFIX) else limited_site
        return target(environ, start_response)

    return RequestMetrics(application, metrics.registry, list_base_paths(context.settings))


def make_site(context: AppContext, metrics: Metrics) -> Flask:
    """Return the Flask application with all routes except the receiver."""
    settings = context.settings
    assets = find_assets()
    app = Flask("switchroom", template_folder=str(assets / "templates"), static_folder=str(assets / "static"))
    app.extensions[EXTENSION] = context
    app.before_request(_refuse_long_line)
    app.before_request(_refuse_compressed_body)
    app.extensions[FORWARDED_REQUESTS] = forwarded_requests = ForwardedRequests()
    trusted_proxies.install(app, settings.server.trusted_proxies, forwarded_requests.record)
    headers.install(app)
    login_guard = guard.Guard(
        context.app_db,
        public_url=settings.server.public_url,
        agents_see=settings.dashboard.agents_see,
        second_factor_roles=settings.dashboard.second_factor,
        open_to_all=UNGUARDED_ENDPOINTS,
    )
    login_guard.install(app)
    places = threading.BoundedSemaphore(BLOCKING_THREADS // 2)
    app.url_map.converters["int"] = pages.IdConverter
    app.register_blueprint(health_routes.make_blueprint(context, metrics))
    app.register_blueprint(help_site.make_blueprint(find_help_site(), assets))
    app.register_blueprint(login.make_blueprint(context.app_db))
    app.register_blueprint(
        make_stream(
            context.live_hub,
            render_change,
            places,
            find_viewer=login_guard.viewer,
            heartbeat=render_heartbeat,
        )
    )
    app.register_blueprint(export_routes.blueprint)
    pages.register(app)
    own_paths = {}
    if find_conflicting_base_path(settings) is None:
        app.register_blueprint(own_api.make_blueprint(context, places))
        own_paths = build_own_paths()
    app.register_blueprint(make_facade(context, own_paths))
    page_files.check(app, context.health)
    return app


def _refuse_long_line() -> Response | None:
    message = find_line_error(request.environ)
    return None if message is None else build_error_response(414, message)


def _refuse_compressed_body() -> Response | None:
    """Return 415 for a body that no route could read."""
    if not is_compressed(request.headers.get("Content-Encoding", "")):
        return None
    return build_error_response(415, ENCODED_BODY_MESSAGE, headers=dict([ACCEPT_IDENTITY]))
