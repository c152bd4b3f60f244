"""Source of the response to each operation of the specification, for the facade.

It follows from the method and the kind of response in the catalogue, except for `_EXCEPTIONS`.
"""

from __future__ import annotations

from enum import Enum

from integration.catalogue import OPERATIONS
from integration.catalogue.shapes import Operation


class Exposure(Enum):
    """Source of the response to an operation.

    The value is the description in command `catalogue`.
    """

    MIRROR = "served from the mirror"
    READ_THROUGH = "requested from the platform each time"
    WRITE_THROUGH = "sent to the platform, then stored in the mirror"
    DESTRUCTIVE = "sent to the platform, only with facade.destructive"
    FILE = "served from the archive, downloaded and stored if missing"
    PUBLIC = "passed to the platform without credentials"
    LOCAL = "handled by Switchroom"


_EXCEPTIONS = {
    "POST /logout": Exposure.LOCAL,
    "GET /ping": Exposure.LOCAL,
    "GET /calls/{id}/trace": Exposure.READ_THROUGH,
    "GET /callmeback/buttons/{id}": Exposure.READ_THROUGH,
    "DELETE /customers/{id}": Exposure.DESTRUCTIVE,
}


def _find_exposure(operation: Operation) -> Exposure:
    if operation.name in _EXCEPTIONS:
        return _EXCEPTIONS[operation.name]
    if operation.is_public:
        return Exposure.PUBLIC
    if operation.method == "GET":
        return Exposure.FILE if operation.response_kind == "file" else Exposure.MIRROR
    if operation.method == "DELETE" and not operation.parameters:
        return Exposure.DESTRUCTIVE
    return Exposure.WRITE_THROUGH


EXPOSURE = {
    **{operation.name: _find_exposure(operation) for operation in OPERATIONS},
    # The specification lacks it. Other such operations are passed through.
    "GET /faxes/{id}.pdf": Exposure.FILE,
}

UNDOCUMENTED_METHODS = frozenset({("PATCH", "queues")})
"""Undocumented (method, first path segment) pairs on documented paths, passed through.

Real clients use them (docs/platform.md#16-clients, the queue script)."""
