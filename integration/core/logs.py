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
from dataclasses import dataclass
from typing import Literal, TextIO

from integration.core import clock

REPEAT_SECONDS = (60.0, 3600.0)
"""Minimum seconds between two lines of one message, at first and at most. Doubled after each line."""

QUIET_SECONDS = 900.0
"""Seconds without a repetition after which a message counts as new.

Longer than the longest pause between two attempts of a failing job.
"""

MAX_REPEATED = 200
"""Messages whose repetitions are counted at the same time; the least recent one is written and dropped."""

MAX_STORED_LENGTH = 2_000
"""Characters of a message that a later summary contains."""


@dataclass(slots=True)
class RepeatedMessage:
    """Repetitions of one message since its last line.

    Times are seconds of the monotonic clock.
    """

    record: logging.LogRecord
    written_at: float
    last_at: float
    interval: float = REPEAT_SECONDS[0]
    count: int = 0

    def is_due(self, now: float) -> bool:
        return now - self.written_at >= self.interval

    def is_quiet(self, now: float) -> bool:
        return now - self.last_at >= QUIET_SECONDS


class RepeatFoldingHandler(logging.StreamHandler[TextIO]):
    """Write a repeated message as one line with its count.

    The time between two lines grows. Messages are equal if logger, level, text and traceback are. The first
    occurrence is written at once. `write_summaries` writes the counts of messages that do not recur.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._repeated: OrderedDict[bytes, RepeatedMessage] = OrderedDict()
        self._process_id = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._fold(record)
        except Exception:  # noqa: BLE001  a wrong argument of a log call must not end its caller
            self.handleError(record)
            return
        if line is not None:
            super().emit(line)

    def write_summaries(self, *, is_all: bool = False) -> None:
        """Write the counts that are due.

        These are counts whose interval has passed, and of messages that are no longer repeated; with `is_all`
        all counts.
        """
        now = clock.monotonic()
        self.acquire()
        try:
            self._drop_counts_of_parent()
            for key, repeated in list(self._repeated.items()):
                is_over = is_all or repeated.is_quiet(now)
                if is_over or repeated.is_due(now):
                    self._write_summary(repeated, now)
                if is_over:
                    del self._repeated[key]
        finally:
            self.release()

    def close(self) -> None:
        self.write_summaries(is_all=True)
        super().close()

    def _fold(self, record: logging.LogRecord) -> logging.LogRecord | None:
        """Return the record to write, or None if it is only counted."""
        now = clock.monotonic()
        self._drop_counts_of_parent()
        message = record.getMessage()
        key = _compute_key(record, message)
        repeated = self._repeated.get(key)
        if repeated is None or repeated.is_quiet(now):
            if repeated is not None:
                self._write_summary(repeated, now)
            self._repeated[key] = RepeatedMessage(_copy(record, message[:MAX_STORED_LENGTH]), now, now)
            self._repeated.move_to_end(key)
            if len(self._repeated) > MAX_REPEATED:
                self._write_summary(self._repeated.popitem(last=False)[1], now)
            return record
        self._repeated.move_to_end(key)
        repeated.count += 1
        repeated.last_at = now
        if not repeated.is_due(now):
            return None
        line = _copy(record, _describe_count(message, repeated, now))
        _start_next_interval(repeated, now)
        return line

    def _write_summary(self, repeated: RepeatedMessage, now: float) -> None:
        """Write the repetitions since the last line, if there are any."""
        if repeated.count:
            text = _describe_count(repeated.record.getMessage(), repeated, repeated.last_at)
            line = _copy(repeated.record, text)
            line.created = clock.unix()
            super().emit(line)
            _start_next_interval(repeated, now)

    def _drop_counts_of_parent(self) -> None:
        """Drop counts copied by a fork: the parent process writes them."""
        if self._process_id != os.getpid():
            self._process_id = os.getpid()
            self._repeated.clear()


def write_summaries(*, is_all: bool = False) -> None:
    """Write the counts of messages that are due or no longer repeated.

    Of every message if `is_all`.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RepeatFoldingHandler):
            handler.write_summaries(is_all=is_all)


def _compute_key(record: logging.LogRecord, message: str) -> bytes:
    """Return a digest: a message with its traceback can have megabytes."""
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    text = "\0".join((record.name, record.levelname, message, record.exc_text or "", record.stack_info or ""))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _start_next_interval(repeated: RepeatedMessage, now: float) -> None:
    repeated.count = 0
    repeated.written_at = now
    repeated.interval = min(REPEAT_SECONDS[1], repeated.interval * 2)


def _describe_count(message: str, repeated: RepeatedMessage, until: float) -> str:
    times = "time" if repeated.count == 1 else "times"
    return f"{message} (repeated {repeated.count} {times} in {_format_span(until - repeated.written_at)})"


def _format_span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _copy(record: logging.LogRecord, text: str) -> logging.LogRecord:
    """Return a copy with another text and without a traceback."""
    copied = copy.copy(record)
    copied.msg, copied.args = text, None
    copied.exc_info = copied.exc_text = copied.stack_info = None
    return copied


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
