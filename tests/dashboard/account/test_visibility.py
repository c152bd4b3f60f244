"""Visible collections by role, records by `agents_see`, exports by right."""

from __future__ import annotations

import pytest

from integration.dashboard.account.sections import SECTIONS
from tests.dashboard.account.test_collection import keys, names
from tests.support.page_text import text
from tests.support.payloads.account_records import AT, LISTED, Filling, complete_record, path_of
from tests.support.people import BOB, CAROL, ERIN, Member

pytestmark = pytest.mark.exhaustive

OPEN_TO_AGENTS = {
    "users", "contacts", "usergroups", "pickupgroups", "ddis", "queues", "ringgroups", "queuegroups", "cdrs",
    "calls", "monitors", "voicemessages", "sms", "faxes", "calllabels", "sms/cannedresponses",
}  # fmt: skip


@pytest.mark.parametrize("role", ["viewer", "agent", "supervisor", "admin"])
def test_each_role_opens_its_collections_and_gets_403_for_others(app, fill, role):
    for of in LISTED:
        fill(of.collection, complete_record(of))
    client = app.log_in(Member("ann@example.com", role))
    everything = role in ("supervisor", "admin")
    for of in LISTED:
        expected = 200 if everything or of.collection in OPEN_TO_AGENTS else 403
        for path in (f"/account/{of.collection}", path_of(of), f"/account/{of.collection}?q=x"):
            assert client.get(path).status_code == expected, (role, path)
    overview = client.get("/account").text
    for collection in SECTIONS:
        assert (f'href="/account/{collection}"' in overview) == (everything or collection in OPEN_TO_AGENTS)


@pytest.fixture
def colleague(fill):
    fill(
        "users",
        {"id": 1, "first_name": "Ada", "last_name": "Marlow", "ext": "1001", "mobile": "447700900123"},
    )
    fill.item(
        "users",
        {
            "id": 1,
            "first_name": "Ada",
            "last_name": "Marlow",
            "fm_targets": ["447700900124"],
            "secretly": "homeward",
        },
    )


def test_agents_see_no_personal_settings_or_raw_records_of_colleagues(app, colleague):
    agent, supervisor = app.log_in(ERIN), app.log_in(BOB)
    assert "07700 900123" in text(supervisor.get("/account/users/1"))
    assert "07700 900124" in text(supervisor.get("/account/users/1"))
    assert "homeward" in supervisor.get("/account/users/1").text
    page = agent.get("/account/users/1")
    assert "Ada Marlow" in text(page)
    for hidden in ("900123", "900124", "homeward", "Raw record"):
        assert hidden not in page.text, hidden
        assert hidden not in agent.get("/account/users?columns=mobile,fm_targets").text


def test_agents_cannot_search_filter_or_sort_by_hidden_fields(app, colleague):
    agent, supervisor = app.log_in(ERIN), app.log_in(BOB)
    for q in ("900123", "900124", "homeward"):
        assert names(supervisor.get(f"/account/users?q={q}")) == ["Ada Marlow"], q
        assert names(agent.get(f"/account/users?q={q}")) == [], q
    for query in (
        'filter=[{"property":"mobile","operator":"like","value":"9001"}]',
        "sort=mobile",
        'filter=[{"property":"fm_targets","operator":"ne","value":null}]',
    ):
        assert agent.get(f"/account/users?{query}").status_code == 400, query


def test_fields_of_own_paths_are_columns_and_filters_for_those_who_see_them(app, colleague):
    agent, supervisor = app.log_in(ERIN), app.log_in(BOB)
    page = supervisor.get("/account/users?columns=fm_targets,secretly&sort=secretly")
    assert "07700 900124" in text(page)
    assert "homeward" in text(page)
    assert 'value="fm_targets"' in page.text
    for condition, found in (
        ('"secretly","operator":"eq","value":"homeward"', ["Ada Marlow"]),
        ('"secretly","operator":"eq","value":"other"', []),
        ('"fm_targets","operator":"like","value":"900124"', ["Ada Marlow"]),
    ):
        path = f'/account/users?filter=[{{"property":{condition}}}]'
        assert names(supervisor.get(path)) == found, path
        assert agent.get(path).status_code == 400, path
    assert "homeward" not in agent.get("/account/users?columns=secretly").text
    offered = supervisor.get("/export/users").text
    for name in ("fm_targets", "secretly"):
        assert f'value="{name}"' in offered, name
    assert 'value="vm_pin"' not in supervisor.get("/account/users").text


def test_a_name_is_a_link_only_if_the_role_may_open_it(app, fill):
    fill("ivrs", {"id": 5, "name": "Main menu"})
    fill("queues", {"id": 80101, "name": "Service", "post_call_ivr_id": 5})
    assert 'href="/account/ivrs/5"' in app.log_in(BOB).get("/account/queues/80101").text
    page = app.log_in(ERIN).get("/account/queues/80101")
    assert "Main menu" in page.text
    assert "/account/ivrs" not in page.text


def test_agents_limited_to_own_calls_see_only_own_records(own_calls_only):
    fill = Filling(own_calls_only)
    fill(
        "users",
        {"id": 1, "first_name": "Ada", "last_name": "M", "ext": "1001"},
        {"id": 2, "first_name": "Ben"},
    )
    record = {"calldate": AT, "created_at": AT, "timestamp": AT, "origtime": AT}
    for collection in ("cdrs", "monitors", "sms"):
        fill(collection, {"id": 11, "user_id": 1, **record}, {"id": 12, "user_id": 2, **record})
    fill(
        "voicemessages",
        {"id": 11, "extension_id": 1001, **record},
        {"id": 12, "extension_id": 1002, **record},
    )
    fill("faxes", {"id": 11, **record})
    agent, supervisor = (
        own_calls_only.log_in(CAROL.as_user(1)),
        own_calls_only.log_in(BOB),
    )
    for collection in ("cdrs", "monitors", "sms", "voicemessages"):
        assert keys(agent.get(f"/account/{collection}")) == [11], collection
        assert sorted(keys(supervisor.get(f"/account/{collection}"))) == [11, 12], collection
        assert agent.get(f"/account/{collection}/11").status_code == 200
        assert agent.get(f"/account/{collection}/12").status_code == 404, collection
    fill("voicemessages", {"id": 13, "extension_id": 1, **record}, {"id": 14, "extension_id": 2, **record})
    voicemail = agent.get("/voicemail").text
    assert sorted(keys(agent.get("/account/voicemessages"))) == [11, 13]
    assert [number for number in range(11, 15) if f"/voicemail/{number}.mp3" in voicemail] == [11, 13]
    assert agent.get("/account/faxes").status_code == 403
    assert agent.get("/account/calls").status_code == 403
    assert names(agent.get("/account/users")) == ["Ada M", "Ben"]


def test_agents_limited_to_own_calls_see_no_counts_of_other_users(own_calls_only):
    fill = Filling(own_calls_only)
    fill("users", {"id": 1, "first_name": "Ada"}, {"id": 2, "first_name": "Ben"})
    fill("cdrs", *({"id": number, "user_id": 2, "calldate": AT} for number in range(1, 6)))
    agent = own_calls_only.log_in(CAROL.as_user(1))
    assert "Call detail records" not in text(agent.get("/account/users/2"))
    assert "5 records" not in text(agent.get("/account/cdrs"))
