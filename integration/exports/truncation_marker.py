"""A file that an error breaks off while it is sent says so at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

log = logging.getLogger(__name__)

TRUNCATION_MARKER = b"\r\n*** THIS EXPORT BROKE OFF AFTER AN ERROR AND IS NOT COMPLETE ***\r\n"


def mark_if_truncated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The file; where an error breaks it off, with a last line that no reader takes for a record.

    The server ends the transfer in good order whatever happens here (Granian sends the final chunk after an
    exception too), so the file itself has to say that it is not whole.
    """
    try:
        yield from chunks
    except Exception:
        log.exception("an export broke off")
        yield TRUNCATION_MARKER
