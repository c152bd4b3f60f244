"""Log on standard error, always one line per record (promise S18); repeated messages are counted."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import re
import sys
from collections import OrderedDict
from typing import Literal, TextIO

from integration.core import clock

REPEAT_SECONDS = 60.0
"""Seconds after a line in which equal messages are only counted."""

MAX_REPEATED = 200
"""Messages that are counted at the same time; the least recent one is dropped."""


class RepeatFoldingHandler(logging.StreamHandler[TextIO]):
    """Write a repeated message once in REPEAT_SECONDS, with the number of its repetitions.

    Messages are equal if logger, level, text and traceback are.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._written: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        """Time of the last line and repetitions since, by message."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message, now = record.getMessage(), clock.monotonic()
            key = _compute_key(record, message)
        except Exception:  # noqa: BLE001  a wrong argument of a log call must not end its caller
            self.handleError(record)
            return
        written_at, count = self._written.pop(key, (now - REPEAT_SECONDS, 0))
        if now - written_at < REPEAT_SECONDS:
            self._written[key] = written_at, count + 1
            return
        self._written[key] = now, 0
        if len(self._written) > MAX_REPEATED:
            self._written.popitem(last=False)
        if count:
            record = copy.copy(record)
            times = "time" if count == 1 else "times"
            record.msg, record.args = f"{message} (repeated {count} {times})", None
        super().emit(record)


def _compute_key(record: logging.LogRecord, message: str) -> bytes:
    """Return a digest: a message with its traceback can have megabytes."""
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    text = "\0".join((record.name, record.levelname, message, record.exc_text or "", record.stack_info or ""))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_SECRET_PATH = re.compile(r"(/(?:setup|wall|webhooks|apitokens)/)[^\s/?\"']+")
"""Paths whose next segment is a secret.

Paths are logged with every error (promise S2).
"""


def escape_line(text: str) -> str:
    """Escape line breaks, control characters, bidirectional controls and lone surrogates."""
    return _UNSAFE.sub(lambda sign: repr(sign[0])[1:-1], text)


_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""Least level and priority of syslog (sd-daemon(3)); records below the last level have 7."""


class OneLineFormatter(logging.Formatter):
    """Format a record as one line in UTC, without secrets of paths.

    With `has_priority`, the line begins with the `<N>` of its level, which systemd's journal removes.
    """

    def __init__(self, *, has_priority: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._has_priority = has_priority

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002
        return clock.utc_text(record.created)

    def format(self, record: logging.LogRecord) -> str:
        prefix = make_priority(record.levelno) if self._has_priority else ""
        return prefix + self._format_line(record)

    def _format_line(self, record: logging.LogRecord) -> str:
        return _hide_secrets(escape_line(super().format(record)))


PRINTED = "switchroom"
"""Logger of the lines that commands print. They have no secrets except the link of the first login."""


class JsonFormatter(OneLineFormatter):
    """Format a record as one JSON object.

    Its keys are time (UTC), level, logger, message and, if there is one, exception.
    """

    def _format_line(self, record: logging.LogRecord) -> str:
        entry = {
            "time": clock.utc_text(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if record.name == PRINTED else _hide_secrets(record.getMessage()),
        }
        if record.exc_info:
            entry["exception"] = _hide_secrets(self.formatException(record.exc_info))
        # ensure_ascii escapes every character that could end or reorder the line.
        return json.dumps(entry)


def _hide_secrets(text: str) -> str:
    return _SECRET_PATH.sub(r"\1***", text)


def make_priority(level: int) -> str:
    """Return the `<N>` prefix of a logging level."""
    return f"<{next((priority for least, priority in _PRIORITIES if level >= least), 7)}>"


def is_journal(stream: TextIO) -> bool:
    """Return whether `stream` is connected to systemd's journal (JOURNAL_STREAM, systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def is_json() -> bool:
    """Return whether the log is written as JSON."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def configure_logging(level: str = "info", form: Literal["text", "json"] = "text") -> None:
    """Log to standard error, from `level` on (log.level, log.format). Replaces earlier handlers."""
    handler = RepeatFoldingHandler(sys.stderr)
    formatter = JsonFormatter if form == "json" else OneLineFormatter
    handler.setFormatter(formatter(has_priority=is_journal(sys.stderr)))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # At INFO these log every request and every job run; at DEBUG also query strings, which contain numbers.
    least_level = max(logging.WARNING, logging.getLogger().level)
    for logger_name in ("urllib3", "apscheduler", "werkzeug"):
        logging.getLogger(logger_name).setLevel(least_level)


def print_line(line: str, level: int = logging.INFO) -> None:
    """Print a message of a command to standard error.

    In JSON and in the journal it has the form of the log.
    """
    if is_json():
        logging.getLogger(PRINTED).log(level, "%s", line)
        return
    prefix = make_priority(level) if is_journal(sys.stderr) else ""
    print(prefix + escape_line(line), file=sys.stderr, flush=True)


def print_error(message: str) -> None:
    """Print an error of a command to standard error."""
    print_line(message if is_json() else f"switchroom: {message}", logging.ERROR)
