"""Who may call, as what, and how long that is believed."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from integration.access import authenticator as auth
from integration.access import keys
from integration.core import clock
from tests.facade.conftest import ADMIN, OTHER, UNTOLD, USER, Room, sample, says

CDR = sample("response-cdrs-list-200")["data"][0]


def basic(user: object, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`later(seconds)` moves the clock on."""
    real, moved = clock.unix, [0.0]
    monkeypatch.setattr(clock, "unix", lambda: real() + moved[0])

    def later(seconds: float) -> None:
        moved[0] += seconds

    return later


def test_a_local_key_is_good_as_basic_and_as_token(room: Room) -> None:
    user, secret = keys.add(room.people, "both", "read")
    assert room.get("/ping", basic(user, secret)).json["data"] == {"response": "Pong"}
    assert room.get("/ping", {"X-Auth-Token": secret}).json["message"] == "Pong"
    assert room.get("/ping", basic(user + 1, secret)).status_code == 401
    keys.revoke(room.people, "both")
    assert room.get("/ping", basic(user, secret)).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer " + ADMIN}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"no colon").decode()}, 400),
        ({"Authorization": "Basic ###"}, 400),
        ({"Authorization": "Basic \xe9"}, 400),
        ({"X-Auth-Token": "f" * 40}, 401),
        (basic(1000009, "f" * 40), 401),
    ],
)
def test_anything_else_is_refused_in_the_platforms_words(
    room: Room, headers: dict[str, str], status: int
) -> None:
    answer = room.get("/cdrs", headers)
    assert answer.status_code == status
    assert answer.json["errors"] == []
    if status == 400:
        assert answer.json == sample("response-auth-header-400")


def test_credentials_are_checked_before_a_body_is_read(room: Room) -> None:
    class Untouchable:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

        readline = readlines = __iter__ = read

    unread = {"wsgi.input": Untouchable(), "CONTENT_LENGTH": "100000"}
    answer = room.client.post(f"{room.base}/sms", environ_overrides=unread)
    assert answer.status_code == 401


def test_an_administrator_reads_the_mirror_and_is_asked_about_once(room: Room) -> None:
    room.put("cdrs", CDR)
    room.put("me", sample("response-me-200")["data"])
    for headers in ({"X-Auth-Token": ADMIN}, basic(1000009, ADMIN), basic("root@example.com", ADMIN)):
        assert room.get("/cdrs", headers).json["total"] == 1
    assert room.asked("/me") == 1
    assert room.asked("/cdrs") == 0


@pytest.mark.parametrize("mirrored", [True, False])
def test_another_customers_administrator_reads_and_writes_nothing_here(room: Room, mirrored: bool) -> None:
    room.put("cdrs", CDR)
    if mirrored:
        room.put("me", sample("response-me-200")["data"])
    for _ in range(2):
        assert room.get("/cdrs", {"X-Auth-Token": OTHER}).status_code == 403
    assert room.client.post(f"{room.base}/sms", headers={"X-Auth-Token": OTHER}, json={}).status_code == 403
    assert room.asked("/cdrs") == room.asked("/sms") == 0


def test_an_administrator_of_nobody_knows_whom_reads_the_mirror_once_they_are_one_of_our_users(
    room: Room,
) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    assert room.get("/cdrs", {"X-Auth-Token": UNTOLD}).json["total"] == 0
    room.put("users", {"id": 1000056, "email": "una@example.com"})
    assert room.get("/cdrs", {"X-Auth-Token": UNTOLD}).json["total"] == 1


def test_a_known_secret_is_no_good_under_another_name(room: Room) -> None:
    assert room.get("/ping", basic(1000009, ADMIN)).status_code == 200
    assert room.get("/ping", basic(1000002, ADMIN)).status_code == 401
    assert room.get("/ping", basic("bob@example.com", ADMIN)).status_code == 401
    assert room.get("/ping", basic(1000009, ADMIN)).status_code == 200


