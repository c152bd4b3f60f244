"""Log format: one line per record for any values."""

from __future__ import annotations

import io
import logging

import pytest

from integration.core.log_format import OneLineFormatter


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


def test_ordinary_text_is_logged_unchanged() -> None:
    record = logging.LogRecord("sync", logging.INFO, "", 0, "Zoë – 東京 \\ '%s'", ("ok",), None)
    assert OneLineFormatter().format(record).endswith("INFO sync: Zoë – 東京 \\ 'ok'")


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
