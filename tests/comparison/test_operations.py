"""Each operation against expectations from the specification, without the catalogue.

The platform's bodies have the form of PHP's JSON: escaped slashes and characters, spaces between members.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.comparison.account import COLLECTIONS, Account, sync, write_as_php, write_compact
from tests.comparison.operations import DOCUMENTED_OPERATIONS, DocumentedOperation
from tests.comparison.record_fields import RECORD_FIELDS, SHAPELESS, make_values
from tests.support.applications.shared_app import SharedApp, running_shared_app
from tests.support.fake_exchange import ADMINISTRATOR, read_fixture
from tests.support.payloads.operation_bodies import GOOD

pytestmark = pytest.mark.exhaustive

BY_NAME = {operation.name: operation for operation in DOCUMENTED_OPERATIONS}
REQUEST_BODIES = GOOD | {
    "POST /login": {"email": "ann@example.com", "password": "x"},
    "POST /login2fa": {"code": "123456", "nonce": "n"},
    "POST /reset": {"token": "t", "password": "new"},
    "PATCH /cdrs": [{"id": 7, "labels": ["vip"]}],
    "PATCH /voicemessages": [{"id": 7, "folder": "Old"}],
}
RESPONDS_ITSELF = {"GET /ping", "GET /users/{id}/cdrs.csv"}
"""Operations that need no response of the platform."""
WITHOUT_CREDENTIALS = {
    "POST /login", "POST /login2fa", "POST /confirmation", "POST /password", "POST /reset",
    "POST /registrations", "GET /registrations/{hash}", "PATCH /registrations/{hash}",
    "POST /registrations/{hash}/resend", "GET /registrations/{hash}/numbers/{areacode}",
}  # fmt: skip
PATH_VALUES = {
    "id": "7", "ids": "7,8", "e164": "442079460007", "from": "447700900101", "to": "442079460002",
    "hash": "f00d", "areacode": "020",
}  # fmt: skip
ERROR = (
    b'{"message":"Validation error", "errors":'
    b'[{"code":"SF0010","field":"id","message":"caf\\u00e9 \\/ bad"}]}'
)
FILE_BODIES = {
    "mp3": b"\xff\xfb" + bytes(range(256)),
    "trace": b"INVITE sip:1002@example.net SIP/2.0\r\n\r\n",
    "pcap": b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(16),
}


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("operations")
    # Refusals reduce the budget, which tests must not wait for.
    options = {"facade__destructive": "true", "sync__max_requests_per_minute": "6000000"}
    with running_shared_app(folder, **options) as app:
        yield app


@pytest.fixture
def app(module_app: SharedApp) -> SharedApp:
    module_app.clear()
    return module_app


def fill(path: str) -> str:
    for name, value in PATH_VALUES.items():
        path = path.replace("{" + name + "}", value)
    return path


def make_body(operation: DocumentedOperation, status: int) -> bytes:
    """The platform's body for `operation`, as the specification shows its envelope."""
    record = make_values(operation.record, 7)
    if status == 202:
        return b'{"message":"Accepted"}'
    if operation.path.startswith("/calllabels/") and status != 204:
        return write_as_php({"data": record, "links": {"self": fill(operation.path)}}).encode()
    if operation.path == "/me":
        # The facade verifies the client with this record.
        record = {**record, "id": 1000009, "customer_id": 100001, "is_root": True}
    texts = {
        "list": write_as_php({"data": [record, make_values(operation.record, 8)], "total": 2}),
        "item": write_as_php({"data": record, "links": {"self": fill(operation.path)}}),
        "message": write_as_php({"message": "Done", "user_token": "f" * 40, "user_id": 7}),
        "free": write_as_php({"data": record, "links": {}} if status == 201 else {"data": [record]}),
        "empty": "",
        "file": "",
    }
    return texts[operation.envelope].encode()


def respond(app: SharedApp, operation: DocumentedOperation, status: int, body: bytes) -> None:
    suffix = operation.path.rpartition(".")[2]
    kind = "application/octet-stream" if operation.envelope == "file" else "application/json"
    content = FILE_BODIES.get(suffix, body) if status < 300 else body
    app.platform.routes[fill(operation.path)] = lambda request, reply: reply.content(content, kind, status)


