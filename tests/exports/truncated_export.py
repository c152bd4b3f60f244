"""Application with truncated files, for tests of the server."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Flask, Response

from integration.exports.query import mark_if_truncated

app = Flask(__name__)


@app.get("/broken")
def broken() -> Response:
    def chunks() -> Iterator[bytes]:
        yield b'"id"\r\n' * 100
        raise OSError("the disk failed")

    return Response(mark_if_truncated(chunks()), content_type="text/csv")


@app.get("/complete")
def complete() -> Response:
    return Response(iter([b'"id"\r\n'] * 100), content_type="text/csv")


@app.get("/short")
def short() -> Response:
    response = Response(iter([b"sound"] * 100), content_type="audio/mpeg")
    response.content_length = 1000
    return response
