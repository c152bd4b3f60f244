"""Encodings of the bodies of requests and responses."""

from __future__ import annotations

import codecs
import json

ENCODED_BODY_MESSAGE = "The body is compressed. Send it without compression."
ACCEPT_IDENTITY = ("Accept-Encoding", "identity")
"""Header of a 415 that names the accepted encodings (RFC 9110 §12.5.3)."""

_PLAIN_ENCODINGS = frozenset(("", "identity", "utf-8", "utf8"))
"""Values of Content-Encoding of a body that is not compressed. Some clients send their charset there."""
_OTHER_CHARSETS = frozenset(("iso-8859-1", "latin1", "iso-8859-15", "windows-1252"))
"""Charsets of a Content-Type with which JSON is sent besides Unicode."""

STORED_CHARSET = "windows-1252"
"""Charset of stored webhooks that are not Unicode. Their Content-Type is not stored.

It has the characters of ISO-8859-1. ISO-8859-15 differs in eight characters.
"""
GZIP_SIGNATURE = b"\x1f\x8b"
"""First bytes of a body compressed with gzip. No JSON text begins with them."""


def is_compressed(content_encoding: str) -> bool:
    """Return whether a header Content-Encoding names a compression. None is accepted in requests."""
    return not _PLAIN_ENCODINGS.issuperset(name.strip().lower() for name in content_encoding.split(","))


def to_utf8(body: bytes, charset: str = "") -> bytes:
    """Return a JSON text as UTF-8 without a byte order mark.

    UTF-16 and UTF-32 are recognised by their first bytes. `charset`, of the Content-Type, applies to text
    that is not UTF-8. A body in another encoding is returned unchanged: its parser reports the error.
    """
    encoding: str = json.detect_encoding(body)
    if encoding == "utf-8-sig":
        return body.removeprefix(codecs.BOM_UTF8)
    if encoding == "utf-8":
        if charset.lower() not in _OTHER_CHARSETS or _is_utf8(body):
            return body
        encoding = charset
    try:
        return body.decode(encoding).encode()
    except UnicodeError:
        return body


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
