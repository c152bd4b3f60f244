"""Flask with a handler that joins the rows of a SELECT, for comparison.

Environment variable `DATABASE`: the file.
"""

from __future__ import annotations

import os
import sqlite3
import threading

from flask import Flask, Response, request

app = Flask(__name__)
local = threading.local()


@app.get("/rows")
def respond() -> Response:
    if not hasattr(local, "connection"):
        local.connection = sqlite3.connect(f"file:{os.environ['DATABASE']}?mode=ro", uri=True)
        local.connection.execute("PRAGMA mmap_size=1073741824")
    rows = local.connection.execute(request.args["sql"]).fetchall()
    return Response(f'{{"data":[{",".join(row[0] for row in rows)}]}}', mimetype="application/json")