def test_the_configured_account_is_an_administrator(room: Room) -> None:
    room.put("cdrs", CDR)
    assert room.get("/cdrs", basic(1000001, "a" * 40)).headers["X-Mirror-Complete"] == "true"


def test_another_users_requests_are_passed_through_with_their_own_credentials(room: Room) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    answer = room.get("/cdrs?limit=5", basic(1000002, USER))
    assert answer.json == {"data": [], "total": 0}
    assert "X-Mirror-Age" not in answer.headers
    sent = room.server.asked[-1].headers
    assert sent["Authorization"] == basic(1000002, USER)["Authorization"]
    assert "X-Auth-Token" not in sent


def test_a_credential_in_use_is_checked_every_five_minutes_by_ping(room: Room, later: Any) -> None:
    headers = {"X-Auth-Token": ADMIN}
    room.put("cdrs", CDR)
    for _ in range(3):
        later(120)
        assert room.get("/cdrs", headers).status_code == 200
    assert room.asked("/ping") == 0
    later(120)
    assert room.get("/cdrs", headers).status_code == 200
    assert room.get("/cdrs", headers).status_code == 200
    assert room.asked("/ping") == 1
    room.server.routes[f"{room.base}/ping"] = says({"message": "no", "errors": []}, 401)
    room.server.routes[f"{room.base}/me"] = says({"message": "no", "errors": []}, 401)
    later(301)
    assert room.get("/cdrs", headers).status_code == 401
    assert room.get("/cdrs", headers).status_code == 401


def test_who_is_no_administrator_any_more_reads_the_mirror_for_a_quarter_of_an_hour_at_most(
    room: Room, later: Any
) -> None:
    headers = {"X-Auth-Token": ADMIN}
    room.put("cdrs", CDR)
    assert room.get("/cdrs", headers).json["total"] == 1
    now = {"id": 1000009, "customer_id": 100001, "email": "root@example.com", "is_root": False}
    room.server.routes[f"{room.base}/me"] = says({"data": now, "links": {}})
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    totals = []
    for _ in range(3):
        later(auth.RECHECK_SECONDS + 1)
        totals.append(room.get("/cdrs", headers).json["total"])
    assert totals == [1, 1, 0]
    assert room.asked("/ping") == 2


def test_a_checked_credential_reads_on_while_the_platform_is_away_but_writes_nothing(
    room: Room, later: Any
) -> None:
    headers = {"X-Auth-Token": ADMIN}
    room.put("cdrs", CDR)
    assert room.get("/cdrs", headers).status_code == 200
    room.away()
    later(3600)
    assert room.get("/cdrs", headers).status_code == 200
    assert room.client.post(f"{room.base}/sms", json={}, headers=headers).status_code == 502
    later(86400)
    assert room.get("/cdrs", headers).status_code == 502


def test_unknown_credentials_are_502_while_the_platform_is_away(room: Room) -> None:
    room.away()
    for _ in range(15):
        assert room.get("/cdrs", {"X-Auth-Token": ADMIN}).status_code == 502


def test_guesses_are_counted_and_stopped(room: Room) -> None:
    answers = [room.get("/cdrs", basic(1000009, f"{n:040x}")).status_code for n in range(12)]
    assert answers == [401] * 10 + [429] * 2
    stopped = room.get("/cdrs", basic(1000009, ADMIN))
    assert stopped.status_code == 429
    assert int(stopped.headers["Retry-After"]) >= 1


def test_a_login_passes_through_and_its_token_is_known(room: Room, later: Any) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/login"] = says(
        {"message": "ok", "user_token": ADMIN, "user_id": 1000009}
    )
    body = {"email": "root@example.com", "password": "invented"}
    answer = room.client.post(f"{room.base}/login", json=body)
    assert answer.json["user_token"] == ADMIN
    sent = room.server.asked[-1]
    assert sent.body == b'{"email": "root@example.com", "password": "invented"}'
    assert "X-Auth-Token" not in sent.headers
    assert "Authorization" not in sent.headers
    headers = {"X-Auth-Token": ADMIN}
    assert room.get("/cdrs", headers).json["total"] == 1
    later(850)
    assert room.get("/cdrs", headers).status_code == 200
    later(850)
    assert room.get("/cdrs", headers).status_code == 200
    later(901)
    assert room.get("/cdrs", headers).status_code == 401
    assert room.get("/cdrs", headers).status_code == 401


