"""Push every finished call into a CRM, as an activity of the caller. Needs `pip install requests`.

URL      address of Switchroom
KEY      key of `switchroom key add crm --scope read --collections cdrs`
CRM      address of the CRM

Run it every minute, or after each event. The cursor is stored after its page was pushed, so a run that was
interrupted repeats a page. Each call has the same address in the CRM every time, so a repetition changes
nothing.
"""

import os
from pathlib import Path

import requests

CURSOR, LIMIT = Path("crm.cursor"), 500

switchroom, crm = requests.Session(), requests.Session()
switchroom.auth = tuple(os.environ["KEY"].split(":"))


def push(call):
    activity = f"{os.environ['CRM']}/activities/switchroom-{call['id']}"
    if "merged_into" in call or call["party"] == "erased":
        response = crm.delete(activity, timeout=30)
        if response.status_code != 404:
            response.raise_for_status()
    elif call["state"] == "ended" and call["party_e164"]:
        content = {
            "phone": call["party_e164"],
            "at": f"{call['started_at']}Z",
            "subject": f"{call['direction']}, {call['outcome']}, {call['talk_seconds'] or 0} s",
            "owner": call["user_name"],
            "labels": call["labels"],
        }
        crm.put(activity, json=content, timeout=30).raise_for_status()


cursor = CURSOR.read_text() if CURSOR.exists() else "0"
while True:
    parameters = {"changed_after": cursor, "limit": LIMIT}
    response = switchroom.get(f"{os.environ['URL']}/api/calls", params=parameters, timeout=30)
    if response.status_code == 410:  # Switchroom was restored from a backup: start again.
        cursor = "0"
        continue
    response.raise_for_status()
    page = response.json()
    for call in page["data"]:
        push(call)
    cursor = page["next"]
    new_file = CURSOR.with_suffix(".new")
    new_file.write_text(cursor)
    new_file.replace(CURSOR)
    if len(page["data"]) < LIMIT:
        break
