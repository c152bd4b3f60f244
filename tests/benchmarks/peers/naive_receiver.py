"""Simple receiver of webhooks, for comparison.

Flask with a SQLite connection per thread and one durable commit per request, run by gunicorn's threaded
worker.
"""

from __future__ import annotations

import os
import sqlite3
import threading

from flask import Flask, request

app = Flask(__name__)
local = threading.local()


def connection() -> sqlite3.Connection:
    if not hasattr(local, "connection"):
        local.connection = sqlite3.connect(os.environ["NAIVE_DATABASE"], timeout=30)
        local.connection.execute("PRAGMA journal_mode=WAL")
        local.connection.execute("PRAGMA synchronous=FULL")
        local.connection.execute("CREATE TABLE IF NOT EXISTS inbox (event_id TEXT PRIMARY KEY, body BLOB)")
    found: sqlite3.Connection = local.connection
    return found


@app.post("/hook")
def receive() -> dict[str, str]:
    body = request.get_data()
    with connection() as db:
        db.execute("INSERT OR IGNORE INTO inbox VALUES (?, ?)", (request.get_json()["id"], body))
    return {"status": "stored"}
