"""Certificates of tests."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


def write_certificate(folder: Path, *names: str) -> ssl.SSLContext:
    """Write `cert.pem` and `key.pem` for host names or addresses. Returns a context that trusts them."""
    authority = trustme.CA()
    issued = authority.issue_cert(*names)
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context
