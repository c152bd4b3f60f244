"""Operations that real clients use but the specification lacks.

The facade passes them through and documents them. See docs/platform.md#7-resources.
"""

from __future__ import annotations

from integration.catalogue.rows import ModuleOperations
from integration.catalogue.shapes import Field, Operation

_AUTHENTICATION = ModuleOperations("authentication")
_HISTORY = ModuleOperations("history")
_SETTINGS = ModuleOperations("settings")
_STORAGE = ModuleOperations("storage")

UNDOCUMENTED_OPERATIONS = (
    _SETTINGS.change(
        "/queues/{id}",
        "Logs agents in or out of a queue.",
        "queue",
        body=(Field("users", "array", "objects {id, status}", members=("id", "status")),),
    ),
    _AUTHENTICATION.list("/apitokens", "The caller's API tokens."),
    _AUTHENTICATION.create(
        "/apitokens",
        "Creates an API token.",
        None,
        body=(Field("name", "string", required=True), Field("expiry", "integer", "seconds without use")),
    ),
    _AUTHENTICATION.delete("/apitokens/{token}", "Revokes a token.", errors=(401, 404)),
    _STORAGE.read("/faxes/{id}", "One fax.", "fax"),
    _STORAGE.download("/faxes/{id}.pdf", "The fax."),
    _HISTORY.list("/transactions", "Payments."),
    _HISTORY.read("/transactions/{id}", "One payment."),
    Operation(
        "history",
        "GET",
        "/transactions/{id}.pdf",
        "unknown",
        "The invoice, as base64 in JSON.",
        errors=(400, 401, 403, 404),
    ),
    _HISTORY.list("/conversations", "Conversations of all channels."),
)
