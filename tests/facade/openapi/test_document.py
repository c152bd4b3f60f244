"""OpenAPI document and its page, compared with the routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.facade.openapi.document import build_document
from tests.support.application import TestApp, running_app

OPERATION_IDS = {
    "GET /cdrs/{id}": "get_cdr",
    "DELETE /cdrs": "delete_all_cdrs",
    "GET /users/{id}/cdrs.csv": "get_user_cdrs_csv",
    "GET /users/{id}/sms/threads/{from}/{to}": "get_user_sms_thread",
    "POST /sms": "create_sms",
    "GET /faxes/{id}.pdf": "get_fax_pdf",
    "DELETE /monitors/{id}": "delete_monitor",
    "PATCH /contacts/{id}": "update_contact",
    "GET /usergrouppolicies/{id}": "get_usergrouppolicy",
    "GET /calltracking/cdrs": "list_calltracking_cdrs",
    "GET /cdrs/dictionaries": "list_cdrs_dictionaries",
    "GET /ping": "ping",
    "POST /registrations/{hash}/resend": "resend_registration",
}


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return build_document(("/v1.2/voipstudio",), 5000)


def iter_operations(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in api["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


@pytest.mark.exhaustive
def test_the_document_is_valid_openapi(api: dict[str, Any]) -> None:
    # In the extra `examples`, which the step `exhaustive` installs.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    # The validator does not compare paths whose parameters have different names.
    shapes = [re.sub(r"\{\w+\}", "{}", path) for path in api["paths"]]
    assert len(shapes) == len(set(shapes))
    assert list(OpenAPIV31SpecValidator(api).iter_errors()) == []


def test_operation_ids_are_a_verb_and_the_words_of_the_path(api: dict[str, Any]) -> None:
    ids = {f"{method} {path}": operation["operationId"] for method, path, operation in iter_operations(api)}
    assert len(set(ids.values())) == len(ids)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) for name in ids.values())
    for name, expected in OPERATION_IDS.items():
        assert ids[name] == expected


def test_filter_is_a_text_with_an_example(api: dict[str, Any]) -> None:
    for _, path, operation in iter_operations(api):
        for parameter in operation["parameters"]:
            assert "content" not in parameter, path
            if parameter["name"] == "filter":
                assert parameter["schema"]["type"] == "string"
                assert isinstance(json.loads(parameter["example"]), list)
    filters = {
        path: parameter["example"]
        for path in ("/cdrs", "/users", "/calllabels", "/reportschedules/dictionaries")
        for parameter in api["paths"][path]["get"]["parameters"]
        if parameter["name"] == "filter"
    }
    assert filters["/cdrs"] == '[{"property":"calldate","operator":"gte","value":"2026-09-01"}]'
    assert filters["/users"] == '[{"property":"id","operator":"ne","value":null}]'
    assert filters["/reportschedules/dictionaries"] == "[]"


@pytest.mark.exhaustive
def test_recorded_payloads_fit_the_document(api: dict[str, Any]) -> None:
    """Payloads of the platform have the documented types."""
    # Takes two seconds to import, and every worker imports every file.
    from jsonschema import Draft202012Validator

    count = 0
    for method, path, operation in iter_operations(api):
        for response in [*operation["responses"].values(), operation.get("requestBody", {})]:
            for content in response.get("content", {}).values():
                if "example" in content:
                    count += 1
                    validator = Draft202012Validator({**content["schema"], "components": api["components"]})
                    problems = [error.message for error in validator.iter_errors(content["example"])]
                    assert problems == [], (method, path)
    assert count > 20


def test_page_shows_every_operation_and_loads_no_external_resource(api: dict[str, Any], app: TestApp) -> None:
    page = app.client.get("/docs", headers=app.headers).text
    for _, _, operation in iter_operations(api):
        assert f'id="{operation["operationId"]}"' in page
    sms = page.partition('id="create_sms"')[2].partition("</details>")[0]
    assert re.findall(r'<th scope="row"><code>(\w+)</code>', sms) == ["to", "from", "message"]
    assert "`" not in page
    bases = re.findall(r"<option( selected)?>(/v1\.\d)</option>", page)
    assert bases == [("", "/v1.1"), (" selected", "/v1.2")]
    assert "/v1.2/cdrs?limit=5" in page
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert loaded
    assert all(target.startswith(("/", "data:")) for target in loaded)
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/js/reference.js">']
    assert "style=" not in page


def test_the_description_needs_a_login_or_a_key(app: TestApp) -> None:
    client = app.product.site.test_client()
    for path in ("/openapi.json", "/docs"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert "WWW-Authenticate" in refused.headers
        assert client.get(path, headers={"X-Auth-Token": "0" * 40}).status_code == 401
        assert client.get(path, headers=app.headers).status_code == 200
        page = client.get(path, headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["Location"]) == (302, f"/login?next={path}")
    client.set_cookie("session", app.make_token())
    for path in ("/openapi.json", "/docs"):
        assert client.get(path, headers={"Accept": "text/html"}).status_code == 200


def test_the_description_is_public_if_configured(tmp_path: Path) -> None:
    with running_app(tmp_path, facade__public_docs="true") as app:
        for path in ("/openapi.json", "/docs"):
            assert app.client.get(path).status_code == 200
