"""Log format: one line per record for any values."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

from integration.core import logs
from integration.core.logs import OneLineFormatter
from tests.support.clock import Clock

Lines = Callable[[], list[str]]


@pytest.mark.parametrize(
    "value", ["a\nb", "a\r\nb", "\x1b[2Jgone", "a\u2028b", "nul\0", "\x85", "\u202etxet", "\ud800", "a\x0bb"]
)
def test_values_cannot_add_line_breaks_or_terminal_control_codes(value: str) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLineFormatter())
    log = logging.Logger("test")
    log.addHandler(handler)
    try:
        raise ValueError(value)
    except ValueError:
        log.exception("caller %s", value)
    line = written.getvalue()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert "ValueError" in line
    line.encode()


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ("Exception on /setup/canary [GET]", "Exception on /setup/*** [GET]"),
        ("GET /wall/canary?now=1 failed", "GET /wall/***?now=1 failed"),
        ("DELETE /v1.2/apitokens/canary failed", "DELETE /v1.2/apitokens/*** failed"),
        ("POST /webhooks/canary", "POST /webhooks/***"),
        ("url: '/webhooks/canary'", "url: '/webhooks/***'"),
        ("GET /calls/7 failed", "GET /calls/7 failed"),
    ],
)
def test_secrets_in_paths_are_replaced_in_log_lines(message: str, logged: str) -> None:
    record = logging.LogRecord("integration", logging.ERROR, "", 0, "%s", (message,), None)
    assert OneLineFormatter().format(record).endswith(f": {logged}")


@pytest.fixture
def write_records(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Function that configures the log, writes records, and returns standard error."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def write(*arguments: str, journal: bool = False) -> str:
        with tempfile.TemporaryFile("w+") as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            status = os.fstat(stream.fileno())
            monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino + (not journal)}")
            logs.configure_logging(*arguments)
            log = logging.getLogger("integration.example")
            log.debug("page %s", 1)
            log.info("read /webhooks/%s", "canary")
            try:
                raise ValueError("two\nlines")
            except ValueError:
                log.exception("failed\u2028again")
            logs.print_line("Listening on http://127.0.0.1:8000")
            stream.seek(0)
            return stream.read()

    yield write
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_has_one_object_per_record_without_secrets(write_records: Callable[..., str]) -> None:
    text = write_records("info", "json")
    entries = [json.loads(line) for line in text.splitlines()]
    assert [(entry["level"], entry["logger"], entry["message"]) for entry in entries] == [
        ("info", "integration.example", "read /webhooks/***"),
        ("error", "integration.example", "failed\u2028again"),
        ("info", "switchroom", "Listening on http://127.0.0.1:8000"),
    ]
    assert entries[1]["exception"].endswith("ValueError: two\nlines")
    assert [set(entry) for entry in entries][::2] == [{"time", "level", "logger", "message"}] * 2
    assert text.isascii()


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_in_the_journal_begin_with_their_priority(write_records: Callable[..., str], form: str) -> None:
    lines = write_records("debug", form, journal=True).splitlines()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<3>", "<6>"]


def test_lines_outside_the_journal_have_no_priority(write_records: Callable[..., str]) -> None:
    assert "<" not in write_records("debug")[:1]


def test_a_repeated_message_is_written_once_a_minute_with_its_count(
    logged: Lines, stopped_clock: Clock
) -> None:
    for _ in range(9):
        logging.getLogger("sync").warning("%s: no connection", "cdrs")
        logging.getLogger("sync").warning("%s: no connection", "sms")
        stopped_clock.advance(15.001)
    assert [line for line in logged() if "cdrs" in line] == [
        "WARNING sync: cdrs: no connection",
        "WARNING sync: cdrs: no connection (repeated 3 times)",
        "WARNING sync: cdrs: no connection (repeated 3 times)",
    ]
