from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from integration.access import keys
from integration.core.errors import DomainError
from integration.sqlite.database import Database


def test_key_has_the_form_of_platform_keys(app_db: Database) -> None:
    user_id, secret = keys.add(app_db, "crm", "read")
    assert re.fullmatch(r"[0-9]{6,7}:[a-f0-9]{40}", f"{user_id}:{secret}")
    assert secret.encode() not in b"".join(path.read_bytes() for path in app_db.path.parent.glob("house.db*"))


def test_key_is_accepted_with_and_without_its_user_id(app_db: Database) -> None:
    user_id, secret = keys.add(app_db, "crm", "write", ["cdrs", "/sms/cannedresponses"], 412345)
    for user_part in (str(user_id), None):
        key = keys.authenticate(app_db, user_part, secret)
        assert key is not None
        assert (key.name, key.scope, key.platform_user_id) == ("crm", "write", 412345)
        assert key.can_access("/cdrs")
        assert key.can_access("sms/cannedresponses")
        assert not key.can_access("users")


@pytest.mark.parametrize("spoil", ["secret", "user", "case", "empty", "surrogate"])
def test_wrong_credentials_match_no_key(app_db: Database, spoil: str) -> None:
    user_id, secret = keys.add(app_db, "crm", "read")
    wrong = {
        "secret": (str(user_id), "0" * 40),
        "user": (str(user_id + 1), secret),
        "case": (str(user_id), secret.upper() if secret.upper() != secret else "A" * 40),
        "empty": (str(user_id), ""),
        "surrogate": (None, "\udcff"),
    }
    assert keys.authenticate(app_db, *wrong[spoil]) is None


def test_revoked_key_is_rejected_and_its_name_reusable(app_db: Database) -> None:
    user_id, secret = keys.add(app_db, "crm", "read")
    keys.revoke(app_db, "crm")
    assert keys.authenticate(app_db, str(user_id), secret) is None
    assert keys.list_all(app_db) == []
    new_id, _ = keys.add(app_db, "crm", "read")
    assert new_id != user_id
    with pytest.raises(DomainError, match="no key"):
        keys.revoke(app_db, "other")


def test_second_key_of_a_name_is_rejected(app_db: Database) -> None:
    keys.add(app_db, "crm", "read")
    with pytest.raises(DomainError, match="already"):
        keys.add(app_db, "crm", "read")


def test_user_id_of_a_key_is_no_reserved_id(app_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    few = keys.USER_IDS[:200]
    monkeypatch.setattr(keys, "USER_IDS", few)
    assert keys.add(app_db, "crm", "read", reserved_ids=set(few) - {few[7]})[0] == few[7]


def test_platform_user_ids_are_read_from_the_mirror(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.db"
    assert keys.list_platform_user_ids(mirror) == set()
    connection = sqlite3.connect(mirror)
    assert keys.list_platform_user_ids(mirror) == set()
    connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO users VALUES (?)", [(412345,), (9000001,)])
    connection.commit()
    connection.close()
    assert keys.list_platform_user_ids(mirror) == {412345, 9000001}


@pytest.mark.parametrize(
    ("name", "scope", "collections"),
    [
        ("", "read", None),
        ("a\nb", "read", None),
        ("crm", "all", None),
        ("crm", "read", []),
        ("crm", "read", ["../x"]),
    ],
)
def test_invalid_key_options_are_rejected(
    app_db: Database, name: str, scope: str, collections: list[str] | None
) -> None:
    with pytest.raises(DomainError):
        keys.add(app_db, name, scope, collections)


def test_time_of_use_is_stored(app_db: Database) -> None:
    user_id, secret = keys.add(app_db, "crm", "read")
    assert keys.list_all(app_db)[0].used_at is None
    keys.authenticate(app_db, str(user_id), secret)
    app_db.write(lambda tx: None)
    assert keys.list_all(app_db)[0].used_at is not None
