"""The receiver that a first afternoon produces: Flask, a connection per thread, one durable commit a request.

Run by gunicorn's threaded worker as the peer of the receiver's benchmark.
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