def test_a_refused_login_is_passed_on_and_counted(room: Room) -> None:
    room.server.routes[f"{room.base}/login"] = says(sample("response-login-400"), 400)
    body = {"email": "ann@example.com", "password": "wrong"}
    answers = [room.client.post(f"{room.base}/login", json=body) for _ in range(11)]
    assert answers[0].json == sample("response-login-400")
    assert [answer.status_code for answer in answers] == [400] * 10 + [429]
    assert room.asked("/login") == 10


@pytest.mark.parametrize(("status", "left"), [(400, 1), (200, 0), (503, 0)])
def test_a_login_is_counted_before_the_platform_is_asked(room: Room, status: int, left: int) -> None:
    """Counted afterwards, as many guesses as there are threads would slip through side by side. What was no
    wrong guess is taken off the count again."""
    counted = []

    def count() -> int:
        with room.people.read() as connection:
            return int(connection.execute("SELECT count(*) FROM attempts").fetchone()[0])

    def answer(asked: Any, reply: Any) -> None:
        counted.append(count())
        reply.json({"message": "said"}, status)

    room.server.routes[f"{room.base}/login"] = answer
    room.client.post(f"{room.base}/login", json={"email": "ann@example.com", "password": "a guess"})
    assert counted == [1]
    assert count() == left


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/registrations/abc"), ("POST", "/password"), ("POST", "/registrations")]
)
def test_strangers_have_little_passed_on(room: Room, method: str, path: str) -> None:
    room.server.routes[room.base + path] = says({"message": "done"})
    answers = [
        room.client.open(room.base + path, method=method, json={} if method == "POST" else None).status_code
        for _ in range(12)
    ]
    assert answers == [200] * 10 + [429] * 2
    assert room.asked(path) == 10
    room.server.routes[f"{room.base}/login"] = says({"user_token": ADMIN, "user_id": 1000009})
    assert room.client.post(f"{room.base}/login", json={"email": "root@example.com"}).status_code == 200


def test_a_second_factor_is_asked_for_as_the_platform_does(room: Room) -> None:
    room.server.routes[f"{room.base}/login"] = says(sample("response-login-202-2fa"), 202)
    answer = room.client.post(f"{room.base}/login", json={"email": "a@example.com", "password": "x"})
    assert answer.status_code == 202
    assert answer.json == sample("response-login-202-2fa")


def test_logout_ends_the_token_at_once_even_if_the_platform_is_away(room: Room) -> None:
    headers = {"X-Auth-Token": ADMIN}
    assert room.get("/ping", headers).status_code == 200
    room.server.routes[f"{room.base}/logout"] = says({"message": "Bye"})
    assert room.client.post(f"{room.base}/logout", headers=headers).json == {"message": "Bye"}
    assert room.get("/ping", headers).status_code == 401


def test_a_deleted_api_token_ends_at_once(room: Room) -> None:
    other = {"X-Auth-Token": USER}
    assert room.get("/ping", other).status_code == 200
    room.server.routes[f"{room.base}/apitokens/{USER}"] = lambda asked, reply: reply.content(
        b"", "text/plain", 204
    )
    done = room.client.delete(f"{room.base}/apitokens/{USER}", headers={"X-Auth-Token": ADMIN})
    assert done.status_code == 204
    assert room.get("/ping", other).status_code == 401
    with room.people.read() as connection:
        for row in connection.execute("SELECT * FROM journal"):
            assert USER not in str(tuple(row))


def test_what_is_remembered_of_uses_does_not_grow_for_ever(
    room: Room, later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "USED_KEPT", 3)
    gatekeeper = auth.Gatekeeper(room.house)
    for number in range(9):
        gatekeeper._note_use(f"{number:040x}")
        later(auth.USED_EVERY)
    assert len(gatekeeper._used) <= 3


