"""Flask with a handler that does nothing, for comparison."""

from __future__ import annotations

from flask import Flask

app = Flask(__name__)


@app.post("/hook")
def respond() -> dict[str, str]:
    return {"status": "stored"}


@app.get("/hook")
def respond_to_get() -> dict[str, str]:
    return {"status": "stored"}
