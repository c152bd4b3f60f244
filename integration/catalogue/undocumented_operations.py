"""What real clients use although the specification lacks it (observed.md §7): passed through, documented."""

from __future__ import annotations

from integration.catalogue.shapes import Field, Operation

UNDOCUMENTED_OPERATIONS = (
    Operation("settings", "PATCH", "/queues/{id}", "item", "Logs agents in or out of a queue.", "queue",
              errors=(400, 401, 403, 404), body=(Field("users", "array", "objects {id, status}"),)),
    Operation("authentication", "GET", "/apitokens", "collection", "The caller's API tokens."),
    Operation("authentication", "POST", "/apitokens", "item", "Makes an API token.", success=(201,),
              errors=(400, 401), body=(Field("name", "string", required=True),
                                       Field("expiry", "integer", "seconds without use"))),
    Operation("authentication", "DELETE", "/apitokens/{token}", "none", "Destroys a token.", success=(204,),
              errors=(401, 404)),
    Operation("storage", "GET", "/faxes/{id}", "item", "One fax.", "fax", errors=(401, 403, 404)),
    Operation("storage", "GET", "/faxes/{id}.pdf", "file", "The fax.", errors=(401, 403, 404)),
    Operation("history", "GET", "/transactions", "collection", "Payments."),
    Operation("history", "GET", "/transactions/{id}", "item", "One payment.", errors=(401, 403, 404)),
    Operation("history", "GET", "/transactions/{id}.pdf", "unknown", "The invoice, as base64 in JSON.",
              errors=(400, 401, 403, 404)),
    Operation("history", "GET", "/conversations", "collection", "Conversations of all channels."),
)  # fmt: skip
