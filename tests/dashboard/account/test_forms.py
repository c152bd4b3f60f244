"""Forms of the account in front of a simulated platform: page, platform and mirror agree."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from integration.dashboard.account.editable import RULES, find_write
from tests.support.applications.account_office import run_account_office
from tests.support.page_text import text
from tests.support.people import BOB, ERIN, Member

ADMIN = Member("root@example.com", "admin")
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    with run_account_office(tmp_path_factory.mktemp("office") / "data") as office:
        yield office


@pytest.fixture(scope="module")
def admin(office):
    return office.log_in(ADMIN)


def add(client, collection: str, **fields) -> str:
    """Create a record by its form; return the path of its page."""
    answer = client.post(f"/account/{collection}", **fields)
    assert answer.status_code == 200, text(answer)
    return answer.url.removeprefix(client.url)


def form_values(page: str) -> dict[str, list[str]]:
    """Entries that a browser would send with the form unchanged."""
    form = next(one for one in re.findall(r"<form.*?</form>", page, re.DOTALL) if 'name="version"' in one)
    values: dict[str, list[str]] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and not ('type="checkbox"' in tag and "checked" not in tag):
            values.setdefault(name[1], []).append(unescape(value[1]) if value else "")
    for name, value in re.findall(r'<textarea name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        values[name] = [unescape(value)]
    for name, body in re.findall(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)" selected', body) or re.search(r'value="([^"]*)"', body)
        values[name] = [unescape(chosen[1])]
    return values


CREATED = {
    "conferences": ({"name": "Board", "ann_join_leave": "0", "monitor": "1"},
                    {"name": "Board", "ann_join_leave": False, "monitor": True}),
    "usergroups": ({"name": "Drivers", "color": "#112233"}, {"name": "Drivers", "color": "#112233"}),
    "callmeback/settings": (
        {"name": "Shop window", "position": "left", "floating_icon": "1", "ddi_e164": "442079460100",
         "max_call_rate": "0,25", "allowed_countries": "GB, IE", "button_id": "2001"},
        {"name": "Shop window", "position": 1, "floating_icon": True, "max_call_rate": 0.25,
         "allowed_countries": "GB, IE", "button_id": 2001},
    ),
    "reportschedules": (
        {"name": "Weekly", "report_id": "1", "emails": "ann@example.com\r\n\r\nbob@example.com",
         "format": "csv", "status": "A", "start_at": "2026-12-01", "frequency type": "W",
         "frequency time_of_day": "8, 14", "frequency day_of_week": "1,5", "frequency day_of_month": ""},
        {"name": "Weekly", "report_id": 1, "emails": "ann@example.com,bob@example.com", "format": "csv",
         "start_at": "2026-12-01 00:00:00",
         "frequency": '{"type":"W","time_of_day":[8,14],"day_of_week":[1,5],"day_of_month":[]}'},
    ),
    "routingrules": (
        {"direction": "I", "action": "block", "source": ["07700 900666", "020 7946 0999"],
         "destination": [""], "time_interval": "1\n2", "pos": "9"},
        {"direction": "I", "action": "block", "source": "447700900666,442079460999", "time_interval": "1,2",
         "pos": 9},
    ),
    "calltracking/campaigns": (
        {"name": "Posters", "url": "https://example.com/p", "rules source": ["street", ""],
         "rules ddi": ["442079460100", ""]},
        {"name": "Posters", "url": "https://example.com/p",
         "rules": [{"source": "street", "ddi": "442079460100"}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("collection", CREATED)
def test_a_new_record_is_equal_on_the_platform_in_its_list_and_in_the_mirror(office, admin, collection):
    entries, expected = CREATED[collection]
    path = add(admin, collection, **entries)
    assert re.fullmatch(rf"/account/{collection}/\d+", path)
    for record in office.listed(path):
        assert {name: record[name] for name in expected} == expected


def test_every_form_opens_and_an_unchanged_form_sends_nothing(office, admin):
    opened = 0
    for collection in RULES:
        if find_write(collection, "create") is not None:
            assert admin.get(f"/account/{collection}?edit=1").status_code == 200, collection
        if find_write(collection, "change") is None or collection in ("callmeback/buttons", "cdrs"):
            continue
        number = office.first_id(collection)
        page = admin.get(f"/account/{collection}/{number}?edit=1")
        assert page.status_code == 200, collection
        sent = len(office.sent("PATCH", f"/{collection}/{number}"))
        sent_together = len(office.sent("PATCH", f"/{collection}"))
        assert admin.post(f"/account/{collection}/{number}", **form_values(page.text)).status_code == 200
        assert len(office.sent("PATCH", f"/{collection}/{number}")) == sent, collection
        assert len(office.sent("PATCH", f"/{collection}")) == sent_together, collection
        opened += 1
    # Every collection with a PATCH of its records, or of users in bulk, except the buttons.
    assert opened == 15
    rule = office.first_id("routingrules")
    pages = [admin.get(f"/account/routingrules{path}?edit=1").text for path in ("", f"/{rule}")]
    assert ['name="direction"' in page for page in pages] == [True, False], "only a new rule has the field"


def test_a_ring_group_gets_its_members_in_order_numbers_and_destination(office, admin):
    users = office.list_records("users")[:3]
    ids = [str(user["id"]) for user in users]
    ivr = office.first_id("ivrs")
    path = add(
        admin, "ringgroups", name="Order desk", users=ids, strategy="H", ring_time="15",
        final_dst_id=f"I:{ivr}", ddis=["442079460105"],
    )  # fmt: skip
    first = office.on_platform(path.removeprefix("/account") + "?include=users,ddis")
    assert [user["id"] for user in first["users"]] == [int(one) for one in ids]
    assert (first["final_dst_type"], first["final_dst_id"], first["strategy"]) == ("I", ivr, "H")
    values = form_values(admin.get(f"{path}?edit=1").text)
    assert values["users"] == ids
    assert values[f"users place {ids[2]}"] == ["3"]
    admin.post(path, **{**values, "name": "Orders", f"users place {ids[2]}": "2"})
    record = office.on_platform(path.removeprefix("/account"))
    assert (record["name"], record["users"]) == ("Orders", [int(ids[0]), int(ids[2]), int(ids[1])])
    values = form_values(admin.get(f"{path}?edit=1").text)
    admin.post(path, **{**values, "users": ids[1:]})
    assert office.on_platform(path.removeprefix("/account"))["users"] == [int(ids[2]), int(ids[1])]
    (row,) = office.rows("SELECT _item FROM ringgroups WHERE id = ?", path.rpartition("/")[2])
    assert json.loads(row[0])["users"] == [int(ids[2]), int(ids[1])]


def test_a_record_is_deleted_only_after_its_name_was_typed(office, admin):
    path = add(admin, "conferences", name="Old round")
    refused = admin.post(path, drop="1", confirm="Old")
    assert refused.status_code == 400
    assert "Type “Old round” to confirm." in text(refused)
    assert '<details class="sure narrow block" open>' in refused.text
    assert office.sent("DELETE", path.removeprefix("/account")) == []
    answer = admin.post(path, drop="1", confirm=" old  Round ")
    assert answer.url.endswith("/account/conferences")
    assert office.sent("DELETE", path.removeprefix("/account"))[-1] == 204
    assert "Old round" not in admin.get("/account/conferences").text


def test_numbers_that_are_none_are_refused_before_anything_is_sent(office, admin):
    sent = len(office.sent("POST", "/callmeback/settings"))
    answer = admin.post("/account/callmeback/settings", name="x", max_call_rate="much", button_id="2001a")
    assert answer.status_code == 400
    assert "Highest call rate must be a number, such as 0.15." in text(answer) or "must be a number" in text(
        answer
    )
    assert "Button must be a whole number." in text(answer)
    assert len(office.sent("POST", "/callmeback/settings")) == sent


def test_a_pin_is_never_shown_and_only_a_new_one_is_sent(office, admin):
    path = add(admin, "conferences", name="Quiet", pin="4321")
    page = admin.get(f"{path}?edit=1").text
    assert "4321" not in page
    admin.post(path, **form_values(page) | {"name": "Quieter"})
    assert office.on_platform(path.removeprefix("/account"))["pin"] == "4321"
    admin.post(path, **form_values(page) | {"name": "Quieter", "pin": "8765"})
    assert office.on_platform(path.removeprefix("/account"))["pin"] == "8765"
    assert "8765" not in admin.get("/system/journal").text


def test_an_announcement_is_uploaded_and_listened_to(office, admin):
    user = office.first_id("users")
    path = add(
        admin, "vmannouncements", description="Closed for the holiday", extension_id=str(user),
        files={"data": ("closed.wav", WAV)},
    )  # fmt: skip
    assert office.on_platform(path.removeprefix("/account"))["extension"] == user
    page = admin.get(path).text
    assert f'<audio controls preload="none" src="{path}/audio">' in page
    audio = admin.get(f"{path}/audio")
    assert (audio.content, audio.headers["Content-Type"]) == (WAV, "audio/wav")
    part = admin.get(f"{path}/audio", headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"RIFF")
    refused = admin.post(
        "/account/vmannouncements", extension_id=str(user), files={"data": ("a.txt", b"text")}
    )
    assert refused.status_code == 400
    assert re.search(r'name="data"[^>]*aria-invalid="true"', refused.text)
    admin.post(path, drop="1", confirm="Closed for the holiday")
    assert admin.get(f"{path}/audio").status_code == 404


def test_users_are_changed_one_by_one_and_several_at_once(office, admin):
    users = [one["id"] for one in office.list_records("users")][1:4]
    path = f"/account/users/{users[0]}"
    assert "doesn’t return the current value" in text(admin.get(f"{path}?edit=1"))
    admin.post(path, location_id="7", groups=["75002"])
    assert office.sent("PATCH", "/users")[-1] == 200
    assert str(office.on_platform(f"/users/{users[0]}")["location_id"]) == "7"
    listing = admin.get("/account/users").text
    assert f'form="together" name="id" value="{users[1]}"' in listing
    together = admin.get(f"/account/users?edit=many&id={users[1]}&id={users[2]}").text
    assert re.findall(r'name="id" value="(\d+)" checked', together) == [str(one) for one in users[1:]]
    admin.post("/account/users", edit="many", id=[str(one) for one in users[1:]], location_id="8")
    for user in users[1:]:
        assert str(office.on_platform(f"/users/{user}")["location_id"]) == "8"
    nothing = admin.post("/account/users", edit="many", id=[str(users[1])])
    assert nothing.status_code == 400


def test_numbers_are_assigned_to_a_campaign(office, admin):
    admin.post("/account/calltracking/ddis", e164=["442079460102", "442079460103"], campaign_id="81002")
    assigned = {one["e164"]: one["campaign_id"] for one in office.list_records("calltracking/ddis")}
    assert (assigned["442079460102"], assigned["442079460103"]) == (81002, 81002)
    assert admin.post("/account/calltracking/ddis", campaign_id="81002").status_code == 400


def test_a_button_is_changed_from_its_widget_and_deleted_by_name(office, admin):
    page = admin.get("/account/callmeback/settings/1501").text
    assert 'href="/account/callmeback/buttons/2001?edit=1"' in page
    admin.post("/account/callmeback/buttons/2001", data_online="Ring me", name="Round, blue")
    assert office.on_platform("/callmeback/buttons/2001")["data_online"] == "Ring me"
    answer = admin.post("/account/callmeback/buttons", name="Square", data_online="Call", data_offline="Mail")
    assert answer.url.endswith("/account/callmeback/settings")
    new = 2011
    assert office.on_platform(f"/callmeback/buttons/{new}")["name"] == "Square"
    assert admin.post(f"/account/callmeback/buttons/{new}", drop="1", confirm="Square").status_code == 200
    assert admin.get(f"/account/callmeback/buttons/{new}?edit=1").status_code == 404


def test_webcalls_and_calls_with_an_announcement_are_placed(office, admin):
    answer = admin.post("/account/webcalls", **{"from": "020 7946 0105", "to": "07700 900123"})
    assert answer.status_code == 200, text(answer)
    assert office.sent("POST", "/webcalls")[-1] == 201
    answer = admin.post(
        "/account/calls", caller_id="442079460100", to="07700 900124", tts="Your taxi is here."
    )
    assert answer.status_code == 200, text(answer)
    assert office.sent("POST", "/leadcalls")[-1] == 201


def test_of_two_users_who_edit_a_contact_the_later_sees_what_both_changed(office):
    first, second = office.log_in(BOB), office.log_in(ERIN)
    fields = {"first_name": "Cora", "last_name": "Sample", "tel": "020 7946 0123", "notes": "One\r\nTwo"}
    contact = first.post("/contacts", **fields).url.removeprefix(first.url)

    def read() -> dict[str, list[str]]:
        values = form_values(first.get(contact).text)
        return values | {"notes": [values["notes"][0].replace("\n", "\r\n")]}

    shown = read()
    first.post(contact, **shown | {"last_name": "Lind", "company": "Example Ltd"})
    second.post(contact, **shown | {"email": "cora@example.com"})
    saved = [read()[name][0] for name in ("last_name", "company", "email", "notes")]
    assert saved == ["Lind", "Example Ltd", "cora@example.com", "One\r\nTwo"]
    sent = office.sent("PATCH", contact)
    second.post(contact, **read())
    assert office.sent("PATCH", contact) == sent

    refused = second.post(contact, **shown | {"last_name": "Moss"})
    assert refused.status_code == 409
    assert "another user changed this while you were editing" in text(refused)
    assert "Now saved: “Lind”" in text(refused)
    assert form_values(refused.text)["last_name"] == ["Moss"]
    assert form_values(refused.text)["company"] == ["Example Ltd"]
    assert read()["last_name"] == ["Lind"]
    second.post(contact, **form_values(refused.text))
    assert (read()["last_name"], read()["company"]) == (["Moss"], ["Example Ltd"])


def test_a_voice_message_and_a_user_are_deleted_only_by_administrators(office, admin):
    number = office.first_id("voicemessages")
    assert office.log_in(BOB).get(f"/account/voicemessages/{number}?edit=1").status_code == 403
    assert admin.post(f"/account/voicemessages/{number}", drop="1", confirm=str(number)).status_code == 200
    assert office.context.platform.get(f"/voicemessages/{number}", check=False).status == 404
    user = office.list_records("users")[-1]
    name = f"{user['first_name']} {user['last_name']}"
    assert admin.post(f"/account/users/{user['id']}", reset_audio="1", confirm=name).status_code == 200
    assert admin.post(f"/account/users/{user['id']}", drop="1", confirm=name).status_code == 200
    assert office.context.platform.get(f"/users/{user['id']}", check=False).status == 404


def test_a_queue_is_created_with_its_agents_and_its_destination(office, admin):
    first, second = [one["id"] for one in office.list_records("users")][:2]
    entries = {
        f"users {first}": "in",
        f"users {second}": "out",
        "final_dst_id": f"V:{second}",
        "join_empty": "1",
    }
    path = add(admin, "queues", name="Returns", ring_strategy="A", max_wait_time="120", **entries)
    record = office.on_platform(path.removeprefix("/account") + "?include=users")
    assert {user["id"]: user["status"] for user in record["users"]} == {first: True, second: False}
    assert (record["final_dst_type"], record["final_dst_id"]) == ("V", second)
    assert (record["name"], record["max_wait_time"], record["join_empty"]) == ("Returns", 120, True)
    assert "logged out" in admin.get(f"{path}?edit=1").text
    admin.post(path, **{f"users {first}": "out", f"users {second}": "in"})
    record = office.on_platform(path.removeprefix("/account") + "?include=users")
    assert {user["id"]: user["status"] for user in record["users"]} == {first: False, second: True}


def test_the_numbers_of_a_conference_are_those_that_the_platform_routes_to_it(office, admin):
    path = add(admin, "conferences", name="Suppliers 2", ddis=["442079460107"])
    values = form_values(admin.get(f"{path}?edit=1").text)
    assert values["ddis"] == ["442079460107"]
    admin.post(path, **values | {"ddis": ["442079460107", "442079460106"]})
    assert sorted(form_values(admin.get(f"{path}?edit=1").text)["ddis"]) == ["442079460106", "442079460107"]
