"""Pass-through of requests to the platform, with the client's rights."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from flask import Response

from integration.core.api_responses import JSON, build_response, to_gateway_error
from integration.core.errors import PlatformError, StorageError
from integration.facade.request import FacadeRequest
from integration.mirror.records.masking import mask_json
from integration.outbound.exchange import PlatformResponse
from integration.platform_api.budget import INTERACTIVE
from integration.platform_api.login import Credentials

log = logging.getLogger(__name__)

_PASSED_HEADERS = ("Content-Disposition", "Location", "Retry-After", "ETag", "Last-Modified")
"""Response headers of the platform that are relayed."""
_VALIDATORS = ("ETag", "Last-Modified")


NO_CREDENTIALS = Credentials("", "", "none")
"""The request carries neither the configured nor the client's credentials."""


def fetch(request: FacadeRequest) -> PlatformResponse:
    """Return the platform's response to this GET, whatever its status.

    Raises ApiError 502 or 504 without a response.
    """
    try:
        return request.context.platform.get(
            request.encoded_path,
            request.query_string or None,
            priority=INTERACTIVE,
            credentials=request.caller.credentials,
            check=False,
        )
    except PlatformError as error:
        raise to_gateway_error(error) from error


def fetch_or_raise(request: FacadeRequest) -> PlatformResponse:
    """Return the platform's response to this GET.

    Raises ApiError, for a 5xx as well.
    """
    platform_response = fetch(request)
    _check_status(platform_response)
    return platform_response


def send(request: FacadeRequest, body: bytes | None, credentials: Credentials | None) -> PlatformResponse:
    """Send a request once, without retries, and return the response, whatever its status.

    Raises ApiError 502 or 504 without a response.
    """
    try:
        return request.context.platform.send(
            request.method,
            request.encoded_path,
            body,
            params=request.query_string or None,
            priority=INTERACTIVE,
            credentials=credentials,
            check=False,
        )
    except PlatformError as error:
        raise to_gateway_error(error) from error


def _check_status(platform_response: PlatformResponse) -> None:
    """Raise ApiError for a 5xx."""
    status = platform_response.status
    if status >= 500:
        raise to_gateway_error(PlatformError(f"status {status}", status=status))


def relay_response(request: FacadeRequest, platform_response: PlatformResponse) -> Response:
    """Return the platform's response unchanged; for a local key with masked secrets."""
    body, content_type = platform_response.body, platform_response.headers.get("Content-Type", JSON)
    headers = select_passed_headers(platform_response.headers)
    if "json" in content_type.lower():
        # The response gets a tag of its own (facade/entity_tags.py).
        headers = {name: value for name, value in headers.items() if name not in _VALIDATORS}
        body = mask_json(body) if request.caller.is_local else body
    return build_response(body, platform_response.status, content_type=content_type, headers=headers)


def select_passed_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _PASSED_HEADERS if name in headers}


def stream(request: FacadeRequest, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a download.

    An error ends the body short of its Content-Length, so the client detects the truncation. An exception
    would do the same, but the server would log it as an internal error.
    """
    try:
        yield from chunks
    except (PlatformError, StorageError, OSError) as error:
        log.warning("response to %s truncated: %s", request.path, error)


def forward(request: FacadeRequest) -> Response:
    """Forward a GET and relay the response.

    A file is relayed while it is downloaded. Raises ApiError 502 or 504 without a response; for clients that
    can read the mirror also for a 5xx.
    """
    context = request.context
    try:
        platform_response = context.platform.pass_through(
            request.encoded_path,
            request.query_string or None,
            folder=context.settings.storage.data_dir,
            credentials=request.caller.credentials,
        )
    except PlatformError as error:
        raise to_gateway_error(error) from error
    except OSError as error:
        log.warning("cannot buffer %s in a file, relaying it from memory: %s", request.path, error)
        platform_response = fetch(request)
    if isinstance(platform_response, PlatformResponse):
        if request.caller.can_read_mirror:
            _check_status(platform_response)
        return relay_response(request, platform_response)

    response = Response(
        stream(request, platform_response.read_chunks(0, platform_response.size)),
        platform_response.status,
        select_passed_headers(platform_response.headers),
        content_type=platform_response.headers["Content-Type"],
    )
    response.content_length = platform_response.size
    response.call_on_close(platform_response.close)
    return response