def send(app: SharedApp, operation: DocumentedOperation, *, authenticated: bool = True) -> Any:
    """The facade's response to an administrator with a credential of the platform."""
    body = REQUEST_BODIES.get(operation.name)
    # The facade passes ten requests without credentials per minute and address.
    address = f"127.0.1.{DOCUMENTED_OPERATIONS.index(operation) + 1}"
    return app.client.open(
        app.base + fill(operation.path),
        method=operation.method,
        headers={"X-Auth-Token": ADMINISTRATOR} if authenticated else {},
        data=None if body is None else write_as_php(body).encode(),
        content_type=None if body is None else "application/json",
        environ_overrides={"REMOTE_ADDR": address},
    )


def disconnect(app: SharedApp) -> None:
    """Let every request of the platform fail, after the administrator's credential was verified."""
    assert app.get("/ping", {"X-Auth-Token": ADMINISTRATOR}).status_code == 200
    app.platform.fail()


def find_requests(app: SharedApp, operation: DocumentedOperation) -> list[Any]:
    path = fill(operation.path)
    return [
        entry for entry in app.platform.requests if (entry.method, entry.path) == (operation.method, path)
    ]


# --- the table ----------------------------------------------------------------------------------------


def test_facade_offers_the_165_operations_with_their_statuses(app: SharedApp) -> None:
    assert len(BY_NAME) == 165
    paths = app.client.get("/openapi.json", headers={"X-Auth-Token": ADMINISTRATOR}).json["paths"]
    offered = {
        f"{method.upper()} {path}": {int(status) for status in entry["responses"] if status.isdigit()}
        for path, methods in paths.items()
        for method, entry in methods.items()
    }
    missing = {
        # A path that takes several ids is one with a path that takes one id.
        operation.name: sorted(
            {*operation.success, *operation.refusals}
            - offered.get(operation.name.replace("{ids}", "{id}"), set())
        )
        for operation in DOCUMENTED_OPERATIONS
    }
    assert {name: statuses for name, statuses in missing.items() if statuses} == {}


# --- passed responses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (name, status)
        for name, row in BY_NAME.items()
        for status in row.success
        if name not in RESPONDS_ITSELF
    ],
)
def test_response_of_the_platform_is_passed_byte_for_byte(app: SharedApp, name: str, status: int) -> None:
    operation = BY_NAME[name]
    body = make_body(operation, status)
    respond(app, operation, status, body)
    if operation.envelope == "file":
        record = {"id": 7, "size": len(FILE_BODIES["mp3"]), "timestamp": "2026-09-02 08:45:55"}
        app.platform.respond(fill(operation.path).rpartition(".")[0], {"data": record, "links": {}})
        body = FILE_BODIES[operation.path.rpartition(".")[2]]
        response = send(app, operation)
        assert (response.status_code, response.data) == (200, body)
        return
    response = send(app, operation)
    assert (response.status_code, response.data) == (status, body)
    sent = find_requests(app, operation)
    # One request verifies the client's credential with GET /me.
    assert len(sent) == (2 if name == "GET /me" else 1)
    if name in REQUEST_BODIES:
        assert sent[0].body == write_as_php(REQUEST_BODIES[name]).encode()


@pytest.mark.parametrize("name", [name for name, row in BY_NAME.items() if set(row.refusals) - {401}])
def test_refusals_of_the_platform_are_passed(app: SharedApp, name: str) -> None:
    operation = BY_NAME[name]
    for status in set(operation.refusals) - {401}:
        app.clear()
        respond(app, operation, status, ERROR)
        if operation.envelope == "file":
            app.platform.respond(fill(operation.path).rpartition(".")[0], {"data": {"id": 7}, "links": {}})
        response = send(app, operation)
        assert response.status_code == status
        if operation.envelope == "file":
            assert set(response.json) == {"message", "errors"}, status
        else:
            assert response.data == ERROR, status