def test_secrets_are_stored_hashed(room: Room) -> None:
    room.get("/ping", {"X-Auth-Token": ADMIN})
    with room.people.read() as connection:
        for row in connection.execute("SELECT * FROM remembered"):
            assert ADMIN not in str(tuple(row))


class TestWithoutPlatformCredentials:
    @pytest.fixture
    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        settings["facade"]["platform_credentials"] = False
        return settings

    def test_only_local_keys_are_good(self, room: Room) -> None:
        assert room.get("/ping", {"X-Auth-Token": ADMIN}).status_code == 401
        assert room.get("/ping").status_code == 200
        assert room.asked("/me") == 0


class TestShorterTimes:
    @pytest.fixture
    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        settings["facade"] |= {"offline_grace": 1000, "session_idle": 60}
        return settings

    def test_reads_go_on_for_the_grace_that_is_set(self, room: Room, later: Any) -> None:
        headers = {"X-Auth-Token": ADMIN}
        room.put("cdrs", CDR)
        assert room.get("/cdrs", headers).status_code == 200
        room.away()
        later(950)
        assert room.get("/cdrs", headers).status_code == 200
        later(100)
        assert room.get("/cdrs", headers).status_code == 502

    def test_a_login_ends_after_the_idle_time_that_is_set(self, room: Room, later: Any) -> None:
        room.put("cdrs", CDR)
        room.server.routes[f"{room.base}/login"] = says({"user_token": ADMIN, "user_id": 1000009})
        room.client.post(f"{room.base}/login", json={"email": "root@example.com", "password": "invented"})
        headers = {"X-Auth-Token": ADMIN}
        later(50)
        assert room.get("/cdrs", headers).status_code == 200
        later(61)
        assert room.get("/cdrs", headers).status_code == 401


# --- rights of local keys ----------------------------------------------------------------------------


def test_a_read_key_reads_and_a_limited_one_only_its_collections(room: Room) -> None:
    room.put("cdrs", CDR)
    room.put("sms")
    limited = room.key("limited", collections=["cdrs"])
    assert room.get("/cdrs", limited).status_code == 200
    assert room.get(f"/cdrs/{CDR['id']}", limited).status_code == 200
    for path in ("/sms", "/me", "/users/1/cdrs", "/cdrs/calltracking", "/faxes/1", "/queues?include=users"):
        assert room.get(path, limited).status_code == 403, path
    assert room.client.post(f"{room.base}/sms", json={}, headers=room.headers).status_code == 403
    assert room.client.delete(f"{room.base}/nothing/1", headers=room.headers).status_code == 403


@pytest.mark.parametrize("path", ["/ringgroups", "/ringgroups/1", "/users/1/contacts", "/nothing"])
def test_a_limited_key_gets_no_other_collection_by_include(room: Room, path: str) -> None:
    """Neither from the mirror nor, where that can't tell, from the platform."""
    limited = room.key("limited", collections=["ringgroups", "users", "contacts", "nothing"])
    room.server.routes["*"] = says({"data": {"id": 1, "ddis": [{"id": 5}]}, "links": {}})
    answer = room.get(f"{path}?include=users,ddis&include=queues", limited | {"Cache-Control": "no-cache"})
    assert answer.status_code == 403
    assert room.server.asked == []


@pytest.mark.parametrize(
    "query",
    [
        'filter=[{"property":"vm_pin","operator":"like","value":"1%"}]',
        'filter=[]&filter=[{"property":"sip_password","operator":"eq","value":"x"}]',
        "sort=-vm_pin",
        "group_by=pin",
    ],
)
@pytest.mark.parametrize("path", ["/users", "/users/1/contacts"])
def test_a_local_key_has_the_platform_spell_no_secret_out(room: Room, path: str, query: str) -> None:
    answer = room.get(f"{path}?{query}", room.headers | {"Cache-Control": "no-cache"})
    assert answer.status_code == 400
    assert room.server.asked == []


