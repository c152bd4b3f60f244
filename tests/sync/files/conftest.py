import pytest

from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync


@pytest.fixture
def recording(simulated):
    """Id of the only recording on the platform and in the mirror."""
    played = simulated.play("plain_answered")
    for number in list(simulated.records("monitors")):
        if number != played["monitor_ids"][0]:
            del simulated.records("monitors")[number]
    run_full_sync(simulated.context, PLAN["monitors"])
    return played["monitor_ids"][0]
