"""Logging to standard error, always one line per record (promise S18)."""

from __future__ import annotations

import logging
import re
import sys

from integration.core import clock

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_SECRET_PATH = re.compile(r"(/(?:setup|wall|webhooks|apitokens)/)[^\s/?\"']+")
"""Paths whose next segment is a secret.

Paths are logged with every error (promise S2).
"""


def escape_line(text: str) -> str:
    """Escape line breaks, control characters, bidirectional controls and lone surrogates."""
    return _UNSAFE.sub(lambda sign: repr(sign[0])[1:-1], text)


class OneLineFormatter(logging.Formatter):
    """Format a record as one line in UTC, without secrets of paths."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002
        return clock.utc_text(record.created)

    def format(self, record: logging.LogRecord) -> str:
        return _SECRET_PATH.sub(r"\1***", escape_line(super().format(record)))


def configure_logging(level: int = logging.INFO) -> None:
    """Log to standard error. Replaces earlier handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # At INFO these log every request and every job run.
    for logger_name in ("urllib3", "apscheduler", "werkzeug"):
        logging.getLogger(logger_name).setLevel(logging.WARNING)