def test_operation_without_credentials_is_401(app: SharedApp) -> None:
    for name in BY_NAME.keys() - WITHOUT_CREDENTIALS:
        response = send(app, BY_NAME[name], authenticated=False)
        assert (response.status_code, set(response.json)) == (401, {"message", "errors"}), name
        assert isinstance(response.json["message"], str), name
        assert response.json["errors"] == [], name
    assert app.platform.requests == []


@pytest.mark.parametrize("name", sorted(WITHOUT_CREDENTIALS))
def test_public_operation_carries_no_credentials(app: SharedApp, name: str) -> None:
    operation = BY_NAME[name]
    respond(app, operation, 200, b"{}")
    assert send(app, operation, authenticated=False).status_code == 200
    (request,) = find_requests(app, operation)
    assert {"X-Auth-Token", "Authorization"} & {header.title() for header in request.headers} == set()


# --- responses from the mirror ------------------------------------------------------------------------


def mirror(
    app: SharedApp, collection: str, *records: dict[str, Any], own_forms: dict[str, Any] | None = None
) -> None:
    """Let the product read a collection with these records from the platform."""
    account = Account(app.platform)
    account.lists[collection] = list(records)
    account.own_forms.update(own_forms or {})
    sync(app, collection, full=True)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_documented_field_can_be_filtered_and_sorted(app: SharedApp, collection: str) -> None:
    record = BY_NAME[f"GET /{collection}"].record
    mirror(app, collection, make_values(record, 7), make_values(record, 8))
    for name, kind in RECORD_FIELDS.get(record, SHAPELESS).items():
        if kind == "array":
            continue
        value = make_values(record, 7)[name]
        condition = json.dumps([{"property": name, "operator": "eq", "value": value}])
        query = {"filter": condition, "sort": name, "dir": "DESC"}
        response = app.get(f"/{collection}", {"X-Auth-Token": ADMINISTRATOR}, query_string=query)
        assert response.status_code == 200, (name, response.json)
        assert [str(row["id"]) for row in response.json["data"]] == ["7"], name


# --- samples of the real platform ---------------------------------------------------------------------

SAMPLES = {
    "response-cdrs-list-200": "GET /cdrs",
    "response-faxes-list-200": "GET /faxes",
    "response-monitors-list-200": "GET /monitors",
    "response-sms-list-200": "GET /sms",
    "response-users-list-200": "GET /users",
    "response-voicemessages-list-200": "GET /voicemessages",
    "response-filter-400": "GET /contacts",
    "response-me-200": "GET /me",
    "response-queue-200": "GET /queues/{id}",
    "response-callmeback-settings-200": "GET /callmeback/settings/{id}",
    "response-calls-post-201": "POST /calls",
    "response-calls-post-400": "POST /calls",
    "response-calls-post-412": "POST /calls",
    "response-leadcalls-post-400": "POST /leadcalls",
    "response-webcalls-post-400": "POST /webcalls",
    "response-login-200": "POST /login",
    "response-login-202-2fa": "POST /login",
    "response-login-400": "POST /login",
    "response-login-400-field-errors": "POST /login",
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_sample_is_passed_byte_for_byte(app: SharedApp, sample: str) -> None:
    operation = BY_NAME[SAMPLES[sample]]
    status = next(int(part) for part in sample.split("-") if part.isdigit())
    content = read_fixture(sample)
    body = write_as_php(content).encode()
    respond(app, operation, status, body)
    response = send(app, operation)
    assert response.status_code == status
    if operation.method == "GET" and content.get("links") == {}:
        # Links that the platform does not send are added.
        assert write_compact(response.json["data"]) == write_compact(content["data"])
    else:
        assert response.data == body


@pytest.mark.parametrize("sample", [name for name in SAMPLES if "-list-" in name])
def test_sample_in_the_mirror_is_equal(app: SharedApp, sample: str) -> None:
    operation = BY_NAME[SAMPLES[sample]]
    body = read_fixture(sample)
    mirror(app, operation.path[1:], *body["data"])
    disconnect(app)
    response = app.get(operation.path, {"X-Auth-Token": ADMINISTRATOR})
    assert response.data == write_compact(body)
