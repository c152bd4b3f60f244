"""Log handler that counts repeated messages instead of writing each."""

from __future__ import annotations

import copy
import hashlib
import logging
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import TextIO

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
