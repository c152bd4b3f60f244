"""Compression of JSON responses with gzip, for installations without a proxy (`facade.gzip`)."""

from __future__ import annotations

import gzip

from flask import Request, Response

from integration.core.api_responses import JSON

MIN_BYTES = 1000
"""Size of the smallest body that is compressed. A smaller one fits into one packet anyway."""
LEVEL = 1
"""Compression level. Level 6 takes twice as long for CDRs and saves another fifth."""


def compress(http_request: Request, response: Response) -> Response:
    """Compress a complete JSON body for a client that accepts gzip."""
    response.vary.add("Accept-Encoding")
    if response.mimetype != JSON or not response.is_sequence or "Content-Encoding" in response.headers:
        return response
    if http_request.accept_encodings.quality("gzip") <= 0:
        return response
    body = response.get_data()
    if len(body) >= MIN_BYTES:
        response.set_data(gzip.compress(body, LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response
