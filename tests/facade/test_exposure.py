from __future__ import annotations

from integration.catalogue import OPERATIONS
from integration.facade.exposure import EXPOSURE, Exposure


def test_every_operation_of_the_specification_has_an_explicit_entry() -> None:
    assert len(EXPOSURE) == 165
    assert set(EXPOSURE) == {operation.name for operation in OPERATIONS}


def test_public_operations_are_those_without_credentials() -> None:
    public = {name for name, exposure in EXPOSURE.items() if exposure is Exposure.PUBLIC}
    assert public == {operation.name for operation in OPERATIONS if operation.is_public}


def test_deletions_of_collections_and_of_the_account_are_destructive() -> None:
    destructive = {name for name, exposure in EXPOSURE.items() if exposure is Exposure.DESTRUCTIVE}
    assert destructive == {
        "DELETE /sms",
        "DELETE /chatmsgs",
        "DELETE /cdrs",
        "DELETE /monitors",
        "DELETE /statements",
        "DELETE /voicemessages",
        "DELETE /customers/{id}",
    }
