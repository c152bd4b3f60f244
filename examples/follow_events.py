"""Print calls and messages as they happen.

export KEY=9123456:0a1b…        # made on Settings › Keys, or by `switchroom key add`
python follow_events.py                    # URL=http://127.0.0.1:8000
"""

import base64
import json
import os
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path

URL = os.environ.get("URL", "http://127.0.0.1:8000")
HEADERS = {"Authorization": "Basic " + base64.b64encode(os.environ["KEY"].encode()).decode()}
CURSOR, NEW_CURSOR = Path("events.cursor"), Path("events.cursor.new")

while True:
    after = f"&after={CURSOR.read_text()}" if CURSOR.exists() else ""
    request = urllib.request.Request(f"{URL}/api/events?wait=20{after}", headers=HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            page, pause = json.load(response), int(response.headers.get("Retry-After", 0))
    except (OSError, HTTPException) as error:
        status = getattr(error, "code", None)
        if status in (400, 401, 403):
            sys.exit(f"{error}: {error.read().decode()}")
        print(f"{error}; next attempt in 5 s", file=sys.stderr)
        if status == 410:  # After a restore of Switchroom. /api/calls has the calls since the last visit.
            CURSOR.unlink()
        time.sleep(5)
        continue
    for event in page["data"]:
        call = [event["data"].get(name) for name in ("id", "party", "contact", "state", "outcome")]
        print(event["timestamp"], event["type"], *filter(None, call), flush=True)
    # Stored after the events are processed: a crash repeats some of them, and loses none.
    NEW_CURSOR.write_text(page["next"])
    NEW_CURSOR.replace(CURSOR)
    time.sleep(pause)
