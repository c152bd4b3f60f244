"""The same web framework behind the same server with a handler that does nothing."""

from __future__ import annotations

from flask import Flask

app = Flask(__name__)


@app.post("/hook")
def nothing() -> dict[str, str]:
    return {"status": "stored"}
