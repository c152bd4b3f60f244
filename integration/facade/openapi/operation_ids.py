"""Operation ids: `list_cdrs`, `get_cdr`, `create_contact`, `update_contact`, `delete_contact`.

A generated client has one function for each operation, with this name. The name is a verb and the words of
the path; a word before an id is singular. `delete_all_cdrs` deletes the entire collection.
"""

from __future__ import annotations

from integration.catalogue.shapes import Operation
from integration.facade.subcollections import SUBCOLLECTIONS

_ACTIONS = {
    "POST /login": "login",
    "POST /login2fa": "login2fa",
    "POST /logout": "logout",
    "GET /ping": "ping",
    "POST /confirmation": "resend_confirmation",
    "POST /password": "request_password_reset",
    "POST /reset": "reset_password",
    "POST /registrations/{hash}/resend": "resend_registration",
    "GET /registrations/{hash}/numbers/{areacode}": "list_registration_numbers",
}
"""Ids of operations that are actions, not reads or changes of a record."""
_VERBS = {"POST": "create", "PATCH": "update", "DELETE": "delete"}
_UNCHANGED_WORDS = frozenset({"sms"})
"""Words that end in `s` but have no plural."""


def build_operation_id(operation: Operation) -> str:
    """Return the id of an operation, unique in the document."""
    if operation.name in _ACTIONS:
        return _ACTIONS[operation.name]
    segments = operation.path.strip("/").split("/")
    has_id = segments[-1].startswith("{")
    is_list = _is_list(operation) and not has_id
    # POST creates one record. A bulk change and the deletion of everything have no id in the path.
    is_singular = has_id or operation.method == "POST"
    words = []
    for segment, following in zip(segments, [*segments[1:], ""], strict=True):
        if segment.startswith("{"):
            # The suffix of a file: `/cdrs/{id}.trace`.
            words += [suffix] if (suffix := segment.partition("}")[2].lstrip(".")) else []
        elif following.startswith("{") or (not following and is_singular):
            words.append(_make_singular(segment))
        else:
            words.append(segment.replace(".", "_"))
    verb = _VERBS.get(operation.method, "list" if is_list else "get")
    if operation.method == "DELETE" and len(segments) == 1:
        verb = "delete_all"
    return "_".join([verb, *words])


def _is_list(operation: Operation) -> bool:
    return operation.response_kind in ("collection", "dictionary") or operation.name in SUBCOLLECTIONS


def _make_singular(word: str) -> str:
    if word in _UNCHANGED_WORDS or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith("xes") else word[:-1]
