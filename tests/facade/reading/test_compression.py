"""Compression of JSON responses, and that it is off by default."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]
GZIP = {"Accept-Encoding": "gzip, deflate"}


@pytest.fixture(scope="module")
def compressing_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with running_app(tmp_path_factory.mktemp("gzip"), facade__gzip="true") as app:
        app.put("cdrs", *[CDR | {"id": number} for number in range(1, 21)])
        yield app


def test_a_large_response_is_compressed_for_clients_that_accept_it(compressing_app: TestApp) -> None:
    plain = compressing_app.get("/cdrs")
    packed = compressing_app.get("/cdrs", compressing_app.headers | GZIP)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data) / 3
    for response in (plain, packed):
        assert "accept-encoding" in response.vary
    # The tag is weak, so both forms have the same.
    assert packed.headers["ETag"] == plain.headers["ETag"]
    unchanged = compressing_app.get(
        "/cdrs", compressing_app.headers | GZIP | {"If-None-Match": plain.headers["ETag"]}
    )
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    assert "Content-Encoding" not in unchanged.headers


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip;q=0, *;q=0.5"])
def test_clients_that_do_not_accept_gzip_get_plain_json(compressing_app: TestApp, accepted: str) -> None:
    response = compressing_app.get("/cdrs", compressing_app.headers | {"Accept-Encoding": accepted})
    assert "Content-Encoding" not in response.headers
    assert response.json["total"] == 20
