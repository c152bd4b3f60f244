"""Documented fields of the platform's records, read from the specification (chapter Resources).

Nothing here is derived from the catalogue or the simulator: a mistake that both share must not pass.
"""

from __future__ import annotations

from typing import Any

from tests.catalogue import specification

NAMES_OF_TITLES = {
    "User group / user group policy": "user_group",
    "Current-user metadata (/me)": "current_user",
    "Call-me-back setting": "callmeback_setting",
}
"""Names of records whose title in the specification is not the name in words."""
IN_USER_LISTS = specification.prose("The User list and item examples show only: ")

DATES = frozenset({"calldate", "created_at", "updated_at", "timestamp", "origtime"})
"""Fields of type string or timestamp that hold a time."""
SHAPELESS = {"id": "integer", "name": "string", "text": "string", "rules": "array"}
"""Fields of records that the specification does not show: an id and some others."""


def read_fields() -> dict[str, dict[str, str]]:
    """Type of each field by record: a JSON type, or `timestamp`, text such as '2026-09-02 08:45:55'."""
    fields = {
        NAMES_OF_TITLES.get(title) or title.partition(" (")[0].lower().replace(" ", "_"): dict(pairs)
        for title, pairs in specification.other_resources().items()
    }
    user = dict(specification.model("User (full model)"))
    listed = IN_USER_LISTS.partition(": ")[2].rstrip(".").split(", ")
    fields["cdr"] = dict(specification.model("CDR (full model)"))
    fields["user"] = user
    fields["user_in_list"] = {name: user.get(name, "integer") for name in listed}
    # The platform sends an integer, although the specification lists the id with the texts.
    fields["current_user"]["id"] = "integer"
    return fields


RECORD_FIELDS = read_fields()


def make_values(record: str, key: int) -> dict[str, Any]:
    """Create a value of the documented type for each documented field of `record`.

    The values of two records with different `key` differ.
    """
    types = RECORD_FIELDS.get(record, SHAPELESS)
    values = {name: _make_value(kind, name, key) for name, kind in types.items()}
    values["id"] = str(key) if record == "ddi" else key
    if "e164" in values:
        values["e164"] = f"4420794600{key:02}"
    return values


def _make_value(kind: str, name: str, key: int) -> Any:
    if kind == "timestamp" or name in DATES:
        return f"2026-09-02 08:45:{key % 60:02}"
    return {
        "integer": 4278000100 + key,
        "number": 0.25 + key,
        "boolean": key % 2 == 0,
        "string": f"{name} “{key}” é / \\",
        "array": [f"a{key}", key],
    }[kind]