def test_api_tokens_are_closed_to_local_keys(room: Room) -> None:
    writer = room.key("writer", "write")
    for path in ("/apitokens", "/APITokens/x", "/apitokens/x"):
        assert room.get(path, writer).status_code == 403
        assert room.client.delete(room.base + path, headers=writer).status_code == 403
    assert room.server.asked == []


def test_a_key_for_one_user_sees_that_users_records_only(room: Room) -> None:
    room.put("cdrs", {**CDR, "id": 1, "user_id": 7}, {**CDR, "id": 2, "user_id": 8})
    room.put("users", {"id": 7, "ext": "1007"}, {"id": 8, "ext": "1008"})
    room.put("voicemessages", {"id": 1, "extension_id": 1007}, {"id": 2, "extension_id": 1008})
    room.put(
        "contacts",
        {"id": 1, "user_id": 7, "global": False},
        {"id": 2, "user_id": 8, "global": False},
        {"id": 3, "user_id": 8, "global": True},
    )
    room.put("ddis", {"id": 1})
    mine = room.key("mine", user=7)

    def ids(path: str) -> list[int]:
        return [record["id"] for record in room.get(path, mine).json["data"]]

    assert ids("/cdrs") == [1]
    assert room.get("/cdrs", mine).json["total"] == 1
    assert (
        ids("/cdrs?filter=%5B%7B%22property%22:%22user_id%22,%22operator%22:%22eq%22,%22value%22:8%7D%5D")
        == []
    )
    assert ids("/voicemessages") == [1]
    assert ids("/contacts") == [1, 3]
    assert ids("/users") == [7]
    assert room.get("/cdrs/1", mine).status_code == 200
    assert room.get("/cdrs/2", mine).status_code == 403
    for path in (
        "/ddis",
        "/me",
        "/users/8",
        "/users/7/cdrs",
        "/cdrs/1.trace",
        "/faxes/1",
        "/users/8/cdrs.csv",
    ):
        assert room.get(path, mine).status_code == 403, path
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [CDR], "total": 1})
    assert ids("/cdrs") == [1]
    assert room.get("/cdrs", {**mine, "Cache-Control": "no-cache"}).json["total"] == 1
    assert room.asked("/cdrs") == 0


def test_a_key_for_one_user_is_not_told_empty_where_nothing_was_read(room: Room) -> None:
    mine = room.key("mine", user=7)
    unread = room.get("/cdrs", mine)
    assert (unread.status_code, unread.json["errors"]) == (503, [])
    assert int(unread.headers["Retry-After"]) > 0
    room.put("voicemessages", {"id": 1, "extension_id": 1007})
    assert room.get("/voicemessages", mine).status_code == 503
    room.put("users", {"id": 7, "ext": "1007"})
    assert room.get("/voicemessages", mine).json["total"] == 1
    room.put("cdrs")
    assert room.get("/cdrs", mine).json == {"data": [], "total": 0}


def test_calls_of_a_key_for_one_user_come_from_that_user(room: Room) -> None:
    room.server.routes[f"{room.base}/calls"] = says(sample("response-calls-post-201"), 201)
    mine = room.key("mine", "write", user=7)
    assert (
        room.client.post(f"{room.base}/calls", json={"to": "447700900001"}, headers=mine).status_code == 201
    )
    assert b'"from":"7"' in room.server.asked[-1].body
    other = {"to": "447700900001", "from": "8"}
    assert room.client.post(f"{room.base}/calls", json=other, headers=mine).status_code == 403
    assert room.client.post(f"{room.base}/sms", json={}, headers=mine).status_code == 403


def test_guesses_from_an_address_do_not_lock_good_credentials_out(room: Room) -> None:
    assert room.get("/me", {"X-Auth-Token": ADMIN}).status_code == 200
    statuses = [room.get("/ping", {"X-Auth-Token": f"{n:040x}"}).status_code for n in range(12)]
    assert set(statuses) == {401, 429}
    assert statuses[-1] == 429
    assert room.get("/ping").status_code == 200
    assert room.get("/ping", {"X-Auth-Token": ADMIN}).status_code == 200
