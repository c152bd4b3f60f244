"""Files of data_dir: the generated webhook secret and the account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.core.json_records import JsonRecord
from integration.mirror.records.upsert import upsert
from integration.mirror.schema import open_mirror
from integration.server.tenant import is_same_customer
from integration.settings.data_dir_secrets import (
    ACCOUNT_FILE,
    SECRET_FILE,
    claim_data_dir,
    load_webhook_secrets,
)
from integration.settings.model import Settings
from tests.support.harness import NOWHERE
from tests.support.scripted_server import Server


def settings(
    folder: Path, base_url: str = "https://api.example.com/v1.2", user: str = "100001", **more: Any
) -> Settings:
    platform = {"base_url": base_url, "user_id": user, "api_key": "k"}
    return Settings.model_validate({"platform": platform, "storage": {"data_dir": folder}, **more})


def test_a_secret_is_generated_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (secret,) = load_webhook_secrets(settings(folder))
    assert len(secret) >= 43
    assert load_webhook_secrets(settings(folder)) == [secret]
    assert (folder / SECRET_FILE).stat().st_mode & 0o777 == 0o600
    assert load_webhook_secrets(settings(tmp_path / "other")) != [secret]


def test_configured_secrets_replace_the_generated_one(tmp_path: Path) -> None:
    assert load_webhook_secrets(settings(tmp_path, webhooks={"secret": ["new", "old"]})) == ["new", "old"]
    assert not (tmp_path / SECRET_FILE).exists()


def test_an_empty_secret_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / SECRET_FILE).write_text("\n")
    with pytest.raises(SwitchroomError, match="is empty"):
        load_webhook_secrets(settings(tmp_path))


def test_a_data_dir_belongs_to_one_account(tmp_path: Path) -> None:
    claim_data_dir(settings(tmp_path))
    claim_data_dir(settings(tmp_path))
    claim_data_dir(settings(tmp_path, base_url="https://api.example.com/v1.1"))
    assert (tmp_path / ACCOUNT_FILE).stat().st_mode & 0o777 == 0o600
    for other in (
        settings(tmp_path, user="200002"),
        settings(tmp_path, base_url="https://api.example.org/v1.2"),
    ):
        with pytest.raises(ConfigurationError, match=r"storage\.data_dir: .* holds account 100001"):
            claim_data_dir(other)
    with pytest.raises(ConfigurationError):
        claim_data_dir(settings(tmp_path, base_url="https://api.example.org/v1.2"), lambda: True)


@pytest.mark.parametrize(
    ("customer", "mirrored", "is_accepted"), [(7, 7, True), ("7", 7, True), (8, 7, False), (7, None, False)]
)
def test_another_login_is_accepted_only_for_the_mirrored_customer(
    tmp_path: Path, customer: object, mirrored: object, is_accepted: bool
) -> None:
    server = Server()
    server.routes["*"] = lambda _, reply: reply.json({"data": {"id": 9, "customer_id": customer}})
    before = settings(tmp_path, base_url=f"{server.url}/v1.2")
    claim_data_dir(before)
    mirror = open_mirror(tmp_path / "mirror.db")
    if mirrored is not None:
        me = {"id": 1, "customer_id": mirrored}
        mirror.write(
            lambda tx: upsert(
                tx, get_resource("me"), [JsonRecord(json.dumps(me), me)], source="sync", requested_at="2026"
            )
        )
    mirror.close()
    other = settings(tmp_path, base_url=f"{server.url}/v1.2", user="100002")
    try:
        if is_accepted:
            claim_data_dir(other, lambda: is_same_customer(other))
            claim_data_dir(other)
        else:
            with pytest.raises(ConfigurationError, match="holds account 100001"):
                claim_data_dir(other, lambda: is_same_customer(other))
            claim_data_dir(before)
    finally:
        server.close()


def test_another_login_is_rejected_while_the_platform_is_unreachable(tmp_path: Path) -> None:
    claim_data_dir(settings(tmp_path, base_url=NOWHERE))
    other = settings(tmp_path, base_url=NOWHERE, user="100002")
    with pytest.raises(ConfigurationError, match="holds account 100001"):
        claim_data_dir(other, lambda: is_same_customer(other))


def test_a_damaged_account_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ACCOUNT_FILE).write_text("{")
    with pytest.raises(SwitchroomError, match="is damaged"):
        claim_data_dir(settings(tmp_path))
