"""Records of an account, and ids of responses, for tests of paths below a record."""

from __future__ import annotations

from typing import Any

USER, COLLEAGUE = 1000002, 1000003
CALL = 4278000101
CDRS = [
    {"id": 11, "live_id": CALL, "user_id": USER, "calldate": "2026-11-20 09:00:00", "type": "I",
     "src": "447700900001", "dst": "442079460002", "billsec": 30, "nb_notes": 2},
    {"id": 12, "live_id": 4278000102, "user_id": COLLEAGUE, "calldate": "2026-11-20 10:00:00", "type": "O",
     "src": "442079460002", "dst": "00447700900001", "billsec": 5, "nb_notes": 0},
    {"id": 13, "live_id": 4278000103, "user_id": USER, "calldate": "2026-11-20 11:00:00", "type": "O",
     "src": "442079460002", "dst": "447700900009", "billsec": 60, "nb_notes": 0},
    {"id": 14, "live_id": 4278000104, "user_id": USER, "calldate": "2026-11-20 12:00:00", "type": "I",
     "src": "07700900001", "dst": "442079460002", "billsec": 0, "nb_notes": 0},
]  # fmt: skip
CONTACTS = [
    {"id": 5, "user_id": USER, "global": False, "first_name": "Ann", "tel": "+447700900001"},
    {"id": 6, "user_id": COLLEAGUE, "global": False, "first_name": "Bob", "tel": "+447700900009"},
    {"id": 7, "user_id": COLLEAGUE, "global": True, "first_name": "Cleo", "tel": "+447700900010"},
    {"id": 8, "user_id": None, "global": False, "first_name": "Dora", "tel": None},
]
SMS = [
    {"id": 21, "user_id": USER, "from": "447700900001", "to": "442079460002", "message": "one"},
    {"id": 22, "user_id": USER, "from": "442079460002", "to": "+447700900001", "message": "two"},
    {"id": 23, "user_id": COLLEAGUE, "from": "442079460002", "to": "447700900001", "message": "theirs"},
    {"id": 24, "user_id": USER, "from": "442079460002", "to": "447700900009", "message": "other"},
    {"id": 25, "user_id": None, "from": "00447700900001", "to": "442079460002", "message": "shared"},
    {"id": 26, "user_id": USER, "from": "447700900001", "to": "447700900001", "message": "to itself"},
]
MONITORS = [
    {"id": 31, "live_id": CALL, "user_id": USER, "timestamp": "2026-11-20 09:00:00", "duration": 30},
    {"id": 32, "live_id": 4278000103, "user_id": USER, "timestamp": "2026-11-20 11:00:00", "duration": 60},
]


def list_ids(response: Any) -> list[int]:
    """Ids of all records of a successful response."""
    assert response.status_code == 200, response.data
    assert response.json["total"] == len(response.json["data"])
    return [record["id"] for record in response.json["data"]]
