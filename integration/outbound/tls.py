"""TLS of outgoing connections: trusted authorities, and reasons of failures in words."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import certifi

from integration.core.errors import ConfigurationError

TlsFaultKind = Literal["authority", "expired", "early", "name", "plain", "other"]

_UNKNOWN_AUTHORITY_CODES = frozenset({2, 18, 19, 20, 21})
"""`verify_code` of a self-signed certificate, or of an authority that is not in the list (x509_vfy.h)."""
_NAME_MISMATCH_CODES = frozenset({62, 64})
_PLAIN_REASONS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
"""OpenSSL's reasons if the first bytes of the server are not TLS."""


def make_context(ca_file: Path | None) -> ssl.SSLContext:
    """Make a TLS context.

    Its authorities are those of `ca_file`, else of the system. Without any, those of Mozilla are used.
    OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR. Raises ConfigurationError for a file without certificates.
    """
    if ca_file is not None:
        return load_authorities(ca_file)
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        context.load_verify_locations(certifi.where())
    return context


def load_authorities(ca_file: Path) -> ssl.SSLContext:
    """Make a TLS context that trusts only the authorities of `ca_file` (platform.ca_file).

    Raises ConfigurationError.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigurationError(
            [
                f"platform.ca_file: {ca_file} contains no certificates in PEM form; use the file of the"
                " authority that begins with -----BEGIN CERTIFICATE-----"
            ]
        ) from None
    except OSError as error:
        raise ConfigurationError(
            [f"platform.ca_file: {ca_file}: cannot be read: {error.strerror}; correct the path"]
        ) from None


@dataclass(frozen=True, slots=True)
class TlsFault:
    """Fault of a TLS connection. `finding` is about the server."""

    kind: TlsFaultKind
    finding: str


def find_tls_fault(error: BaseException) -> TlsFault | None:
    """Return the fault of TLS behind `error`, None for another cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _classify_certificate(cause)
        if isinstance(cause, ssl.SSLError):
            reason = cause.reason or str(cause)
            if reason.upper().replace(" ", "_") in _PLAIN_REASONS:
                return TlsFault("plain", "it uses plain HTTP on this port")
            return TlsFault("other", f"TLS failed ({reason})")
        cause = cause.__cause__ or cause.__context__
    return None


def _classify_certificate(error: ssl.SSLCertVerificationError) -> TlsFault:
    if error.verify_code in _UNKNOWN_AUTHORITY_CODES:
        return TlsFault(
            "authority", f"its certificate is not trusted: its authority is unknown ({error.verify_message})"
        )
    if error.verify_code in _NAME_MISMATCH_CODES:
        return TlsFault("name", f"its certificate is for another name ({error.verify_message})")
    if error.verify_code == 10:
        return TlsFault("expired", "its certificate has expired")
    if error.verify_code == 9:
        return TlsFault("early", "its certificate is not valid yet")
    return TlsFault("other", f"its certificate is not trusted ({error.verify_message})")


def uses_tls(host: str, port: int, seconds: float) -> bool:
    """Return whether the server responds with TLS.

    Certificates are not checked; nothing is sent.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except OSError:
        return False


def describe_failure(error: BaseException) -> str:
    """Return the reason why a connection failed.

    For servers other than the platform. For the platform the message of the PlatformError has the reason.
    """
    fault = find_tls_fault(error)
    if fault is not None:
        return fault.finding
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "its name cannot be resolved"
        if isinstance(cause, ConnectionRefusedError):
            return "it refuses connections"
        if isinstance(cause, TimeoutError):
            return "it did not respond in time"
        cause = cause.__cause__ or cause.__context__
    return "the connection was lost"
