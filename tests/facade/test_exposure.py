from __future__ import annotations

from integration.facade.exposure import EXPOSURE, Exposure


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
